"""The head with a hidden layer: formula, limit, and refused values."""

from __future__ import annotations

import pytest
import torch

from ablate.errors import CombinationError
from ablate.lm.model.masks import OFF, Masks
from ablate.lm.model.mixture import log_probs

MLP = {"head": "mlp", "head.units": 6}


@pytest.mark.parametrize(
    ("tied", "bias", "hidden_bias"),
    [(True, True, False), (False, True, True), (False, False, True)],
)
def test_it_is_a_softmax_of_a_hidden_layer(build, make_features, tied, bias, hidden_bias):
    fields = {"head.tied": tied, "head.bias": bias, "head.hidden_bias": hidden_bias}
    model = build({**MLP, **fields}).model
    named = {name: p.detach().normal_().numpy() for name, p in model.head.named_parameters()}
    expected_names = {"hidden.weight"} | ({"decoder.weight"} if not tied else set())
    expected_names |= ({"decoder.bias"} if bias else set()) | (
        {"hidden.bias"} if hidden_bias else set()
    )
    assert set(named) == expected_names
    features = make_features(4, 3, 6, (7,))
    actual = log_probs(model.head(features, model.embedding.weight, OFF))
    hidden = features.output_TBH.reshape(12, 7).numpy() @ named["hidden.weight"].T
    hidden = (hidden + named.get("hidden.bias", 0)).clip(0)
    matrix = model.embedding.weight.detach().numpy() if tied else named["decoder.weight"]
    logits = torch.from_numpy(hidden @ matrix.T + named.get("decoder.bias", 0))
    torch.testing.assert_close(actual, logits.log_softmax(-1))


def test_its_hidden_layer_may_be_masked(build, make_features):
    model = build(MLP).model
    requested = []

    class Nothing(Masks):
        def __call__(self, site, x_TBH):
            requested.append((site, tuple(x_TBH.shape)))
            return 0 * x_TBH

    actual = log_probs(model.head(make_features(4, 3, 6, (7,)), model.embedding.weight, Nothing()))
    assert requested == [("latent", (4, 3, 6))]
    torch.testing.assert_close(actual, torch.zeros_like(actual).log_softmax(-1))


def test_tying_unequal_widths_is_refused_with_the_ways_out(build):
    with pytest.raises(CombinationError) as refusal:
        build({**MLP, "head.tied": True, "head.units": 7})
    for part in ("head.units = 7", "embedding.size = 6", "head.units = 6", "head.tied = false"):
        assert part in str(refusal.value)
