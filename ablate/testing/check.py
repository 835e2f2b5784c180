"""All contracts of a slot, and a technique held to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ablate.config import registry
from ablate.testing import (
    backbone,
    config,
    evaluator,
    head,
    loss,
    optimizer,
    parameters,
    regularizer,
)
from ablate.testing.subject import Subject
from ablate.trial.run import load_modules

Contract = Callable[[Subject], None]
_CONTRACTS: Mapping[str, tuple[Contract, ...]] = {
    "backbone": (*parameters.CONTRACTS, *backbone.CONTRACTS),
    "bridge": (*parameters.CONTRACTS, head.width_of_a_bridge),
    "head": (*parameters.CONTRACTS, *head.CONTRACTS),
    "gate": (*parameters.CONTRACTS, *head.GATE_CONTRACTS),
    "loss": loss.CONTRACTS,
    "regularizer": regularizer.CONTRACTS,
    "optimizer": optimizer.CONTRACTS,
    "evaluator": evaluator.CONTRACTS,
}


def contracts(slot: str) -> tuple[Contract, ...]:
    """Return everything that a technique of the slot is held to."""
    return (*config.CONTRACTS, *_CONTRACTS[slot])


def check_technique(
    slot: str,
    name: str,
    *,
    file: str | Path | None = None,
    values: Mapping[str, Any] | None = None,
) -> None:
    """Hold a technique to every contract of its slot; an `AssertionError` names the broken one.

    `file` registers the technique, unless it was imported before. `values` are set as in a study
    (`{"head.rank": 4}`): fields without a default need one. A regularizer is tested with each of
    its numbers at 0.5 where `values` sets none.
    """
    if file is not None and name not in registry.names(slot):
        load_modules((str(file),))
    subject = Subject(slot, name, values or {})
    for contract in contracts(slot):
        try:
            contract(subject)
        except AssertionError as error:
            promise = (contract.__doc__ or contract.__name__).splitlines()[0]
            raise AssertionError(f"{slot} {name}: broken: {promise}\n{error}") from error
