"""The coordinate check tells a model whose changes do not grow with the width from one whose do."""

from __future__ import annotations

import numpy as np
import pytest

from ablate.errors import CombinationError, ConfigError
from ablate.lm.analysis import coordinate_check
from ablate.lm.analysis.coordinate_check import CoordinateCheckOptions, slopes
from ablate.lm.analysis.subject import Subject
from ablate.store.journal import Journal
from tests.lm.analysis.conftest import SHARED
from tests.support import trials

LSTM = {
    **SHARED,
    "embedding.size": 8,
    "backbone": "lstm",
    "backbone.num_layers": 1,
    "backbone.units": 16,
    "head": "softmax",
}
BASE = {"training.base_width": 16}
SMALL = CoordinateCheckOptions(widths=(16, 32, 64, 128), steps=2, rows=4, window=12)
SGD = {"optimizer": "sgd", "optimizer.learning_rate": 1.0}
CASES = {
    "lstm": {},
    "tied": {"embedding.size": 16, "head.tied": True},
    "wide": {"backbone.initial_range": 0.1},
    "sgd": {**SGD, "embedding.size": 16, "backbone.initial_range": 0.25},
    "momentum": {
        **SGD,
        "optimizer.momentum": 0.9,
        "embedding.size": 16,
        "head.tied": True,
        "backbone.initial_range": 0.25,
    },
    "muon": {"optimizer": "muon", "optimizer.learning_rate": 0.1, "optimizer.scale": "like_adamw"},
}


def untrained(place, values) -> Subject:
    trial = trials.made({**LSTM, **values}, place.data, arm="any")
    return Subject(Journal(trial=trial), place.store, place.data)


def growths(finding) -> list[float]:
    """The slopes of changes after a step."""
    return [row[-1] for row in finding.rows if row[-1] is not None]


def test_slopes_are_exponents():
    widths = [2, 4, 8]
    sizes = np.array([[[3 * w**0.5, 7.0, w**-1.0]] for w in widths])
    np.testing.assert_allclose(slopes(widths, sizes), [[0.5, 0, -1]], atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_with_a_base_width_nothing_grows_and_without_it_does(case, place):
    right = coordinate_check.run(untrained(place, {**CASES[case], **BASE}), options=SMALL)
    wrong = coordinate_check.run(untrained(place, CASES[case]), options=SMALL)
    assert max(map(abs, growths(right))) < 0.1 and max(growths(wrong)) > 0.3
    assert "muP with base width 16: no change grows" in right.notes[0]
    assert "without muP: changes grow" in wrong.notes[0]


BLOCKS = {
    "transformer": {"backbone.initial_range": 0.2},
    "mamba2": {"backbone.state": 8},
    "xlstm": {"backbone.slstm_at": [2]},
    "gated_delta": {"backbone.initial_deviation": 0.2},
    "mingru": {},
    "lru": {"backbone.state": 16},
}


@pytest.mark.parametrize("backbone", BLOCKS)
def test_changes_of_backbones_of_residual_layers_do_not_grow(backbone, place):
    own = {"embedding.size": 16, "backbone": backbone, "backbone.num_layers": 2}
    values = {**own, **BLOCKS[backbone]}
    one = CoordinateCheckOptions(widths=(16, 32, 64), steps=2, seeds=2, rows=4, window=12)
    right = coordinate_check.run(untrained(place, {**values, **BASE}), options=one)
    wrong = coordinate_check.run(untrained(place, values), options=one)
    # Not below 0.1: heads get wider here, and products of xLSTM's queries and keys with them.
    assert max(growths(right)) < 0.25 and max(growths(wrong)) > 0.5
    for row in right.rows:
        narrow, wide = row[2], row[4]
        # What an untrained model says falls with the width, and what it learned does not.
        assert row[0] == "logits" or narrow / 1.4 < wide < narrow * 1.4, row


def test_its_options_change_the_trial_and_the_table_has_every_width(place):
    one = CoordinateCheckOptions(
        widths=(64, 16), steps=1, seeds=1, base_width=16, learning_rate=0.0, rows=2, window=6
    )
    finding = coordinate_check.run(untrained(place, {}), options=one)
    assert finding.columns == ["layer", "step", "at 16", "at 64", "slope", "of the change"]
    assert [row[:2] for row in finding.rows] == [
        [layer, step] for layer in ("word vectors", "layer 1", "logits") for step in (0, 1)
    ]
    for before, after in zip(finding.rows[::2], finding.rows[1::2], strict=True):
        assert before[2:4] == after[2:4], "a rate of 0 changes nothing"
    assert "base width 16" in finding.notes[0]


def test_what_has_no_widths_is_refused(place, ngram):
    with pytest.raises(ConfigError, match="a slope needs two at least"):
        coordinate_check.run(untrained(place, {}), options=CoordinateCheckOptions(widths=(16, 16)))
    with pytest.raises(ConfigError, match="unknown field 'cells'"):
        options = CoordinateCheckOptions(fields=("backbone.cells",))
        coordinate_check.run(untrained(place, {}), options=options)
    with pytest.raises(CombinationError, match="trains no whole language model"):
        coordinate_check.run(ngram, options=CoordinateCheckOptions())
