"""The dual layer against its equation, and the twelve sizes that the paper prints."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.config.resolve import resolve
from ablate.errors import CombinationError
from ablate.lm.model.assemble import count_parameters
from ablate.lm.model.masks import Masks

DUAL = {"bridge": "dual", "backbone.units": 5}


def bridge_of(build, features, values=None, masks=None):
    """Return the bridge's output for some features, and the bridge."""
    bridge = build({**DUAL, "backbone.num_layers": 1, **(values or {})}).model.bridge
    with torch.no_grad():
        bridge.bias.uniform_(-0.5, 0.5)
    return bridge(features, masks or Masks()), bridge


def by_hand(bridge, e, h):
    named = {name: p.detach().numpy() for name, p in bridge.named_parameters()}
    pre = e.numpy() @ named["weight_e"].T + h.numpy() @ named["weight_h"].T + named["bias"]
    return np.where(pre > 0, pre, 0)


def test_it_is_the_equation(build, make_features):
    features = make_features(4, 3, 6, (5,))
    after, bridge = bridge_of(build, features, {"bridge.units": 9})
    expected = by_hand(bridge, features.inputs_TBE, features.output_TBH)
    assert 0 < (expected == 0).mean() < 1
    np.testing.assert_allclose(after.output_TBH.detach(), expected, rtol=0, atol=1e-12)


def test_dropout_is_held_over_the_window(build, make_features, fixed_chance):
    features = make_features(4, 3, 6, (5,))
    shapes = {"dual/embedded": (1, 3, 6), "dual/recurrent": (1, 3, 5), "dual/output": (1, 3, 6)}
    drawn = {n: torch.randint(0, 2, s).double() * 2 for n, s in shapes.items()}
    chance = fixed_chance(drawn)
    rates = {"bridge.input_dropout": 0.5, "bridge.output_dropout": 0.25}
    after, bridge = bridge_of(build, features, rates, Masks((), chance))
    e = features.inputs_TBE * drawn["dual/embedded"]
    h = features.output_TBH * drawn["dual/recurrent"]
    expected = by_hand(bridge, e, h) * drawn["dual/output"].numpy()
    np.testing.assert_allclose(after.output_TBH.detach(), expected, rtol=0, atol=1e-12)
    expected_rates = {"dual/embedded": 0.5, "dual/recurrent": 0.5, "dual/output": 0.25}
    assert chance.requested == {
        name: (shape, expected_rates[name]) for name, shape in shapes.items()
    }


def test_a_tied_head_of_another_width_is_refused(build):
    with pytest.raises(CombinationError, match=r"reads 9 units, but embedding\.size = 6"):
        build({**DUAL, "bridge.units": 9, "head.tied": True})


KERAS = {"backbone.biases": 1, "head": "softmax", "head.tied": True, "head.bias": False}
MOGRIFIER = {"backbone": "mogrifier", "backbone.rounds": 4, "backbone.rank": 100}
MODELS = {
    "LSTM": {"embedding.size": 600, "backbone.num_layers": 1, "backbone.units": 600},
    "dLSTM": {"backbone.units": 1150, "backbone.num_layers": 2},
    "mdLSTM": {**MOGRIFIER, "embedding.size": 850, "backbone.units": 850},
}
WORDS = {"PTB": 10_000, "WikiText-2": 28_912}
TABLE_1 = [  # plain, dual
    ("LSTM", "PTB", {}, 8.88, 9.60),
    ("LSTM", "WikiText-2", {}, 20.23, 20.95),
    ("dLSTM", "PTB", {"embedding.size": 400, "backbone.last_units": 400}, 13.62, 13.94),
    ("dLSTM", "WikiText-2", {"embedding.size": 600, "backbone.last_units": 600}, 29.60, 30.32),
    ("mdLSTM", "PTB", {}, 21.43, 22.88),
    ("mdLSTM", "WikiText-2", {}, 37.51, 38.95),
]


@pytest.mark.parametrize(("model", "corpus", "values", "plain", "dual"), TABLE_1)
def test_the_sizes_are_those_of_table_1(model, corpus, values, plain, dual):
    flat = {"backbone": "lstm", "optimizer": "sgd", **KERAS, **MODELS[model], **values}
    bridges = {"none": plain, "dual": dual}
    counts = {b: count_parameters(resolve({**flat, "bridge": b}), WORDS[corpus]) for b in bridges}
    assert {bridge: round(count / 1e6, 2) for bridge, count in counts.items()} == bridges
    size = flat["embedding.size"]
    assert counts["dual"] - counts["none"] == 2 * size**2 + size
