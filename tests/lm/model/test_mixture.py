"""A mixture's loss and log-probabilities against plain formulas, and its two twins' agreement."""

from __future__ import annotations

from itertools import product as combinations

import pytest
import torch

from ablate.lm.model.fast import mixture_gradient, product
from ablate.lm.model.flow import GateSignal, Mixture
from ablate.lm.model.mixture import log_probs, summed_nll, summed_nll_plain, tempered, token_nll

pytestmark = pytest.mark.usefixtures("both_ways")

SIZES = [(1, 1, 2, 1), (13, 1, 29, 5), (13, 3, 29, 5), (7, 4, 17, 1)]  # N, J, V, E
CASES = list(combinations(SIZES, [False, True], [False, True]))


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


def by_hand(case: Case) -> torch.Tensor:
    """The probabilities, written out from the definition."""
    logits = torch.einsum("nje,ve->njv", case.vectors, case.weight)
    if case.bias is not None:
        logits = logits + case.bias
    if case.gate is not None:
        z, weight, bias = case.gate
        inner = z @ weight.t()
        logits = logits * (1 / (1 + (-(inner if bias is None else inner + bias)).exp()))[:, None]
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
@pytest.mark.parametrize("temperature", [0.7, 1.9])
def test_a_temperature_divides_the_logits_after_the_gate(size, gate, bias, temperature):
    case = Case(*size, gate=gate, bias=bias)
    logits = torch.einsum("nje,ve->njv", case.vectors, case.weight)
    if case.bias is not None:
        logits = logits + case.bias
    if case.gate is not None:
        z, weight, gate_bias = case.gate
        inner = z @ weight.t() if gate_bias is None else z @ weight.t() + gate_bias
        logits = logits * inner.sigmoid()[:, None]
    parts = (logits / temperature).softmax(-1)
    prior = torch.ones(1, 1) if case.prior_logits is None else case.prior_logits.softmax(-1)
    expected = (prior[..., None] * parts).sum(1)
    p = log_probs(tempered(case.mixture, temperature)).exp()
    torch.testing.assert_close(p, expected, rtol=1e-10, atol=1e-12)


def test_a_temperature_of_one_leaves_the_mixture_alone():
    mixture = Case(6, 2, 9, 4).mixture
    assert tempered(mixture, 1.0) is mixture


@pytest.mark.parametrize(("size", "gate", "bias"), CASES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_twins_agree_in_value_and_gradients(size, gate, bias, dtype, tolerance, chunks):
    case = Case(*size, gate=gate, bias=bias, dtype=dtype)
    fused = summed_nll(case.mixture, case.targets)
    plain = summed_nll_plain(case.mixture, case.targets)
    torch.testing.assert_close(fused, plain, rtol=tolerance, atol=tolerance)
    pairs = zip(gradients(fused, case), gradients(plain, case), strict=True)
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def gradients(loss: torch.Tensor, case: Case):
    """Through something after the loss, so that its incoming gradient is not 1."""
    return torch.autograd.grad((loss * 0.3).sin(), case.leaves)


def test_gradients_survive_finite_differences():
    case = Case(3, 2, 5, 2, gate=True)

    def loss(*_):
        return summed_nll(case.mixture, case.targets)

    assert torch.autograd.gradcheck(loss, case.leaves)


@pytest.mark.parametrize("loss", [summed_nll, summed_nll_plain])
def test_a_tied_matrix_gathers_both_its_gradients(loss):
    case = Case(6, 2, 9, 4, bias=False)

    def tied(compute):
        ids = torch.arange(6)
        vectors = case.weight[ids][:, None] * case.vectors.detach()
        mixture = Mixture(
            vectors_NJE=vectors,
            log_prior_NJ=case.mixture.log_prior_NJ,
            weight_VE=case.weight,
            bias_V=None,
        )
        return torch.autograd.grad(compute(mixture, case.targets), case.weight)[0]

    def reference(mixture, targets):
        parts = torch.einsum("nje,ve->njv", mixture.vectors_NJE, mixture.weight_VE).softmax(-1)
        p_NV = (mixture.log_prior_NJ.exp()[..., None] * parts).sum(1)
        return -p_NV[range(6), targets].log().sum()

    torch.testing.assert_close(tied(loss), tied(reference), rtol=1e-10, atol=1e-10)


def test_a_frozen_matrix_is_given_no_gradient():
    case = Case(5, 2, 9, 4, gate=True)
    case.weight.requires_grad_(False)
    summed_nll(case.mixture, case.targets).backward()
    assert case.weight.grad is None
    assert case.gate[1].grad.abs().sum() > 0


def test_far_logits_stay_exact_where_a_probability_underflows():
    case = Case(8, 2, 9, 4, dtype=torch.float32, size=60.0)
    nll = token_nll(case.mixture, case.targets)
    assert nll.max() > 104  # float32 has no such probability
    loss = summed_nll(case.mixture, case.targets)
    torch.testing.assert_close(loss, nll.sum())
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(loss, case.leaves))


def test_repeats_bit_for_bit(chunks):
    case = Case(13, 3, 29, 5, gate=True, dtype=torch.float32)
    first, second = (
        torch.autograd.grad(summed_nll(case.mixture, case.targets), case.leaves) for _ in range(2)
    )
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_without_gradients_the_loss_is_that_of_the_tokens():
    case = Case(13, 3, 29, 5)
    with torch.no_grad():
        loss = summed_nll(case.mixture, case.targets)
    assert torch.equal(loss, token_nll(case.mixture, case.targets).sum())


@pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise") or not torch.backends.mkldnn.is_available(),
    reason="this torch has no oneDNN",
)
@pytest.mark.parametrize("gate", [False, True])
def test_the_other_library_computes_the_same(gate, monkeypatch):
    case = Case(13, 3, 29, 5, gate=gate, dtype=torch.float32)

    def both():
        loss = summed_nll(case.mixture, case.targets)
        return loss, *torch.autograd.grad(loss, case.leaves)

    results = []
    for onednn in (False, True):
        monkeypatch.setattr(product, "prefers_onednn", lambda onednn=onednn: onednn)
        results.append(both())
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
