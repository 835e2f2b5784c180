"""Nonlinearities and their slopes against numpy and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.lm.model.activation import ACTIVATIONS, Activation

X = torch.linspace(-3, 3, 41, dtype=torch.float64)[torch.arange(41) != 20]  # not at the kink
BY_NAME = {
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "relu": lambda x: np.where(x > 0, x, 0),
    "smoothed_relu": lambda x: np.maximum(0, x - 0.7 * np.tanh(x / 0.7)),
    "identity": lambda x: x,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_it_is_its_formula(name):
    f = Activation(name, 0.7)
    expected = torch.from_numpy(BY_NAME[name](X.numpy()))
    torch.testing.assert_close(f(X), expected)
    bend = torch.empty_like(X) if f.keeps_bend else None
    torch.testing.assert_close(f.apply_(X.clone(), bend), expected)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_its_slope_is_that_of_finite_differences(name):
    f = Activation(name, 0.7)
    bend = torch.empty_like(X) if f.keeps_bend else None
    slope = f.slope(f.apply_(X.clone(), bend), bend)
    by_differences = (f(X + 1e-6) - f(X - 1e-6)) / 2e-6
    by_formula = torch.ones_like(X) if slope is None else slope
    torch.testing.assert_close(by_formula, by_differences, rtol=1e-6, atol=1e-8)


def test_a_sharp_smoothed_rectifier_is_the_rectifier():
    gap = (Activation("smoothed_relu", 1e-3)(X) - Activation("relu")(X)).abs()
    assert gap.max() < 1.001e-3  # a itself, and rounding
