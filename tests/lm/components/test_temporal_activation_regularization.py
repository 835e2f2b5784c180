"""TAR by its formula (its values and gradients inside AWD-LSTM: test_lstm.py)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from ablate.lm.components.regularizer.temporal_activation_regularization import (
    TemporalActivationRegularization,
    TemporalActivationRegularizationConfig,
)
from ablate.lm.model.flow import Pass

TAR = TemporalActivationRegularization(TemporalActivationRegularizationConfig(beta=3.0))


def test_it_is_the_mean_square_change_of_the_raw_last_layer(make_features):
    features = make_features(5, 3, 4, (6, 7))
    passed = Pass(features=features, mixture=None, state=())
    expected = 3 * np.mean(np.diff(features.raw[-1].numpy(), axis=0) ** 2)
    np.testing.assert_allclose(TAR.penalty(passed, None).item(), expected)


def test_one_step_has_nothing_to_change(make_features):
    passed = Pass(features=make_features(1, 3, 4, (6,)), mixture=None, state=())
    assert TAR.penalty(passed, None) is None


def test_changes_into_what_fills_up_shorter_sentences_do_not_count(make_features):
    """Row 0 has two real steps of five; a sentence of one word has no change at all."""
    features, steps = make_features(5, 2, 4, (6, 7)), (2, 5)
    kept = [step * 2 + row for step in range(5) for row in range(2) if step < steps[row]]
    passed = Pass(features=features, mixture=None, state=(), kept_N=torch.tensor(kept))
    rows = [np.diff(features.raw[-1].numpy()[: steps[row], row], axis=0) for row in range(2)]
    expected = 3 * np.mean(np.concatenate(rows) ** 2)
    np.testing.assert_allclose(TAR.penalty(passed, None).item(), expected)
    assert TAR.penalty(replace(passed, kept_N=torch.tensor([0, 1])), None) is None
