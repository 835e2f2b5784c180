"""The soft cap of logits against its formula by plain torch, in every loss that takes it."""

from __future__ import annotations

import pytest
import torch

from ablate.errors import CombinationError
from ablate.lm.components.loss.nce import scores
from ablate.lm.components.regularizer.fraternal_dropout import logits_difference
from ablate.lm.model.ensemble import mean_mixture
from ablate.lm.model.fast import mixture_gradient
from ablate.lm.model.flow import Mixture
from ablate.lm.model.mixture import summed_nll, token_nll

CAP = 1.5
N, V, E = 13, 29, 5
FEW = mixture_gradient.ChunkSize(3 * V * 8, 0.0)  # three tokens of one expert


def leaves(experts: int, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(experts)
    shapes = [(N, experts, E), (V, E), (V,), (N, experts)]
    return [
        (2 * torch.randn(*s, generator=draw, dtype=torch.float64)).to(dtype).requires_grad_()
        for s in shapes
    ]


def mixture_of(vectors, weight, bias, prior, cap=CAP) -> Mixture:
    log_prior = None if vectors.shape[1] == 1 else prior.log_softmax(-1)
    return Mixture(
        vectors_NJE=vectors, log_prior_NJ=log_prior, weight_VE=weight, bias_V=bias, cap=cap
    )


def log_probs_by_hand(vectors, weight, bias, prior, heat=1.0):
    """From the definition: by exponentials for tanh, and by probabilities."""
    z = (torch.einsum("nje,ve->njv", vectors, weight) + bias) / CAP
    z = CAP * (z.exp() - (-z).exp()) / (z.exp() + (-z).exp()) / heat
    p = z.exp() / z.exp().sum(-1, keepdim=True)
    shares = prior.exp() / prior.exp().sum(-1, keepdim=True)
    return (p * shares[..., None]).sum(1).log()


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("experts", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_loss_and_gradients_are_those_of_the_formula(monkeypatch, experts, dtype):
    monkeypatch.setattr(mixture_gradient, "SINGLE", FEW)
    monkeypatch.setattr(mixture_gradient, "MIXTURE", FEW)
    own, targets = leaves(experts, dtype), torch.arange(N) % V
    exact = [leaf.detach().double().requires_grad_() for leaf in own]
    used = 3 if experts == 1 else 4
    expected = -log_probs_by_hand(*exact).gather(1, targets[:, None]).sum()
    d_expected = torch.autograd.grad(expected, exact[:used])
    actual = summed_nll(mixture_of(*own), targets)
    d_actual = torch.autograd.grad(actual, own[:used])
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}
    torch.testing.assert_close(actual.double(), expected, **close)
    for mine, theirs in zip(d_actual, d_expected, strict=True):
        torch.testing.assert_close(mine.double(), theirs, **close)
    torch.testing.assert_close(
        token_nll(mixture_of(*own), targets).sum().double(), expected.detach(), **close
    )
    if dtype == torch.float64:
        uncapped = summed_nll(mixture_of(*own, cap=None), targets)
        assert abs(uncapped - actual) > 0.1  # the cap matters here


def test_sampled_and_compared_logits_are_capped():
    first, second = leaves(1), leaves(1)
    words = torch.arange(V)[None]
    z = CAP * torch.tanh((first[0][:, 0] @ first[1].t() + first[2]) / CAP)
    torch.testing.assert_close(scores(mixture_of(*first), words), z)
    second[0] = second[0].detach() + 1
    other = CAP * torch.tanh((second[0][:, 0] @ first[1].t() + first[2]) / CAP)
    pair = mixture_of(*first), mixture_of(second[0], first[1], first[2], None)
    torch.testing.assert_close(logits_difference(*pair), (z - other).square().mean())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"gate": "iog"}, "both change the logits"),
        ({"loss": "augmented"}, "loss.weight = 10 of 'augmented' needs logits that are products"),
        ({"loss": "adversarial"}, "loss.alpha = 0.005 of 'adversarial' needs logits that are"),
    ],
)
def test_what_needs_uncapped_logits_is_refused(build, values, message):
    build(values)  # without the cap it is not
    with pytest.raises(CombinationError, match=message):
        build({**values, "head.logit_cap": CAP})


def test_a_gate_over_capped_members_is_refused():
    with pytest.raises(CombinationError, match="cannot be a member under a gate"):
        mean_mixture([mixture_of(*leaves(1))])
