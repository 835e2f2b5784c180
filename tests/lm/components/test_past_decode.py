"""Past decode regularization: its formula, its gradient by differences, and its parameters."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from ablate.lm.components.regularizer.past_decode import past_nll
from ablate.lm.model.fast.precision import products_in
from ablate.lm.model.mixture import log_probs
from ablate.lm.testing.subject import ROWS, STEPS, SmallModel

WEIGHT = "regularizer.past_decode.weight"
BIAS = "regularizer.past_decode.bias"
V, E = 7, 3


def drawn(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed + 10 * len(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def given():
    """Word vectors, A, a and c."""
    return drawn(V, E), drawn(E, E), drawn(E), drawn(V)


def penalty_of(small):
    return small.regularizers[0].penalty(small.run(), small.model)


def test_a_certain_prediction_decodes_that_word_s_vector():
    E_VE, A_EE, a_E, c_V = given()
    predicted, past = torch.tensor([4, 0, 4]), torch.tensor([1, 6, 2])
    expected = sum(
        -(E_VE @ torch.tanh(A_EE @ E_VE[w] + a_E) + c_V).log_softmax(0)[x]
        for w, x in zip(predicted, past, strict=True)
    )
    p = F.one_hot(predicted, V).double()
    torch.testing.assert_close(past_nll(p, past, E_VE, A_EE, a_E, c_V), expected)


@pytest.mark.parametrize("head", ["softmax", "mos"])
@pytest.mark.parametrize("bias", ["own", "output", "none"])
def test_by_chunks_as_by_plain_autograd(head, bias, monkeypatch):
    """Over the words read, with the model's own word vectors, of which none is masked."""
    from ablate.lm.components.regularizer import past_decode

    def in_threes(mixture, size):
        return (slice(at, at + 3) for at in range(0, STEPS * ROWS, 3))

    monkeypatch.setattr(past_decode, "token_chunks", in_threes)
    gradients = []
    for fast in (True, False):
        small = SmallModel({"head": head}, {WEIGHT: 0.3, BIAS: bias})
        if fast:
            penalty = penalty_of(small)
        else:
            mixture, decoder = small.run().mixture, small.model.auxiliary["past_decode"]
            c_V = {"own": decoder.bias, "output": mixture.bias_V, "none": None}[bias]
            own = (small.model.embedding.weight, decoder.latent.weight, decoder.latent.bias, c_V)
            summed = past_nll(log_probs(mixture).exp(), small.ids.flatten(), *own)
            penalty = 0.3 * summed / (STEPS * ROWS)
        penalty.backward()
        named = small.model.named_parameters()
        gradients.append([penalty.detach()] + [p.grad for _, p in named if p.grad is not None])
    assert len(gradients[0]) == len(gradients[1])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_of_sentences_it_decodes_the_target_words_read():
    """The mixture is of the real tokens alone, and so are the words."""
    small = SmallModel({"head": "mos"}, {WEIGHT: 1.0, BIAS: "none"}, pairs=True)
    passed, latent = small.run(), small.model.auxiliary["past_decode"].latent
    ids = passed.features.ids_TB.flatten()[passed.kept_N]
    own = (small.model.embedding.weight, latent.weight, latent.bias, None)
    summed = past_nll(log_probs(passed.mixture).exp(), ids, *own)
    assert len(ids) < passed.features.ids_TB.numel()
    torch.testing.assert_close(penalty_of(small), summed / len(ids))


def test_in_bfloat16_it_is_close_to_float32_and_leaves_float32():
    values = []
    for precision in ("float32", "bfloat16"):
        small = SmallModel({"head": "mos"}, {WEIGHT: 1.0}, dtype=torch.float32)
        with products_in(precision, "cpu"):
            penalty = penalty_of(small)
        penalty.backward()
        assert all(p.grad.dtype == torch.float32 for p in small.model.auxiliary.parameters())
        values.append(penalty.item())
    assert values[0] != values[1]
    assert values[1] == pytest.approx(values[0], rel=0.02)
