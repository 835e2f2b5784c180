"""What every head owes, under every gate: a distribution, and a loss that agrees with it."""

from __future__ import annotations

import pytest
import torch

from ablate import registry
from ablate.components.mixture import log_probs, summed_nll, summed_nll_plain, token_nll

heads = pytest.mark.parametrize("head", registry.names("head"))
gates = pytest.mark.parametrize("gate", registry.names("gate"))


@heads
def test_its_mixture_has_the_shapes_of_one(small, head):
    given = small(head=head)
    mixture = given.run().mixture
    num_tokens, num_components, width = mixture.vectors_NJE.shape
    assert num_components == given.model.head.num_components
    assert num_tokens == 18
    assert mixture.weight_VE.shape == (23, width)
    assert mixture.bias_V is None or mixture.bias_V.shape == (23,)
    if mixture.log_prior_NJ is None:
        assert num_components == 1
    else:
        total = mixture.log_prior_NJ.logsumexp(1)
        torch.testing.assert_close(total, torch.zeros_like(total))


@heads
@gates
def test_its_probabilities_sum_to_one(small, head, gate):
    total = log_probs(small(head=head, gate=gate).run().mixture).logsumexp(1)
    torch.testing.assert_close(total, torch.zeros_like(total))


@heads
@gates
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_the_loss_is_that_of_the_distribution(small, head, gate, dtype, tolerance):
    given = small(head=head, gate=gate, dtype=dtype)
    parameters = list(given.model.parameters())
    found = []
    for loss in (summed_nll, summed_nll_plain):
        value = loss(given.run().mixture, given.targets)
        found.append((value, *torch.autograd.grad(value, parameters)))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
    tokens = token_nll(given.run().mixture, given.targets)
    torch.testing.assert_close(tokens.sum(), found[0][0].detach())
