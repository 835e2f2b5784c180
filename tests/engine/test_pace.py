"""How long trials take here, if those known are of another machine."""

from __future__ import annotations

import pytest

from ablate.engine.pace import Pace


def test_what_evaluates_follows_evaluations_and_what_trains_follows_trainings():
    """Here training takes three times as long as there, and evaluation half as long."""
    pace = Pace()
    there = {"base": (100, 4), "doc": (50, 2), "judged": (40, 0), "followed": (60, 0)}
    for kind, (seconds, epochs) in there.items():
        pace.took(kind, seconds, epochs, here=False)
    assert pace.usual("followed", 0, {}) == 60
    pace.took("base", 300, 4, here=True)
    assert pace.usual("followed", 0, {}) == pytest.approx(3 * 60)  # nothing was evaluated yet
    pace.took("judged", 20, 0, here=True)
    assert pace.usual("followed", 0, {}) == pytest.approx(60 / 2)
    assert pace.usual("doc", 2, {}) == pytest.approx(3 * 50)
    busy = {"base": [(600, 4)]}  # one that runs counts less than one that has ended here
    assert pace.usual("doc", 2, busy) == pytest.approx(3 * 50)
    assert pace.usual("judged", 0, {}) == 20
