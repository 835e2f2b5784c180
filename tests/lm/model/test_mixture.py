"""A mixture's loss and log-probabilities against plain formulas, and its two twins' agreement."""

from __future__ import annotations

import pytest
import torch

from ablate.lm.model.fast import mixture_gradient
from ablate.lm.model.flow import GateSignal, Mixture
from ablate.lm.model.mixture import log_probs, summed_nll, summed_nll_plain, tempered, token_nll

both_ways = pytest.mark.usefixtures("both_ways")

LARGE, MIXED = (13, 1, 29, 5), (13, 3, 29, 5)  # N, J, V, E
CASES = [  # size, gate, bias
    (LARGE, False, True),
    (LARGE, True, False),
    (MIXED, False, False),
    (MIXED, True, True),
    ((7, 4, 17, 1), True, False),
    ((1, 1, 2, 1), False, True),
]


class Case:
    """The leaves of a random mixture, and its targets."""

    def __init__(self, N, J, V, E, *, gate=False, bias=True, dtype=torch.float64, size=1.0):
        generator = torch.Generator().manual_seed(N + J)

        def leaf(*shape):
            x = torch.randn(*shape, generator=generator, dtype=torch.float64) * size
            return x.to(dtype).requires_grad_()

        self.vectors, self.weight = leaf(N, J, E), leaf(V, E)
        self.prior_logits = leaf(N, J) if J > 1 else None
        self.bias = leaf(V) if bias else None
        self.gate = (leaf(N, 3), leaf(V, 3), leaf(V) if bias else None) if gate else None
        self.targets = torch.randint(0, V, (N,), generator=generator)

    @property
    def leaves(self):
        tensors = [self.vectors, self.weight, self.prior_logits, self.bias, *(self.gate or ())]
        return [leaf for leaf in tensors if leaf is not None]

    @property
    def mixture(self) -> Mixture:
        gate = self.gate and GateSignal(
            vectors_NG=self.gate[0], weight_VG=self.gate[1], bias_V=self.gate[2]
        )
        prior = None if self.prior_logits is None else self.prior_logits.log_softmax(-1)
        return Mixture(
            vectors_NJE=self.vectors,
            log_prior_NJ=prior,
            weight_VE=self.weight,
            bias_V=self.bias,
            gate=gate,
        )


def by_hand(case: Case, temperature: float = 1.0) -> torch.Tensor:
    """The probabilities, written out from the definition."""
    logits = torch.einsum("nje,ve->njv", case.vectors, case.weight)
    if case.bias is not None:
        logits = logits + case.bias
    if case.gate is not None:
        z, weight, bias = case.gate
        inner = z @ weight.t()
        logits = logits * (1 / (1 + (-(inner if bias is None else inner + bias)).exp()))[:, None]
    logits = logits / temperature
    parts = logits.exp() / logits.exp().sum(-1, keepdim=True)
    if case.prior_logits is None:
        return parts[:, 0]
    weights = case.prior_logits.exp() / case.prior_logits.exp().sum(-1, keepdim=True)
    return torch.einsum("nj,njv->nv", weights, parts)


@pytest.fixture(params=[None, 3], ids=["one chunk", "chunks of 3"])
def chunks(request, monkeypatch):
    if request.param:
        few = 3 * 29 * 3 * 8  # tokens, words, components, bytes: never a divisor of N
        for name in ("SINGLE", "MIXTURE", "PARTS"):
            monkeypatch.setattr(mixture_gradient, name, mixture_gradient.ChunkSize(few, 0))


@pytest.mark.parametrize(("size", "gate", "bias"), CASES)
def test_log_probs_are_the_definition(size, gate, bias, chunks):
    case = Case(*size, gate=gate, bias=bias)
    log_p = log_probs(case.mixture)
    torch.testing.assert_close(log_p.exp(), by_hand(case), rtol=1e-10, atol=1e-12)
    nll = token_nll(case.mixture, case.targets)
    expected = -log_p.gather(1, case.targets[:, None])[:, 0]
    torch.testing.assert_close(nll, expected.detach(), rtol=1e-12, atol=1e-12)
    assert not nll.requires_grad


@pytest.mark.parametrize(("size", "gate", "bias"), CASES)
def test_a_temperature_divides_the_logits_after_the_gate(size, gate, bias):
    case = Case(*size, gate=gate, bias=bias)
    p = log_probs(tempered(case.mixture, 1.9)).exp()
    torch.testing.assert_close(p, by_hand(case, 1.9), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("size", "gate", "bias"), CASES)
@both_ways
def test_twins_agree_in_value_and_gradients(size, gate, bias, chunks):
    tolerance, case = 1e-5, Case(*size, gate=gate, bias=bias, dtype=torch.float32)
    fused = summed_nll(case.mixture, case.targets)
    plain = summed_nll_plain(case.mixture, case.targets)
    torch.testing.assert_close(fused, plain, rtol=tolerance, atol=tolerance)
    pairs = zip(gradients(fused, case), gradients(plain, case), strict=True)
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def gradients(loss: torch.Tensor, case: Case):
    """Through something after the loss, so that its incoming gradient is not 1."""
    return torch.autograd.grad((loss * 0.3).sin(), case.leaves)


def test_a_frozen_matrix_is_given_no_gradient():
    case = Case(5, 2, 9, 4, gate=True)
    case.weight.requires_grad_(False)
    summed_nll(case.mixture, case.targets).backward()
    assert case.weight.grad is None
    assert case.gate[1].grad.abs().sum() > 0


@both_ways
def test_far_logits_stay_exact_where_a_probability_underflows():
    case = Case(8, 2, 9, 4, dtype=torch.float32, size=60.0)
    nll = token_nll(case.mixture, case.targets)
    assert nll.max() > 104  # float32 has no such probability
    loss = summed_nll(case.mixture, case.targets)
    torch.testing.assert_close(loss, nll.sum())
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(loss, case.leaves))
