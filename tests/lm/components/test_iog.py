"""The input-to-output gate against the golden vectors, its published sizes, and inside mixtures."""

from __future__ import annotations

import pytest
import torch

from ablate.lm.components.gate.iog import Iog, IogConfig
from ablate.lm.model.flow import Mixture, Shapes
from ablate.lm.model.masks import OFF, Masks
from ablate.lm.model.mixture import log_probs


def given_gate(vectors):
    num_words, units = vectors["E_g"].shape
    gate = Iog(IogConfig(units=units), Shapes(vocabulary=num_words, embedding=1)).double()
    gate.embedding.weight.data.copy_(vectors["E_g"])
    gate.output.weight.data.copy_(vectors["W_g"])
    gate.output.bias.data.copy_(vectors["b_g"])
    return gate


def reading(make_features, ids_N):
    features = make_features(len(ids_N), 1, 1, (1,))
    return features.__class__(**{**features.__dict__, "ids_TB": ids_N[:, None]})


def logits_as_mixture(scores_NV, signal) -> Mixture:
    """One expert whose logits are the scores: the word vectors are the identity."""
    identity = torch.eye(scores_NV.shape[1], dtype=scores_NV.dtype)
    return Mixture(
        vectors_NJE=scores_NV[:, None],
        log_prior_NJ=None,
        weight_VE=identity,
        bias_V=None,
        gate=signal,
    )


def test_it_is_the_reference(golden, make_features):
    vectors = golden("iog_reference")
    gate = given_gate(vectors)
    signal, state = gate(reading(make_features, vectors["x"]), (), OFF)
    actual = (signal.vectors_NG @ signal.weight_VG.t() + signal.bias_V).sigmoid()
    torch.testing.assert_close(actual, vectors["gate"], rtol=1e-9, atol=1e-12)
    assert state == ()
    for scores_NV, expected_NV in zip(vectors["s"], vectors["prob"], strict=True):
        p_NV = log_probs(logits_as_mixture(scores_NV, signal)).exp()
        torch.testing.assert_close(p_NV, expected_NV, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("head", ["softmax", "mos", "doc"])
@pytest.mark.parametrize("gate", ["iog", "iog_hidden", "iog_lstm"])
def test_it_acts_inside_each_component(build, head, gate):
    values = {"head": head, "gate": gate, "gate.units": 4, "backbone.units": 6}
    values |= {"mos": {"head.experts": 3}, "doc": {"head.experts": [2, 1, 1]}}.get(head, {})
    model = build(values).model
    for parameter in model.parameters():
        parameter.data.mul_(10)
    model.head.decoder.bias.data.uniform_(-1, 1)
    model.gate.output.bias.data.uniform_(-1, 1)
    ids_TB = torch.randint(0, 23, (5, 2), generator=torch.Generator().manual_seed(1))
    mixture = model(ids_TB, model.initial_state(2)).mixture
    signal = mixture.gate
    p_NV = torch.zeros(10, 23, dtype=torch.float64)
    for n in range(10):
        gate_V = (signal.weight_VG @ signal.vectors_NG[n] + signal.bias_V).sigmoid()
        for j, vector_E in enumerate(mixture.vectors_NJE[n]):
            e_V = (gate_V * (mixture.weight_VE @ vector_E + mixture.bias_V)).exp()
            prior = 1.0 if mixture.log_prior_NJ is None else mixture.log_prior_NJ[n, j].exp()
            p_NV[n] += (prior * e_V / e_V.sum()).detach()
    torch.testing.assert_close(log_probs(mixture), p_NV.log(), rtol=1e-9, atol=1e-9)
    assert (gate_V.max() - gate_V.min()) > 0.05


def test_its_dropout_is_drawn_element_by_element_for_each_token(make_features, fixed_chance):
    gate = Iog(IogConfig(units=4, dropout=0.25), Shapes(vocabulary=5, embedding=1))
    gate.embedding.weight.data.fill_(1)
    mask = torch.arange(24.0).view(3, 2, 4)
    chance = fixed_chance({"gate": mask})
    signal, _ = gate(make_features(3, 2, 1, (1,)), (), Masks((), chance))
    assert chance.requested == {"gate": ((3, 2, 4), 0.25)}
    assert torch.equal(signal.vectors_NG, mask.flatten(0, 1))
