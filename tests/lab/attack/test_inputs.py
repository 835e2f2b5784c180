"""A slice of the attack with wrong inputs; `make attack` tries a thousand of each kind."""

from __future__ import annotations

import pytest

from ablate.config import tasks
from tests.lab.attack import inputs
from tests.lab.attack.tally import Tally


@pytest.fixture
def place(tmp_path, data, monkeypatch) -> inputs.Place:
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))  # wrong studies register tasks too
    return inputs.Place(tmp_path, data)


@pytest.mark.slow
@pytest.mark.parametrize("kind", inputs.KINDS)
def test_wrong_inputs_end_with_one_clear_error(place, kind):
    tally = inputs.attack_kind(place, kind, seed=20261122, tries=6)
    assert tally == Tally(kind, tried=6), "\n".join(tally.examples)
