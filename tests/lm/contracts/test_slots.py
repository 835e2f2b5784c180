"""Every registered technique keeps the contracts of its slot, those of `ablate.lm.testing`."""

from __future__ import annotations

import pytest

from ablate.config import registry
from ablate.lm.testing import Subject, check_technique

MISSING = dict.fromkeys(("output", "mogrifier", "bridge", "gate"), 0.0)  # in the small model
VALUES = {
    **{name: {f"regularizer.{name}.{k}": v for k, v in MISSING.items()} for name in ("l1", "l2")},
    "characters": {"words.widths": (1, 2), "words.features": (3, 5), "words.symbols": 19},
    "xlstm": {"backbone.slstm_at": (2,)},  # a layer of each kind
    "sgd": {"optimizer.momentum": 0.5},  # which it has to keep
    "fraternal_dropout": {"regularizer.variational_dropout.output": 0.5},  # two passes that differ
}
SUBJECTS = [
    Subject(slot, name, VALUES.get(name, {}))
    for slot in registry.slots()
    for name in registry.names(slot)
]


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda each: f"{each.slot}-{each.name}")
def test_it_keeps_its_contracts(subject):
    check_technique(subject.slot, subject.name, values=subject.values)
