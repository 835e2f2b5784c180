"""What arms were trained with, told next to the base arm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ablate.compare.judged import Judged
from ablate.compare.page.as_trained import differences
from tests.support.studies_by_hand import ByHand


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
