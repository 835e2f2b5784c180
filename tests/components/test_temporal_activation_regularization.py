"""TAR by its formula (its values and gradients inside AWD-LSTM: test_lstm.py)."""

from __future__ import annotations

import numpy as np

from ablate.components.regularizer.temporal_activation_regularization import (
    TemporalActivationRegularization,
    TemporalActivationRegularizationConfig,
)
from ablate.model.flow import Pass

TAR = TemporalActivationRegularization(TemporalActivationRegularizationConfig(beta=3.0))


def test_it_is_the_mean_square_change_of_the_raw_last_layer(make_features):
    features = make_features(5, 3, 4, (6, 7))
    passed = Pass(features=features, mixture=None, state=())
    expected = 3 * np.mean(np.diff(features.raw[-1].numpy(), axis=0) ** 2)
    np.testing.assert_allclose(TAR.penalty(passed, None).item(), expected)


def test_one_step_has_nothing_to_change(make_features):
    passed = Pass(features=make_features(1, 3, 4, (6,)), mixture=None, state=())
    assert TAR.penalty(passed, None) is None
