"""Keras' activity regularizer, by loops over layers, steps, rows and units."""

from __future__ import annotations

import pytest
import torch

from ablate.lm.components.regularizer.activation_l2 import ActivationL2, ActivationL2Config
from ablate.lm.model.flow import Pass


def penalty_of(features, weight=0.5):
    passed = Pass(features=features, mixture=None, state=())
    return ActivationL2(ActivationL2Config(weight=weight)).penalty(passed, None)


def test_it_is_the_sum_over_all_raw_layers_by_rows(make_features):
    features = make_features(5, 3, 4, (6, 7))
    total = 0.0
    for layer in features.raw:
        for row in range(3):
            total += sum(h**2 for h in layer[:, row].flatten().tolist()) / 3
    assert penalty_of(features).item() == pytest.approx(0.5 * total, rel=1e-12)


def test_what_fills_up_shorter_sentences_does_not_count(make_features):
    """Row 0 has two real steps of five."""
    features, steps = make_features(5, 2, 4, (6, 7)), (2, 5)
    kept = [step * 2 + row for step in range(5) for row in range(2) if step < steps[row]]
    passed = Pass(features=features, mixture=None, state=(), kept_N=torch.tensor(kept))
    rows = [layer[: steps[row], row] for layer in features.raw for row in range(2)]
    expected = 0.5 * sum(h.square().sum() for h in rows) / 2
    actual = ActivationL2(ActivationL2Config(weight=0.5)).penalty(passed, None)
    assert actual.item() == pytest.approx(expected.item(), rel=1e-12)
