"""Rows of a mixture of softmaxes by Triton's kernels against float64; mixtures against torch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ablate.model.fast import precision
from ablate.model.mixture import summed_nll, summed_nll_plain, token_nll
from tests.model.test_mixture import Case, gradients

CAP = 3.0
# Relative to the number. The interpreter cuts bfloat16 off, which a GPU rounds.
ROUNDING = {torch.float32: 1e-5, torch.bfloat16: 2.0**-7}


class Rows:
    """Scores of two components for each token; the last of 33 words has a block of its own."""

    def __init__(self, dtype=torch.float32, *, bias=False, gate=False, cap=None, words=33):
        generator = torch.Generator().manual_seed(5)

        def drawn(*shape):
            return torch.randn(shape, generator=generator)

        self.scores = drawn(4, words).mul(3).to(dtype)
        self.bias = drawn(words) if bias else None
        self.gate = drawn(2, words).sigmoid() if gate else None
        self.cap, self.factor = cap, drawn(4, 1).sigmoid()
        self.targets = torch.tensor([words - 1, words // 2])

    @property
    def given(self):
        return self.scores, self.bias, self.gate, self.cap, self.targets

    def exact(self):
        """In float64: peak, sum, target below the peak; slopes with factor, and the gate's."""
        score = self.scores.double().requires_grad_()
        logit = score if self.bias is None else score + self.bias.double()
        inner = None
        if self.gate is not None:
            inner = self.gate.double().logit().requires_grad_()
            logit = logit * inner.sigmoid().repeat_interleave(2, 0)
        if self.cap is not None:
            logit = self.cap * (logit / self.cap).tanh()
        peak = logit.amax(1, keepdim=True)
        sums, at = (logit - peak).exp().sum(1, keepdim=True), self.targets.repeat_interleave(2)
        target = logit.gather(1, at[:, None])
        nll = ((logit - peak).logsumexp(1, keepdim=True) + peak - target) * sums.detach()
        slopes = torch.autograd.grad(
            (self.factor * nll).sum(), [x for x in (score, inner) if x is not None]
        )
        return (peak, sums, target - peak), *slopes, *([None] if inner is None else [])


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize(
    "read", [{}, {"bias": True, "gate": True}, {"bias": True, "cap": CAP}], ids=["", "gate", "cap"]
)
def test_sums_and_slopes_are_those_of_float64(dtype, read, ran):
    from ablate.model.triton.softmax import row_sums, slopes_

    rows = Rows(dtype, **read)
    sums, slope, of_gate = rows.exact()
    ours = row_sums(*rows.given)
    for mine, wanted in zip(ours, sums, strict=True):
        torch.testing.assert_close(mine.double(), wanted, rtol=1e-5, atol=1e-5)
    gate_slope = slopes_(*rows.given, *ours[:2], rows.factor)
    apart = (rows.scores.double() * rows.factor - slope).abs()  # scores became slopes
    assert (apart <= ROUNDING[dtype] * slope.abs() + 1e-5).all() and ran()
    if of_gate is None:
        assert gate_slope is None
    else:
        torch.testing.assert_close(gate_slope.double(), of_gate, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("words", [1, 5, 16])
def test_few_words_are_one_block(words):
    from ablate.model.triton.softmax import row_sums

    rows = Rows(words=words)
    for mine, wanted in zip(row_sums(*rows.given), rows.exact()[0], strict=True):
        torch.testing.assert_close(mine.double(), wanted, rtol=1e-6, atol=1e-6)


def test_masked_words_and_what_is_no_number():
    """Two blocks of -inf alone add nothing; a NaN spoils its row and no other."""
    from ablate.model.triton.softmax import row_sums

    rows = Rows()
    rows.scores[0, :32], rows.scores[0, 32], rows.scores[2, 7] = -torch.inf, 2.0, torch.nan
    peaks, sums, targets = (x[:, 0].tolist() for x in row_sums(*rows.given))
    assert (peaks[0], sums[0], targets[0]) == (2, 1, 0)
    assert [x != x for x in sums] == [False, False, True, False]


CASES = [(False, None), (True, None), (False, CAP)]


@pytest.mark.parametrize("size", [(1, 1, 2, 1), (5, 3, 29, 5)])
@pytest.mark.parametrize(("gate", "cap"), CASES)
def test_a_mixtures_loss_and_gradients_are_torchs(size, gate, cap, ran):
    case = Case(*size, gate=gate, dtype=torch.float32)
    mixture, twin = (replace(case.mixture, cap=cap) for _ in range(2))
    ours, plain = summed_nll(mixture, case.targets), summed_nll_plain(twin, case.targets)
    assert ran()
    torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-5)
    pairs = zip(gradients(ours, case), gradients(plain, case), strict=True)
    for mine, wanted in pairs:
        torch.testing.assert_close(mine, wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(token_nll(mixture, case.targets).sum(), plain.detach())


@pytest.mark.parametrize("gate", [False, True])
def test_under_autocast_it_reads_scores_in_bfloat16(gate, ran, monkeypatch):
    """As far from float64 as products of rounded factors are; with a gate too, unlike the compiled
    kernel."""
    monkeypatch.setattr(precision, "has_fast_bfloat16", lambda: True)
    case = Case(5, 3, 29, 5, gate=gate, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours = summed_nll(case.mixture, case.targets)
    assert ran()
    plain = summed_nll_plain(case.mixture, case.targets)
    torch.testing.assert_close(ours, plain, rtol=0.01, atol=0.01)
    pairs = zip(gradients(ours, case), gradients(plain, case), strict=True)
    for mine, wanted in pairs:
        assert (mine - wanted).norm() <= 0.03 * wanted.norm()
