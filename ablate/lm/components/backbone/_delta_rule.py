"""The gated delta rule, step by step and by chunks (Yang, Kautz and Hatamizadeh 2025, Section 3).

    S_t = S_{t-1} alpha_t (I - beta_t k_t k_t') + beta_t v_t k_t',    y_t = S_t q_t

Before it writes, S forgets (alpha), and loses what it had under the key (beta). With u_t, what is
written under k_t, and g_t, the sum of log alpha from the chunk's first step to t,

    S_t = e^{g_t} S_0 + sum_{i<=t} e^{g_t - g_i} u_i k_i'
    u_t + beta_t sum_{i<t} e^{g_t - g_i} (k_t' k_i) u_i = beta_t (v_t - e^{g_t} S_0 k_t)

so a chunk's u solve one triangular system (the paper's WY representation and UT transform, with
the state among the system's right sides). Exponents are never above 0, whatever alpha is.

Shape suffixes: T steps, C steps of a chunk, B rows, A heads, K units of a key, D of a value. S is
stored transposed, [B, A, K, D].
"""

from __future__ import annotations

import torch
from torch import Tensor


def steps(
    q_BATK: Tensor,
    k_BATK: Tensor,
    v_BATD: Tensor,
    log_alpha_BAT: Tensor,
    beta_BAT: Tensor,
    s_BAKD: Tensor,
) -> tuple[Tensor, Tensor]:
    """y of every step and the last S, by the definition: the reference for `chunk`."""
    outputs = []
    alpha_BAT = log_alpha_BAT.exp()
    for t in range(q_BATK.shape[2]):
        q, k, v = (x[:, :, t, None] for x in (q_BATK, k_BATK, v_BATD))
        alpha, beta = (x[:, :, t, None, None] for x in (alpha_BAT, beta_BAT))
        forgotten = alpha * (s_BAKD - beta * k.mT @ (k @ s_BAKD))
        s_BAKD = forgotten + beta * k.mT @ v
        outputs.append(q @ s_BAKD)
    return torch.cat(outputs, 2), s_BAKD


def chunk(
    q_BACK: Tensor,
    k_BACK: Tensor,
    v_BACD: Tensor,
    log_alpha_BAC: Tensor,
    beta_BAC: Tensor,
    s_BAKD: Tensor,
) -> tuple[Tensor, Tensor]:
    """The same for all steps of a chunk at once."""
    g_BAC1, beta_BAC1 = log_alpha_BAC.cumsum(2)[..., None], beta_BAC[..., None]
    decay_BACC = _between(g_BAC1)
    kept_BACK = k_BACK * g_BAC1.exp()
    right_BACD = beta_BAC1 * (v_BACD - kept_BACK @ s_BAKD)
    left_BACC = beta_BAC1 * decay_BACC * (k_BACK @ k_BACK.mT)
    # `unitriangular`: the diagonal is taken as 1, whatever is there.
    u_BACD = torch.linalg.solve_triangular(left_BACC, right_BACD, upper=False, unitriangular=True)
    y_BACD = g_BAC1.exp() * (q_BACK @ s_BAKD) + (decay_BACC * (q_BACK @ k_BACK.mT)) @ u_BACD
    end_BA11 = g_BAC1[:, :, -1:]
    written_BAKD = (k_BACK * (end_BA11 - g_BAC1).exp()).mT @ u_BACD
    return y_BACD, end_BA11.exp() * s_BAKD + written_BAKD


def operations(steps: int, size: int, key: int, value: int) -> int:
    """Of a head and a token, by chunks of `size` steps: the products of q and k with k, of decays
    with u, and half of a product for the triangular system; three products with the state."""
    within = min(steps, size)
    return within * (4 * key + 3 * value) + 6 * key * value


def _between(g_BAC1: Tensor) -> Tensor:
    """e^{g_t - g_i} for i <= t, and 0 for later i."""
    apart_BACC = g_BAC1 - g_BAC1.mT
    later_CC = torch.ones_like(apart_BACC[0, 0], dtype=torch.bool).triu(1)
    # Before exp: a later step's difference is above 0 and may overflow, also in the gradient.
    return apart_BACC.masked_fill(later_CC, -torch.inf).exp()
