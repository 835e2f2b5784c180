"""Adversarial softmax training: the closed form is the worst noise that a search finds."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from ablate.lm.components.loss.adversarial import Adversarial, AdversarialConfig, adversarial_nll
from ablate.lm.model.flow import GateSignal, Mixture, Pass

V, E = 5, 3


def mixture(num_tokens, num_experts=1, gate=False, seed=1):
    """Return a random mixture in float64, whose tensors are leaves."""
    generator = torch.Generator().manual_seed(seed)

    def leaf(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    prior = leaf(num_tokens, num_experts).log_softmax(-1) if num_experts > 1 else None
    signal = GateSignal(vectors_NG=leaf(num_tokens, 2), weight_VG=leaf(V, 2), bias_V=leaf(V))
    return Mixture(
        vectors_NJE=leaf(num_tokens, num_experts, E),
        log_prior_NJ=prior,
        weight_VE=leaf(V, E),
        bias_V=leaf(V),
        gate=signal if gate else None,
    )


def with_noise(one, target, noise_VE):
    logits = F.linear(one.vectors_NJE[0, 0], one.weight_VE + noise_VE, one.bias_V)
    return F.cross_entropy(logits[None], target)


@pytest.mark.parametrize("relative", [True, False])
def test_no_noise_of_that_size_is_worse_and_one_is_as_bad(relative):
    """With all rows moving: random noise on the spheres, and the noise along h."""
    one, target = mixture(1), torch.tensor([2])
    config = AdversarialConfig(alpha=0.3, relative=relative, rows="all")
    loss = adversarial_nll(one, target, config)
    with torch.no_grad():
        norms = one.weight_VE.norm(dim=1, keepdim=True)
        sizes = 0.3 * (norms if relative else torch.ones_like(norms))
        generator = torch.Generator().manual_seed(0)
        draws = torch.randn(2000, V, E, generator=generator, dtype=torch.float64)
        noises = sizes * F.normalize(draws, dim=-1)
        assert max(with_noise(one, target, noise) for noise in noises) < loss
        along = sizes * F.normalize(one.vectors_NJE[0, 0], dim=0)
        along[2] *= -1
        torch.testing.assert_close(with_noise(one, target, along), loss.detach())


def test_only_the_targets_row_moves_by_default():
    one, target = mixture(1), torch.tensor([2])
    loss = adversarial_nll(one, target, AdversarialConfig(alpha=0.3))
    noise = torch.zeros(V, E, dtype=torch.float64)
    direction = F.normalize(one.vectors_NJE[0, 0].detach(), dim=0)
    noise[2] = -0.3 * one.weight_VE[2].detach().norm() * direction
    torch.testing.assert_close(with_noise(one, target, noise), loss)


def test_the_gradient_treats_the_noise_as_a_constant():
    """That of h is w_y - epsilon h / |h| less the mean of the rows, in which w_y has moved too."""
    one, target = mixture(1), torch.tensor([2])
    adversarial_nll(one, target, AdversarialConfig(alpha=0.3)).backward()
    with torch.no_grad():
        noise = torch.zeros(V, E, dtype=torch.float64)
        direction = F.normalize(one.vectors_NJE[0, 0], dim=0)
        noise[2] = -0.3 * one.weight_VE[2].norm() * direction
    vector = one.vectors_NJE.detach().clone().requires_grad_()
    moved = (one.weight_VE.detach() + noise).requires_grad_()
    F.cross_entropy(F.linear(vector[0], moved, one.bias_V.detach()), target).backward()
    torch.testing.assert_close(one.vectors_NJE.grad, vector.grad)
    torch.testing.assert_close(one.weight_VE.grad, moved.grad)


@pytest.mark.parametrize("experts", [1, 3])
@pytest.mark.parametrize("gate", [False, True])
@pytest.mark.parametrize("rows", ["target", "all"])
def test_by_chunks_as_by_plain_autograd(experts, gate, rows, monkeypatch):
    config = AdversarialConfig(alpha=0.1, rows=rows)
    targets = torch.randint(V, (40,), generator=torch.Generator().manual_seed(3))
    gradients = []
    for fast in (True, False):
        some = mixture(40, experts, gate)
        if fast:
            passed = Pass(features=None, mixture=some, state=())
            loss = Adversarial(config, None)(passed, targets, some.weight_VE, None)
        else:
            loss = adversarial_nll(some, targets, config)
        loss.backward()
        gradients.append([loss.detach(), some.vectors_NJE.grad, some.weight_VE.grad])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)
