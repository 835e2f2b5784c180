"""AR by its formula (its values and gradients inside AWD-LSTM: test_lstm.py)."""

from __future__ import annotations

import numpy as np

from ablate.components.regularizer.activation_regularization import (
    ActivationRegularization,
    ActivationRegularizationConfig,
)
from ablate.model.flow import Pass


def test_it_is_the_mean_square_of_the_masked_last_layer(make_features):
    features = make_features(5, 3, 4, (6, 7))
    passed = Pass(features=features, mixture=None, state=())
    regularizer = ActivationRegularization(ActivationRegularizationConfig(alpha=2.0))
    expected = 2 * np.mean(features.masked[-1].numpy() ** 2)
    np.testing.assert_allclose(regularizer.penalty(passed, None).item(), expected)
