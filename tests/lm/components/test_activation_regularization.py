"""AR by its formula (its values and gradients inside AWD-LSTM: test_lstm.py)."""

from __future__ import annotations

import numpy as np
import torch

from ablate.lm.components.regularizer.activation_regularization import (
    ActivationRegularization,
    ActivationRegularizationConfig,
)
from ablate.lm.model.flow import Pass


def test_it_is_the_mean_square_of_the_masked_last_layer(make_features):
    features = make_features(5, 3, 4, (6, 7))
    passed = Pass(features=features, mixture=None, state=())
    regularizer = ActivationRegularization(ActivationRegularizationConfig(alpha=2.0))
    expected = 2 * np.mean(features.masked[-1].numpy() ** 2)
    np.testing.assert_allclose(regularizer.penalty(passed, None).item(), expected)


def test_what_fills_up_shorter_sentences_does_not_count(make_features):
    features = make_features(3, 2, 4, (7,))
    kept = torch.tensor([0, 1, 3, 5])  # row 0 has one real step of three
    passed = Pass(features=features, mixture=None, state=(), kept_N=kept)
    regularizer = ActivationRegularization(ActivationRegularizationConfig(alpha=2.0))
    real = np.concatenate([features.masked[-1][:1, 0], features.masked[-1][:, 1]])
    np.testing.assert_allclose(regularizer.penalty(passed, None).item(), 2 * np.mean(real**2))
