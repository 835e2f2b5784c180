"""Past decode regularization: its formula, its gradient by differences, and its parameters."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from ablate.lm.components.regularizer.past_decode import past_nll
from ablate.lm.model.fast.precision import products_in
from ablate.lm.model.language_model import num_parameters
from ablate.lm.model.mixture import log_probs
from ablate.lm.testing.subject import ROWS, STEPS, VOCABULARY, WIDTH, SmallModel

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


def test_the_gradient_through_the_prediction_by_differences():
    past, own = torch.tensor([1, 6, 2]), [x.requires_grad_() for x in given()]
    logits = drawn(3, V, seed=1).requires_grad_()

    def loss(logits, *own):
        return past_nll(logits.softmax(1), past, *own)

    assert torch.autograd.gradcheck(loss, (logits, *own))


def test_the_names_of_words_do_not_matter():
    (E_VE, A_EE, a_E, c_V), past = given(), torch.tensor([1, 6, 2])
    p = drawn(3, V).softmax(1)
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])  # new number -> old number
    renamed = past_nll(p[:, order], order.argsort()[past], E_VE[order], A_EE, a_E, c_V[order])
    torch.testing.assert_close(renamed, past_nll(p, past, E_VE, A_EE, a_E, c_V))


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


@pytest.mark.parametrize(("bias", "more"), [("own", VOCABULARY), ("output", 0), ("none", 0)])
def test_its_parameters_are_trained_and_not_counted(bias, more):
    small, without = SmallModel({}, {WEIGHT: 0.1, BIAS: bias}), SmallModel({})
    own = small.model.auxiliary.parameters()
    assert sum(p.numel() for p in own) == WIDTH**2 + WIDTH + more
    assert num_parameters(small.model) == num_parameters(without.model)
    penalty_of(small).backward()
    assert all(p.grad.abs().sum() > 0 for p in small.model.auxiliary.parameters())
    everywhere = ("embedding.weight", "backbone.weight_ih_l0", "head.decoder.weight")
    gradients = {name: p.grad for name, p in small.model.named_parameters()}
    assert all(gradients[name].abs().sum() > 0 for name in everywhere)


def test_the_model_starts_from_the_same_weights_without_it():
    small, without = SmallModel({}, {WEIGHT: 0.1}), SmallModel({})
    started = small.model.state_dict()
    for name, weight in without.model.state_dict().items():
        assert torch.equal(started[name], weight)


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
