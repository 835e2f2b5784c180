"""Rows of the augmented loss by Triton's kernels against float64; whole losses against torch's."""

from __future__ import annotations

import pytest
import torch

from ablate.model.fast import precision, tempered_gradient
from ablate.model.fast.mixture_gradient import ChunkSize
from ablate.model.fast.tempered import summed_augmented
from tests.components.test_augmented import Given, plain_loss, terms

NUMBERS = TEMPERATURE, OF_NLL, OF_DIVERGENCE = 3.0, 0.7, 2.5


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("biased", [False, True])
def test_losses_and_slopes_are_those_of_float64(biased, ran, monkeypatch):
    """More words than a block has, and more tokens than add up the bias's gradient in one sum."""
    from ablate.model.triton import augmented
    from ablate.model.triton.augmented import augmented_, soft_targets_

    monkeypatch.setattr(augmented, "ROWS", 2)
    num_tokens, num_words = 3, 35
    scores, similar = drawn(num_tokens, num_words) * 3, drawn(2, num_words) * 9
    bias = drawn(num_words) if biased else None
    targets = torch.tensor([0, 7, num_words - 1])
    soft_of, ytilde, d_bias = (
        targets % 2,
        torch.empty_like(similar),
        (torch.ones(num_words) if biased else None),
    )
    wanted_similar = similar.double() / TEMPERATURE
    soft = wanted_similar.softmax(1)

    s = scores.double().requires_grad_()
    b = torch.zeros(num_words).double() if bias is None else bias.double()
    nll = -(s + b.requires_grad_()).log_softmax(1).gather(1, targets[:, None])[:, 0]
    log_yhat = (s / TEMPERATURE).log_softmax(1)
    divergence = (soft[soft_of] * (soft.log()[soft_of] - log_yhat)).sum(1)
    wanted = OF_NLL * nll + OF_DIVERGENCE * divergence
    slopes, bias_slope = torch.autograd.grad(wanted.sum(), (s, b))

    negative = soft_targets_(similar, 1 / TEMPERATURE, ytilde)
    close(similar, wanted_similar)
    close(ytilde, soft)
    close(negative, (soft * soft.log()).sum(1))
    ours = augmented_(scores, bias, targets, ytilde, soft_of, negative, NUMBERS, d_bias)
    assert ran()
    close(ours, wanted)
    close(scores, slopes)
    if d_bias is not None:
        close(d_bias - 1, bias_slope)


def close(ours: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(ours.double(), wanted.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("tied", "detach"), [(False, True), (True, False)])
@pytest.mark.parametrize("bias", [False, True])
def test_a_loss_and_its_gradients_are_torchs(tied, detach, bias, ran, monkeypatch):
    """In chunks of three tokens, of which some have the same target."""
    monkeypatch.setattr(tempered_gradient, "NARROW_PARTS", ChunkSize(3 * 29 * 4, 0))
    example = Given(7, 1, 29, 5, bias=bias, tied=tied, dtype=torch.float32)
    chosen = terms(detach=detach)
    ours = summed_augmented(example.mixture, example.targets, example.words, chosen)
    assert ran()
    plain = plain_loss(example.mixture, example.targets, example.words, chosen)
    torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-5)
    for mine, wanted in zip(example.gradients(ours), example.gradients(plain), strict=True):
        assert (mine is None) == (wanted is None)
        if mine is not None:
            torch.testing.assert_close(mine, wanted, rtol=1e-4, atol=1e-4)


def test_under_autocast_it_reads_scores_in_bfloat16(ran, monkeypatch):
    monkeypatch.setattr(precision, "has_fast_bfloat16", lambda: True)
    example, chosen = Given(7, 1, 29, 5, tied=False, dtype=torch.float32), terms(detach=False)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours = summed_augmented(example.mixture, example.targets, example.words, chosen)
    assert ran()
    plain = plain_loss(example.mixture, example.targets, example.words, chosen)
    torch.testing.assert_close(ours, plain, rtol=0.02, atol=0.02)
    slopes = (torch.autograd.grad(loss, example.leaves) for loss in (ours, plain))
    for mine, wanted in zip(*slopes, strict=True):
        assert (mine - wanted).norm() <= 0.03 * wanted.norm()
