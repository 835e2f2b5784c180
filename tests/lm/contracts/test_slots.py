"""Every registered technique keeps the contracts of its slot, those of `ablate.lm.testing`."""

from __future__ import annotations

import pytest

from ablate.config import registry
from ablate.lm.testing import Subject, contracts

MISSING = dict.fromkeys(("output", "mogrifier", "bridge", "gate"), 0.0)  # in the small model
VALUES = {
    **{name: {f"regularizer.{name}.{k}": v for k, v in MISSING.items()} for name in ("l1", "l2")},
    "characters": {"words.widths": (1, 2), "words.features": (3, 5), "words.symbols": 19},
    "xlstm": {"backbone.slstm_at": (2,)},  # a layer of each kind
    "fraternal_dropout": {"regularizer.variational_dropout.output": 0.5},  # two passes that differ
}
SUBJECTS = [
    Subject(slot, name, VALUES.get(name, {}))
    for slot in registry.slots()
    for name in registry.names(slot)
]
EVERY = [
    pytest.param(contract, subject, id=f"{subject.slot}-{subject.name}-{contract.__name__}")
    for subject in SUBJECTS
    for contract in contracts(subject.slot)
]


@pytest.mark.parametrize(("contract", "subject"), EVERY)
def test_it_keeps(contract, subject):
    contract(subject)
