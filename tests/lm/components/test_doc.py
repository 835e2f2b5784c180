"""Direct output connection against its equations in numpy, and MoS."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.lm.components.head.doc import experts_by_layer
from ablate.lm.model.masks import OFF
from ablate.lm.model.mixture import log_probs, summed_nll


def softmax(x):
    return np.exp(x) / np.exp(x).sum()


def by_hand(layers, experts, weights, embedding, bias, activation):
    """Eq. 7-11 for one token: `layers` and `experts` from the last layer down."""
    prior = softmax(weights["prior.weight"] @ layers[0])
    vectors = []
    for below, (h, count) in enumerate(zip(layers, experts, strict=True)):
        for j in range(count):
            rows = slice(6 * j, 6 * (j + 1))
            k = weights[f"latent_{below}.weight"][rows] @ h
            k = k + weights.get(f"latent_{below}.bias", np.zeros(6 * count))[rows]
            vectors.append(np.tanh(k) if activation == "tanh" else k)
    return sum(p * softmax(embedding @ k + bias) for p, k in zip(prior, vectors, strict=True))


@pytest.mark.parametrize(
    ("experts", "activation", "bias"),
    [((3, 2, 0, 1), "tanh", True), ((2, 1), "none", True), ((0, 2, 1), "tanh", False)],
)
def test_it_is_the_equations(build, make_features, experts, activation, bias):
    values = {
        "backbone.num_layers": 3,
        "backbone.units": [5, 4, 7],
        "head": "doc",
        "head.experts": list(experts),
        "head.latent_activation": activation,
        "head.latent_bias": bias,
    }
    model = build(values).model
    model.head.decoder.bias.data.normal_()
    features = make_features(3, 2, 6, (5, 4, 7))
    actual = log_probs(model.head(features, model.embedding.weight, OFF)).exp().detach().numpy()
    weights = {name: p.detach().numpy() for name, p in model.head.named_parameters()}
    embedding = model.embedding.weight.detach().numpy()
    tensors = [*reversed(features.masked), features.inputs_TBE][: len(experts)]
    for token in range(6):
        layers = [x.reshape(6, -1)[token].numpy() for x in tensors]
        expected = by_hand(layers, experts, weights, embedding, weights["decoder.bias"], activation)
        np.testing.assert_allclose(actual[token], expected, rtol=1e-10)


def test_all_components_on_the_last_layer_are_mos_bit_for_bit(build):
    ids, targets = torch.randint(0, 23, (2, 5, 3), generator=torch.Generator().manual_seed(0))
    actual = []
    for head, experts in (("mos", 4), ("doc", [4, 0, 0])):
        model = build({"head": head, "head.experts": experts}, dtype=torch.float32).model
        passed = model(ids, model.initial_state(3))
        loss = summed_nll(passed.mixture, targets.flatten())
        named = dict(model.named_parameters())
        gradients = dict(zip(named, torch.autograd.grad(loss, named.values()), strict=True))
        actual.append({**named, **{f"grad {k}": g for k, g in gradients.items()}, "loss": loss})
    mos, doc = actual
    assert mos.keys() == doc.keys()
    assert all(torch.equal(mos[name], doc[name]) for name in mos)


def test_experts_by_layer_counts_from_the_last():
    assert experts_by_layer((15, 5, 0, 0), 3) == {3: 15, 2: 5}
    assert experts_by_layer((15, 0, 0, 5), 3) == {3: 15, 0: 5}
    assert experts_by_layer((15, 5, 0, 0), 2) == {2: 15, 1: 5}  # a layer too many, but unused
