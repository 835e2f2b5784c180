"""Mamba-2's recurrence over a window, in chunks (SSD, Dao & Gu 2024, Section 6).

    S_t = exp(a d_t) S_{t-1} + d_t x_t B_t',    y_t = S_t C_t

With a_t = exp(a d_t), all outputs of a chunk that begins with S_0 are

    y_t = a_t ... a_1 S_0 C_t + sum_{s <= t} a_t ... a_{s+1} d_s (C_t' B_s) x_s

products of matrices, like attention without a softmax. `ssd_plain` is the recurrence step by step.

Shape suffixes: G groups of R heads each, P units of a head, N numbers of B and of C, Q steps of a
chunk; others as in `model/flow.py`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

CHUNK = 64  # at most so many steps at once


def ssd_plain(
    x_TBGRP: Tensor, d_TBGR: Tensor, b_TBGN: Tensor, c_TBGN: Tensor, a_GR: Tensor, s_BGRPN: Tensor
) -> tuple[Tensor, Tensor]:
    """S_t C_t of every step, and the last S, by the recurrence; a is -exp(A)."""
    steps = []
    for x_BGRP, d_BGR, b_BGN, c_BGN in zip(x_TBGRP, d_TBGR, b_TBGN, c_TBGN, strict=True):
        kept_BGRPN = (a_GR * d_BGR).exp()[..., None, None] * s_BGRPN
        s_BGRPN = kept_BGRPN + torch.einsum("bgr,bgrp,bgn->bgrpn", d_BGR, x_BGRP, b_BGN)
        steps.append(torch.einsum("bgrpn,bgn->bgrp", s_BGRPN, c_BGN))
    return torch.stack(steps), s_BGRPN


def ssd(
    x_TBGRP: Tensor,
    d_TBGR: Tensor,
    b_TBGN: Tensor,
    c_TBGN: Tensor,
    a_GR: Tensor,
    s_BGRPN: Tensor,
    chunk: int = CHUNK,
) -> tuple[Tensor, Tensor]:
    """The same, by chunks of about equal length, of at most `chunk` steps."""
    number = num_chunks(len(x_TBGRP), chunk)
    windows = (w.tensor_split(number) for w in (x_TBGRP, d_TBGR, b_TBGN, c_TBGN))
    outputs = []
    for x, d, b, c in zip(*windows, strict=True):
        y_QBGRP, s_BGRPN = one_chunk(x, d, b, c, a_GR, s_BGRPN)
        outputs.append(y_QBGRP)
    return torch.cat(outputs), s_BGRPN


def num_chunks(num_steps: int, chunk: int = CHUNK) -> int:
    """How many chunks a window has."""
    return -(-num_steps // chunk)


def one_chunk(
    x_QBGRP: Tensor, d_QBGR: Tensor, b_QBGN: Tensor, c_QBGN: Tensor, a_GR: Tensor, s_BGRPN: Tensor
) -> tuple[Tensor, Tensor]:
    """A chunk's outputs and last state, by products over all of its steps."""
    # The last dimension is laid out last, or every [Q, Q] would be rearranged for its product.
    d_BGRQ, x_BGRQP = d_QBGR.permute(1, 2, 3, 0).contiguous(), x_QBGRP.permute(1, 2, 3, 0, 4)
    log_BGRQ = a_GR[..., None] * d_BGRQ
    scores_BGQQ = torch.einsum("tbgn,sbgn->bgts", c_QBGN, b_QBGN)
    written_BGRQQ = sums_between(log_BGRQ).exp() * d_BGRQ[..., None, :]
    weights_BGRQQ = scores_BGQQ[:, :, None] * written_BGRQQ
    from_state_BGRQP = torch.einsum("tbgn,bgrpn->bgrtp", c_QBGN, s_BGRPN)
    kept_BGRQ1 = log_BGRQ.cumsum(-1).exp()[..., None]
    y_BGRQP = torch.addcmul(weights_BGRQQ @ x_BGRQP, kept_BGRQ1, from_state_BGRQP)
    left_BGRQ = written_BGRQQ[..., -1, :]
    added_BGRPN = torch.einsum("bgrsp,sbgn->bgrpn", left_BGRQ[..., None] * x_BGRQP, b_QBGN)
    s_BGRPN = torch.addcmul(added_BGRPN, kept_BGRQ1[..., -1:, :], s_BGRPN)
    return y_BGRQP.permute(3, 0, 1, 2, 4), s_BGRPN


def sums_between(log_Q: Tensor) -> Tensor:
    """log a_t + ... + log a_{s+1} for every t and s of a chunk, [..., t, s]: 0 for s = t, -inf for
    later ones.

    Each sum is of its own terms: a difference of two sums from the first step on would lose the
    digits of a small sum after strong decays.
    """
    size = log_Q.shape[-1]
    not_before = log_Q.new_ones(size, size, dtype=torch.bool).triu()
    terms_QQ = log_Q[..., None].expand(*log_Q.shape, size).masked_fill(not_before, 0.0)
    return terms_QQ.cumsum(-2).masked_fill(not_before.triu(1), -math.inf)
