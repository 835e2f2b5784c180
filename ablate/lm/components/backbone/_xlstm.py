"""The cells of xLSTM: sLSTM step by step, mLSTM step by step and by chunks (Beck et al. 2024).

Both have exponential gates, i = exp(i~) and f = sigmoid(f~) or exp(f~), whose numbers may be of any
size. What is stored is e^{-m} of the memory, with a state m that keeps the largest exponent at 0:

    m_t = max(log f_t + m_{t-1}, i~_t)
    f' = e^{log f_t + m_{t-1} - m_t},    i' = e^{i~_t - m_t}

    sLSTM    c_t = f' c_{t-1} + i' tanh(z~_t),    n_t = f' n_{t-1} + i'
             h_t = sigmoid(o~_t) c_t / n_t
    mLSTM    C_t = f' C_{t-1} + i' k_t v_t',      n_t = f' n_{t-1} + i' k_t
             h_t = C_t' q_t / max(|n_t' q_t|, e^{-m_t})

(Eq. 8-17 and 19-27; the paper's max(|n' q|, 1) is that of the memory before it is scaled.) n is
stored as a last column of C, by a 1 after each v. Over a chunk, with g_t, the sum of log f from its
first step to t, m_t is the largest of g_t + m_0 and g_t - g_i + i~_i for i <= t, and

    C_t = e^{g_t + m_0 - m_t} C_0 + sum_{i<=t} e^{g_t - g_i + i~_i - m_t} k_i v_i'

Shape suffixes: T steps, C steps of a chunk, B rows, A heads, D units of a head, V those and one
more, G the four gates' units of a head.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ablate.lm.model.fast.ssd import sums_between

LARGEST = 80.0  # exponents beyond it overflow in float32


def slstm(
    pre_TBAG: Tensor,
    weight_AGD: Tensor,
    h_BAD: Tensor,
    c_BAD: Tensor,
    n_BAD: Tensor,
    m_BAD: Tensor,
    *,
    mask_BAD: Tensor | None = None,
    exponential: bool = False,
) -> tuple[Tensor, ...]:
    """h of every step, and the last h, c, n and m. Gates in the order i, f, z, o; `mask_BAD` is on
    the h that they read; `exponential`: f = exp(f~)."""
    outputs = []
    for pre_BAG in pre_TBAG:
        read_BAD = h_BAD if mask_BAD is None else h_BAD * mask_BAD
        i, f, z, o = (pre_BAG + _by_block(read_BAD, weight_AGD)).chunk(4, -1)
        log_f = f if exponential else F.logsigmoid(f)
        # Nothing is remembered before the first step: then m is i, whatever f is.
        m_BAD = torch.where(n_BAD == 0, i - log_f, m_BAD)
        forgotten_BAD = log_f + m_BAD
        m_BAD = torch.maximum(forgotten_BAD, i)
        f, i = (forgotten_BAD - m_BAD).exp(), (i - m_BAD).exp()
        c_BAD, n_BAD = f * c_BAD + i * z.tanh(), f * n_BAD + i
        h_BAD = o.sigmoid() * c_BAD / n_BAD
        outputs.append(h_BAD)
    return torch.stack(outputs), h_BAD, c_BAD, n_BAD, m_BAD


def mlstm(
    q_BATD: Tensor,
    k_BATD: Tensor,
    v_BATV: Tensor,
    i_BAT: Tensor,
    log_f_BAT: Tensor,
    state: tuple[Tensor, Tensor],
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """h of every step, and the last C with n, [B, A, D, V], and m, by the definition: the reference
    for `mlstm_chunk`."""
    (c_BADV, m_BA), outputs = state, []
    for t in range(q_BATD.shape[2]):
        q, k, v = (x[:, :, t, None] for x in (q_BATD, k_BATD, v_BATV))
        i, forgotten = i_BAT[:, :, t], log_f_BAT[:, :, t] + m_BA
        m_BA = torch.maximum(forgotten, i)
        f, i = ((x - m_BA).exp()[..., None, None] for x in (forgotten, i))
        c_BADV = f * c_BADV + i * k.mT @ v
        outputs.append(_normalized(q @ c_BADV, m_BA[..., None]))
    return torch.cat(outputs, 2), (c_BADV, m_BA)


def mlstm_chunk(
    q_BACD: Tensor,
    k_BACD: Tensor,
    v_BACV: Tensor,
    i_BAC: Tensor,
    log_f_BAC: Tensor,
    state: tuple[Tensor, Tensor],
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The same for all steps of a chunk at once."""
    c_BADV, m_BA = state
    g_BAC = log_f_BAC.cumsum(2)
    written_BACC = sums_between(log_f_BAC) + i_BAC[..., None, :]
    kept_BAC = g_BAC + m_BA[..., None]
    m_BAC = torch.maximum(kept_BAC, written_BACC.amax(-1))
    written_BACC = (written_BACC - m_BAC[..., None]).exp()
    kept_BAC1 = (kept_BAC - m_BAC).exp()[..., None]
    y_BACV = kept_BAC1 * (q_BACD @ c_BADV) + (written_BACC * (q_BACD @ k_BACD.mT)) @ v_BACV
    last_BACD = written_BACC[:, :, -1, :, None] * k_BACD
    c_BADV = kept_BAC1[:, :, -1:] * c_BADV + last_BACD.mT @ v_BACV
    return _normalized(y_BACV, m_BAC), (c_BADV, m_BAC[..., -1])


def operations(steps: int, size: int, units: int) -> int:
    """Of a head of an mLSTM and a token, by chunks of `size` steps: the products of q with k, and
    of their weights with v and 1; two products with the state."""
    return min(steps, size) * (4 * units + 2) + 4 * units * (units + 1)


def _by_block(x_BAD: Tensor, weight_AGD: Tensor) -> Tensor:
    """The product of each head with a matrix of its own."""
    return torch.einsum("...ad,agd->...ag", x_BAD, weight_AGD)


def _normalized(y_BATV: Tensor, m_BAT: Tensor) -> Tensor:
    """What is read, over what is read of n, or over 1 if that is more."""
    # Beyond the limit all that is remembered is nearly 0, and so is h in either case.
    one_BAT = (-m_BAT).clamp(max=LARGEST).exp()
    return y_BATV[..., :-1] / torch.maximum(y_BATV[..., -1].abs(), one_BAT)[..., None]
