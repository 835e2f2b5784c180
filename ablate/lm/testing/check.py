"""All contracts of a slot, and checking a technique against them.

Every public function of the files below is a contract; those of `head` apply to some slots only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import getmodule, isfunction
from pathlib import Path
from types import ModuleType
from typing import Any

from ablate.config import registry
from ablate.errors import ConfigError, unknown
from ablate.lm.testing import (
    backbone,
    config,
    encoder_decoder,
    evaluator,
    head,
    loss,
    optimizer,
    parameters,
    regularizer,
    schedule,
    words,
)
from ablate.lm.testing.subject import Subject
from ablate.trial.run import load_own

Contract = Callable[[Subject], None]


def _contracts_in(*modules: ModuleType) -> tuple[Contract, ...]:
    # In the order of the files, without the functions that they import.
    return tuple(
        value
        for module in modules
        for name, value in vars(module).items()
        if isfunction(value) and getmodule(value) is module and not name.startswith("_")
    )


_OF_A_DISTRIBUTION = (head.probabilities_sum_to_one, head.loss_is_the_distributions)
_CONTRACTS: Mapping[str, tuple[Contract, ...]] = {
    "words": _contracts_in(parameters, words),
    "backbone": _contracts_in(parameters, backbone),
    "bridge": (*_contracts_in(parameters), head.width_of_a_bridge),
    "head": (*_contracts_in(parameters), head.shapes_of_a_mixture, *_OF_A_DISTRIBUTION),
    "gate": (*_contracts_in(parameters), head.shapes_of_a_signal, *_OF_A_DISTRIBUTION),
    "loss": _contracts_in(loss),
    "regularizer": _contracts_in(regularizer),
    "optimizer": _contracts_in(optimizer),
    "schedule": _contracts_in(schedule),
    "evaluator": _contracts_in(evaluator),
    "encoder": _contracts_in(parameters, encoder_decoder),
    "attention": _contracts_in(parameters, encoder_decoder),
}


def contracts(slot: str) -> tuple[Contract, ...]:
    """Return every promise that a technique of the slot must keep."""
    return (*_contracts_in(config), *_CONTRACTS[slot])


def check_technique(
    slot: str,
    name: str,
    *,
    file: str | Path | None = None,
    values: Mapping[str, Any] | None = None,
) -> None:
    """Check every contract of a technique's slot; an `AssertionError` names the broken one.

    `file` registers the technique, unless it was imported before. `values` are set as in a study
    (`{"head.rank": 4}`): fields without a default need one. A regularizer is tested with each of
    its numbers at 0.5 where `values` sets none.
    """
    if slot not in _CONTRACTS:  # a sampler's promises are Optuna's
        raise ConfigError(unknown("slot with contracts", slot, _CONTRACTS))
    if file is not None and name not in registry.names(slot):
        load_own((str(file),))
    subject = Subject(slot, name, values or {})
    for contract in contracts(slot):
        try:
            contract(subject)
        except AssertionError as error:
            raise AssertionError(f"{slot} {name}: broken: {promise(contract)}\n{error}") from error


def promise(contract: Contract) -> str:
    """Return what a contract promises: the first paragraph of its docstring, on one line."""
    return " ".join((contract.__doc__ or contract.__name__).partition("\n\n")[0].split())
