"""The augmented loss against the golden vectors and against its definition in float64."""

from __future__ import annotations

from itertools import product as combinations

import pytest
import torch

from ablate.errors import CombinationError
from ablate.lm.components.loss.augmented import Augmented, AugmentedConfig
from ablate.lm.model.fast import tempered, tempered_gradient
from ablate.lm.model.fast.mixture_gradient import ChunkSize
from ablate.lm.model.fast.tempered import augmented_plain, summed_augmented
from ablate.lm.model.fast.tempered_gradient import Terms
from ablate.lm.model.flow import GateSignal, Mixture, Pass
from ablate.lm.model.mixture import summed_nll

both_ways = pytest.mark.usefixtures("both_ways")  # kernels have single precision


def plain_loss(mixture, targets, words, terms):
    """By plain autograd, the soft targets detached if the terms say so."""
    return augmented_plain(mixture, targets, words.detach() if terms.detach else words, terms)


class Given:
    """The leaves of a random mixture over words with vectors of another width, and targets."""

    def __init__(self, N, J, V, E, *, tied, gate=False, bias=True, dtype=torch.float64):
        generator = torch.Generator().manual_seed(N + J)

        def leaf(*shape):
            return torch.randn(*shape, generator=generator).to(dtype).requires_grad_()

        self.vectors, self.weight = leaf(N, J, E), leaf(V, E)
        self.words = self.weight if tied else leaf(V, E + 2)
        self.prior_logits = leaf(N, J) if J > 1 else None
        self.bias = leaf(V) if bias else None
        self.gate = (leaf(N, 3), leaf(V, 3), leaf(V)) if gate else ()
        few = max(2, V // 3)  # targets that repeat, and one that does not
        self.targets = torch.randint(0, few, (N,), generator=generator)
        self.targets[N // 2] = V - 1

    @property
    def leaves(self):
        found = [self.vectors, self.weight, self.prior_logits, self.bias, *self.gate]
        if self.words is not self.weight:
            found.append(self.words)
        return [leaf for leaf in found if leaf is not None]

    @property
    def mixture(self) -> Mixture:
        z, weight, bias = self.gate or (None,) * 3
        prior = None if self.prior_logits is None else self.prior_logits.log_softmax(-1)
        return Mixture(
            vectors_NJE=self.vectors,
            log_prior_NJ=prior,
            weight_VE=self.weight,
            bias_V=self.bias,
            gate=(self.gate and GateSignal(vectors_NG=z, weight_VG=weight, bias_V=bias)) or None,
        )

    def gradients(self, loss):
        """Through something after the loss, so that its incoming gradient is not 1."""
        return torch.autograd.grad((loss * 0.1).sin(), self.leaves, allow_unused=True)


def terms(temperature=2.0, of_nll=1.0, of_divergence=3.0, detach=True) -> Terms:
    return Terms(temperature=temperature, of_nll=of_nll, of_divergence=of_divergence, detach=detach)


def softmax(logits):
    return logits.exp() / logits.exp().sum(-1, keepdim=True)


def by_hand(example: Given, chosen: Terms):
    """J and J_aug, token by token, written out from the definition."""
    gate = 1
    if example.gate:
        z, weight, bias = example.gate
        gate = 1 / (1 + (-(z @ weight.t() + bias)).exp())
    words = example.words.detach() if chosen.detach else example.words
    prior = [1.0]
    if example.prior_logits is not None:
        prior = softmax(example.prior_logits).t()[..., None]
    J, J_aug = 0, 0
    scores = [example.vectors[:, j] @ example.weight.t() for j in range(len(prior))]
    bias = 0 if example.bias is None else example.bias
    p = sum(w * softmax(gate * (s + bias)) for w, s in zip(prior, scores, strict=True))
    yhat = sum(
        w * softmax(gate * s / chosen.temperature) for w, s in zip(prior, scores, strict=True)
    )
    for n, target in enumerate(example.targets.tolist()):
        ytilde = softmax(words @ words[target] / chosen.temperature)
        J = J - p[n, target].log()
        J_aug = J_aug + (ytilde * (ytilde / yhat[n]).log()).sum()
    return chosen.of_nll * J + chosen.of_divergence * J_aug


def close(result, reference, tolerance):
    for one, other in zip(result, reference, strict=True):
        other = torch.zeros_like(one) if other is None else other
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.fixture(params=[None, 3], ids=["one chunk", "small chunks"])
def chunks(request, monkeypatch):
    if request.param:
        for module in (tempered, tempered_gradient):
            monkeypatch.setattr(module, "PARTS", ChunkSize(3 * 29 * 8, 0))
        monkeypatch.setattr(tempered_gradient, "NARROW_PARTS", ChunkSize(3 * 29 * 8, 0))


LARGE, MIXED = (13, 1, 29, 5), (13, 3, 29, 5)  # N, J, V, E
MODELS = [  # size, gate, bias, tied, detach
    (LARGE, False, True, True, True),
    (LARGE, False, True, False, False),
    (LARGE, False, False, True, False),
    (LARGE, True, True, False, True),
    (MIXED, False, False, False, True),
    (MIXED, True, True, True, False),
    ((7, 4, 17, 1), False, True, True, True),
    ((1, 1, 2, 1), False, True, False, True),
]


@pytest.mark.parametrize(("size", "gate", "bias", "tied", "detach"), MODELS)
def test_it_is_the_definition(size, gate, bias, tied, detach, chunks):
    example, chosen = Given(*size, gate=gate, bias=bias, tied=tied), terms(detach=detach)
    found = summed_augmented(example.mixture, example.targets, example.words, chosen)
    expected = by_hand(example, chosen)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    unused = (torch.zeros(()) if g is None else g for g in example.gradients(found))
    found_gradients = [g.expand_as(x) for g, x in zip(unused, example.leaves, strict=True)]
    close(found_gradients, example.gradients(expected), 1e-9)


@both_ways
@pytest.mark.parametrize(("size", "gate", "bias", "tied", "detach"), MODELS)
def test_float32_is_close(size, gate, bias, tied, detach, chunks):
    example = Given(*size, gate=gate, bias=bias, tied=tied, dtype=torch.float32)
    chosen = terms(detach=detach, of_nll=0.5, of_divergence=0.7)
    fused, plain = (
        loss(example.mixture, example.targets, example.words, chosen)
        for loss in (summed_augmented, plain_loss)
    )
    torch.testing.assert_close(fused, plain, rtol=1e-5, atol=1e-5)
    for result, reference in zip(example.gradients(fused), example.gradients(plain), strict=True):
        if result is not None and reference is not None:
            torch.testing.assert_close(result, reference, rtol=1e-5, atol=1e-5)
        else:
            assert detach and result is reference is None


CASES = list(combinations(["untied", "tied"], ["detach", "through"]))


@pytest.mark.parametrize(("matrix", "gradient"), CASES)
def test_it_is_the_reference(golden, matrix, gradient):
    vectors, case = golden("real_reference"), f"{matrix}_{gradient}."
    words, h = (vectors[name].requires_grad_() for name in ("L", "h"))
    weight = words if matrix == "tied" else vectors["W"].requires_grad_()
    bias = None if matrix == "tied" else vectors["b"].requires_grad_()
    mixture = Mixture(vectors_NJE=h[:, None], log_prior_NJ=None, weight_VE=weight, bias_V=bias)
    temperature, alpha = vectors["tau"].item(), vectors["alpha"].item()
    config = AugmentedConfig(temperature=temperature, weight=alpha, detach=gradient == "detach")
    passed = Pass(features=None, mixture=mixture, state=())
    mean = Augmented(config, None)(passed, vectors["y"], words, None) / len(h)
    torch.testing.assert_close(mean, vectors[f"{case}Jtot"], rtol=1e-9, atol=1e-9)
    mean.backward()
    leaves = {"L": words, "h": h} | ({} if bias is None else {"W": weight, "b": bias})
    for name, leaf in leaves.items():
        expected = vectors[f"{case}grad_{name}"]
        if leaf.grad is None:
            assert not expected.any() and case == "untied_detach."
        else:
            torch.testing.assert_close(leaf.grad, expected, rtol=1e-9, atol=1e-9)


def test_the_form_of_section_6_2_is_the_reference(golden):
    vectors = golden("real_reference")
    mixture = Mixture(
        vectors_NJE=vectors["h"][:, None],
        log_prior_NJ=None,
        weight_VE=vectors["W"],
        bias_V=vectors["b"],
    )
    config = AugmentedConfig(
        temperature=vectors["tau"].item(), weight=0.5, form="section_6_2", detach=True
    )
    passed = Pass(features=None, mixture=mixture, state=())
    loss = Augmented(config, None)(passed, vectors["y"], vectors["L"], None)
    torch.testing.assert_close(loss / len(vectors["h"]), vectors["J62"], rtol=1e-9, atol=0)


def test_that_form_weighs_by_at_most_1():
    with pytest.raises(CombinationError, match=r"loss\.weight = 1\.5"):
        Augmented(AugmentedConfig(form="section_6_2", weight=1.5), None)


def test_without_weight_it_is_cross_entropy_to_the_bit():
    example = Given(13, 1, 29, 5, tied=True)
    passed = Pass(features=None, mixture=example.mixture, state=())
    loss = Augmented(AugmentedConfig(weight=0.0), None)(
        passed, example.targets, example.words, None
    )
    assert torch.equal(loss, summed_nll(example.mixture, example.targets))


@both_ways
def test_far_logits_stay_exact_where_a_probability_underflows():
    example = Given(8, 1, 29, 5, tied=True, dtype=torch.float32)
    example.vectors.data.mul_(100)
    chosen = terms(temperature=1.0, of_nll=1.0, of_divergence=1.0)
    loss = summed_augmented(example.mixture, example.targets, example.words, chosen)
    exact = Given(8, 1, 29, 5, tied=True)
    exact.vectors.data.mul_(100)
    expected = plain_loss(exact.mixture, exact.targets, exact.words, chosen)
    assert expected > 8 * 104  # float32 has no such probability
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=0)
    assert all(torch.isfinite(g).all() for g in example.gradients(loss))
