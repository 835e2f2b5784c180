"""Learning curves against the journal; timescales against what a trial starts from."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from matplotlib.figure import Figure

from ablate.errors import TrialError
from ablate.lm.analysis import NoOptions, learning_curve, timescales
from ablate.lm.analysis.learning_curve import LearningCurveOptions
from ablate.trial.checkpoint import read_weights


def test_a_curve_is_the_journals(irlm, doc):
    finding = learning_curve.run(irlm, doc, options=LearningCurveOptions())
    epochs = [epoch for subject in (irlm, doc) for epoch in subject.journal.epochs]
    assert [row[1] for row in finding.rows] == [1, 2, 1, 2]
    for row, epoch in zip(finding.rows, epochs, strict=True):
        assert row[3] == pytest.approx(epoch.metrics["valid_ppl"])
        assert math.log(row[2]) == pytest.approx(epoch.metrics["train_nll"])


def test_a_loss_other_than_cross_entropy_is_shown_as_no_perplexity(irlm, doc):
    trial = irlm.journal.trial
    augmented = replace(trial, values={**trial.values, "loss": "augmented"})
    other = replace(irlm, journal=replace(irlm.journal, trial=augmented))
    finding = learning_curve.run(other, doc, options=LearningCurveOptions())
    assert [row[2] is None for row in finding.rows] == [True, True, False, False]
    assert all(row[3] > 1 for row in finding.rows)
    assert finding.notes[-1].endswith("trained by the loss 'augmented', which is no perplexity")
    axes = Figure().add_subplot()
    finding.draw(axes)
    assert len(axes.get_lines()) == 3


def test_what_has_no_epochs_is_refused(irlm, ngram):
    with pytest.raises(TrialError, match="it does not train"):
        learning_curve.run(ngram, options=LearningCurveOptions())
    with pytest.raises(TrialError, match="no epoch from 3 on: it ended after epoch 2"):
        learning_curve.run(irlm, options=LearningCurveOptions(first=3))


def test_timescales_are_counted(train, irlm):
    """Units of r 0.9 remember over -1 / log 0.9 = 9.5 tokens, of 0 over none, of 1 for ever."""
    groups = {"groups": (4, 3, 1), "initial": (0.9, 0.0, 1.0), "recurrent_rate": 0.0}
    changes = {f"backbone.{name}": value for name, value in groups.items()}
    fixed = train({**irlm.journal.trial.values, **changes}, "fixed")
    finding = timescales.run(fixed, NoOptions())
    counts = {row[0]: row[1] for row in finding.rows if row[1]}
    assert counts == {"0 to 1": 3, "5 to 10": 4, "over 1000": 1}
    assert finding.notes == ["median 9.49, longest infinite"]
    assert read_weights(fixed.store, fixed.id)["backbone.r"].tolist()[-1] == 1
