"""The mixture of softmaxes against the public code's numbers and its published sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ablate.config.streams import Streams
from ablate.lm.model.masks import Chance, Masks
from ablate.lm.model.mixture import log_probs, summed_nll, token_nll
from ablate.lm.model.regularizer import Regularizer


@pytest.mark.usefixtures("both_ways")
def test_it_is_the_public_code(build, golden, load_awd):
    vectors = golden("mos_head")
    values = {
        "backbone.num_layers": 3,
        "backbone.units": 9,
        "backbone.last_units": 7,
        "head": "mos",
        "head.experts": 4,
    }
    model = build(values, dtype=torch.float32).model
    load_awd(model, vectors)
    state = tuple(vectors[f"in.{kind}{layer}"] for layer in range(3) for kind in "hc")
    mixture = model(vectors["ids"], state).mixture
    close = {"rtol": 1e-5, "atol": 1e-6}
    torch.testing.assert_close(mixture.vectors_NJE, vectors["latent"].view(15, 4, 6), **close)
    torch.testing.assert_close(mixture.log_prior_NJ.exp(), vectors["prior"], **close)
    p_NV = log_probs(mixture).exp()
    torch.testing.assert_close(p_NV, vectors["prob"].view(15, 23), **close)
    reference = log_probs(replace(mixture, floor=1e-8))
    torch.testing.assert_close(reference, vectors["log_prob"].view(15, 23), **close)
    nll = token_nll(mixture, vectors["targets"].flatten()).mean()
    torch.testing.assert_close(nll, vectors["nll"], rtol=1e-5, atol=0)


@pytest.mark.parametrize("head", [{"head": "mos", "head.experts": 3}, {"head": "doc"}])
def test_a_floor_is_added_to_every_probability(build, head):
    """log(p + 1e-3), and its gradients by plain autograd over the exact p."""
    values = {**head, "backbone.num_layers": 2}
    plain, floored = (build({**values, "head.floor": floor}).model for floor in (0.0, 1e-3))
    ids = torch.arange(8).view(4, 2)
    targets = torch.arange(8, 16)
    exact = log_probs(plain(ids, plain.initial_state(2)).mixture).exp()
    mixture = floored(ids, floored.initial_state(2)).mixture
    torch.testing.assert_close(log_probs(mixture), (exact + 1e-3).log())
    expected = -(exact[torch.arange(8), targets] + 1e-3).log()
    torch.testing.assert_close(token_nll(mixture, targets), expected.detach())
    expected.sum().backward()
    summed_nll(mixture, targets).backward()
    for one, other in zip(plain.parameters(), floored.parameters(), strict=True):
        torch.testing.assert_close(other.grad, one.grad)


def test_the_latent_mask_acts_on_all_components_together(build, make_features):
    sites = []

    class Spy(Regularizer):
        def mask(self, site, x_TBH, chance):
            sites.append((site, x_TBH.shape))
            return torch.zeros_like(x_TBH)

    model = build({"head": "mos", "head.experts": 3}).model
    features = make_features(4, 2, 6, (5, 7))
    mixture = model.head(features, model.embedding.weight, Masks((Spy(),), Chance(Streams(1), 0)))
    assert sites == [("latent", (4, 2, 18))]
    assert not mixture.vectors_NJE.any()
