"""The memory of RWKV-7, step by step and by chunks (Peng et al. 2025, Section 4).

    S_t = S_{t-1} diag(w_t) + (S_{t-1} z_t) b_t' + v_t k_t',    y_t = S_t r_t

with z = -kappa and b = a kappa: under the key kappa of length 1, a share a of what S has is removed
from each unit of the key. With G_t, the product of w from the chunk's first step to t, and u_t =
S_{t-1} z_t, what is written at t is divided by G_t, and what is read at t multiplied by it:

    S_t = (S_0 + sum_{i<=t} (u_i (b_i / G_i)' + v_i (k_i / G_i)')) diag(G_t)
    u_t - sum_{i<t} ((b_i / G_i)' (G_{t-1} z_t)) u_i
        = S_0 (G_{t-1} z_t) + sum_{i<t} ((k_i / G_i)' (G_{t-1} z_t)) v_i

so a chunk's u solve one triangular system. RWKV-7's w is above exp(-exp(-1/2)) = 0.545, so that
over a chunk of 16 steps 1 / G stays below 20,000.

Shape suffixes: T steps, C steps of a chunk, B rows, A heads, D units of a head. S is stored
transposed, [B, A, D of the key, D of the value].
"""

from __future__ import annotations

import torch
from torch import Tensor


def steps(
    r_BATD: Tensor,
    log_w_BATD: Tensor,
    k_BATD: Tensor,
    v_BATD: Tensor,
    z_BATD: Tensor,
    b_BATD: Tensor,
    s_BADD: Tensor,
) -> tuple[Tensor, Tensor]:
    """y of every step and the last S, by the definition: the reference for `chunk`."""
    outputs, w_BATD = [], log_w_BATD.exp()
    for t in range(r_BATD.shape[2]):
        inputs = (r_BATD, w_BATD, k_BATD, v_BATD, z_BATD, b_BATD)
        r, w, k, v, z, b = (x[:, :, t, None] for x in inputs)
        s_BADD = w.mT * s_BADD + b.mT @ (z @ s_BADD) + k.mT @ v
        outputs.append(r @ s_BADD)
    return torch.cat(outputs, 2), s_BADD


def chunk(
    r_BACD: Tensor,
    log_w_BACD: Tensor,
    k_BACD: Tensor,
    v_BACD: Tensor,
    z_BACD: Tensor,
    b_BACD: Tensor,
    s_BADD: Tensor,
) -> tuple[Tensor, Tensor]:
    """The same for all steps of a chunk at once."""
    log_g_BACD = log_w_BACD.cumsum(2)
    grown_BACD = (-log_g_BACD).exp()
    k_BACD, b_BACD = k_BACD * grown_BACD, b_BACD * grown_BACD
    r_BACD, z_BACD = r_BACD * log_g_BACD.exp(), z_BACD * (log_g_BACD - log_w_BACD).exp()
    right_BACD = z_BACD @ s_BADD + (z_BACD @ k_BACD.mT).tril(-1) @ v_BACD
    # `unitriangular`: the diagonal is taken as 1, whatever is there.
    u_BACD = torch.linalg.solve_triangular(
        -(z_BACD @ b_BACD.mT), right_BACD, upper=False, unitriangular=True
    )
    y_BACD = r_BACD @ s_BADD
    for key_BACD, value_BACD in ((b_BACD, u_BACD), (k_BACD, v_BACD)):
        y_BACD = y_BACD + (r_BACD @ key_BACD.mT).tril() @ value_BACD
        s_BADD = s_BADD + key_BACD.mT @ value_BACD
    return y_BACD, log_g_BACD[:, :, -1, :, None].exp() * s_BADD


def operations(steps: int, size: int, units: int) -> int:
    """Of a head and a token, by chunks of `size` steps: four products of keys, three with values,
    and half of one for the triangular system; four products with the state."""
    return 15 * min(steps, size) * units + 8 * units**2
