"""The skipping RNN against numpy, its limits and its plain form."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.errors import CombinationError
from ablate.lm.components.backbone.skipping_rnn import (
    Recurrent,
    SkippingRnn,
    SkippingRnnConfig,
    first_letters,
    skipping_recurrence,
)
from ablate.lm.model.activation import Activation
from ablate.lm.model.flow import Shapes
from ablate.lm.model.masks import OFF, Masks

LETTERS = " abcd_"
SEPARATORS = (0, 5)
SHAPES = Shapes(vocabulary=6, embedding=4, separators=SEPARATORS)


def ids_of(text: str) -> torch.Tensor:
    return torch.tensor([[LETTERS.index(letter)] for letter in text])


def built(shapes=SHAPES, **values):
    config = SkippingRnnConfig(units=5, **values)
    backbone = SkippingRnn(config, shapes).double()
    generator = torch.Generator().manual_seed(3)
    backbone.initialize(lambda name: generator)
    return backbone


def by_hand(u, text, weight, skip_weight, f):
    """Every x, from text: words are found by splitting it."""
    x, first, starts_word = np.zeros(len(weight)), np.zeros(len(weight)), True
    actual = []
    for u_H, letter in zip(u, text, strict=True):
        begins = starts_word and letter not in " _"
        x = f(u_H + weight @ x + (skip_weight @ first if begins else 0))
        if begins:
            first = x
        starts_word = letter in " _"
        actual.append(x)
    return np.stack(actual)


def test_first_letters_come_after_separators():
    first, inside = first_letters(ids_of("ab c_ dd "), torch.tensor([[False]]), SEPARATORS)
    assert first[:, 0].int().tolist() == [1, 0, 0, 1, 0, 0, 1, 0, 0]
    assert inside.tolist() == [[False]]
    first, inside = first_letters(ids_of("ab"), torch.tensor([[True]]), SEPARATORS)
    assert first[:, 0].int().tolist() == [0, 0]
    assert inside.tolist() == [[True]]


@pytest.mark.parametrize("text", ["ab cd a_b", " ab  c_ d", "abcd"])
def test_it_is_the_equation(text):
    backbone = built(activation="tanh")
    x = torch.randn(len(text), 1, 4, dtype=torch.float64)
    raw, _, _ = backbone(x, ids_of(text), backbone.initial_state(1), OFF)
    named = {name: p.detach().numpy() for name, p in backbone.named_parameters()}
    u = x[:, 0].numpy() @ named["weight_ih_l0"].T
    expected = by_hand(u, text, named["weight_hh_l0"], named["weight_skip_l0"], np.tanh)
    torch.testing.assert_close(raw[0][:, 0], torch.from_numpy(expected))


def window(dtype=torch.float64):
    generator = torch.Generator().manual_seed(7)
    shapes = ((7, 3, 5), (3, 5), (3, 5), (5, 5), (5, 5))
    inputs = [torch.randn(s, generator=generator, dtype=dtype).requires_grad_() for s in shapes]
    first = torch.randint(0, 2, (7, 3, 1), generator=generator).to(dtype)
    mask = torch.randint(0, 2, (3, 5), generator=generator).to(dtype) * 2
    return inputs, first, mask


def outputs(run, inputs, first, mask, f):
    u, x, skip, weight, skip_weight = inputs
    return run(u, x, skip, first, Recurrent(weight, skip_weight, mask), f)


@pytest.mark.parametrize("with_mask", [False, True])
def test_its_gradients_are_those_of_finite_differences(with_mask):
    inputs, first, mask = window()
    mask, f = mask if with_mask else None, Activation("tanh")
    torch.autograd.gradcheck(lambda *g: outputs(skipping_recurrence, g, first, mask, f), inputs)


def test_one_mask_is_on_both_states_it_reads():
    backbone = built(activation="tanh")
    text = "ab cd"
    x, mask = torch.randn(5, 1, 4).double(), torch.tensor([[[2.0, 0, 2, 0, 2]]]).double()

    class Held(Masks):
        def locked(self, site, shape, like):
            return mask if (site, shape) == ("recurrent/1", (1, 1, 5)) else None

    raw, _, _ = backbone(x, ids_of(text), backbone.initial_state(1), Held())
    named = {name: p.detach().numpy() for name, p in backbone.named_parameters()}
    diagonal = np.diag(mask[0, 0].numpy())
    u = x[:, 0].numpy() @ named["weight_ih_l0"].T
    matrices = (named[f"weight_{kind}_l0"] @ diagonal for kind in ("hh", "skip"))
    expected = by_hand(u, text, *matrices, np.tanh)
    torch.testing.assert_close(raw[0][:, 0], torch.from_numpy(expected))


def test_a_text_of_words_is_refused_with_the_ways_out():
    backbone = built(Shapes(vocabulary=6, embedding=4))
    with pytest.raises(CombinationError, match=r"'character' or 'byte', or backbone = 'elman'"):
        backbone(torch.randn(5, 1, 4), ids_of("ab cd"), backbone.initial_state(1), OFF)
