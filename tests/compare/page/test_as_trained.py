"""What arms were trained with, told next to the base arm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ablate.compare.judged import Judged
from ablate.compare.page.as_trained import _difference, differences
from tests.support.studies_by_hand import ByHand


def test_what_an_arm_was_trained_with_names_added_and_left_out_techniques():
    base = {"head": "mos", "regularizer.l2.weight": 1e-6, "training.clip": 1.0}
    ours = {"head": "mos", "regularizer.dropout.input": 0.2, "regularizer.dropout.output": 0.0}
    assert _difference({**ours, "training.clip": 2.0}, base) == {
        "regularizer.l2": "without regularizer.l2",
        "regularizer.dropout.input": "regularizer.dropout.input = 0.2",
        "training.clip": "training.clip = 2.0",
    }
    assert _difference(base, base) == {}


class Reads(tuple):
    """The trials of a record; counts how often all of them are read."""

    num = 0

    def __iter__(self):
        Reads.num += 1
        return super().__iter__()


@pytest.mark.parametrize("num", [3, 30])
def test_what_arms_trained_with_is_told_from_one_reading_of_the_trials(num, monkeypatch):
    monkeypatch.setattr(Reads, "num", 0)
    study = ByHand({f"arm {i}": [4.0, 4.1] for i in range(num)}, "arm 0")
    record = replace(study.record, trials=Reads(study.trials))
    assert len(differences(Judged(record, study.journals))) == num and Reads.num == 1
