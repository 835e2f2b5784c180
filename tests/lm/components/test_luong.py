"""Attention, against a loop over words, and input feeding, against steps by hand."""

from __future__ import annotations

import math

import pytest
import torch

from ablate.errors import CombinationError
from ablate.lm.components.attention.luong import Luong, LuongConfig
from ablate.lm.model.flow import Memory, Shapes
from ablate.lm.model.masks import OFF
from ablate.lm.testing import SmallModel

SHAPES = Shapes(vocabulary=0, embedding=4, layers=(5, 3), memory=6)


def memory(units: int = 6) -> Memory:
    real_SB1 = torch.tensor([[1.0, 1.0], [1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)[..., None]
    return Memory(torch.randn(3, 2, units, dtype=torch.float64), real_SB1)


@pytest.mark.parametrize("score", ["general", "dot"])
@torch.no_grad()
def test_it_is_the_sum_over_real_words(score):
    units = 6 if score == "general" else 3
    shapes = Shapes(vocabulary=0, embedding=4, layers=(5, 3), memory=units)
    attention = Luong(LuongConfig(score=score), shapes).double()
    attention.initialize(lambda name: torch.Generator().manual_seed(len(name)))
    query_TBH, read = torch.randn(2, 2, 3, dtype=torch.float64), memory(units)
    output_TBA = attention(query_TBH, read)
    for t in range(2):
        for b, length in ((0, 3), (1, 1)):
            h, words = query_TBH[t, b], read.vectors_SBM[:length, b]
            matrix = torch.eye(3).double() if attention.score is None else attention.score
            scores = [float(h @ matrix @ word) for word in words]
            total = sum(map(math.exp, scores))
            context = sum(math.exp(s) / total * w for s, w in zip(scores, words, strict=True))
            expected = torch.tanh(attention.combine @ torch.cat((context, h)))
            torch.testing.assert_close(output_TBA[t, b], expected)


def test_the_dot_product_needs_equal_widths():
    with pytest.raises(CombinationError, match=r"3 units by the encoder's 6"):
        Luong(LuongConfig(score="dot"), SHAPES)


def test_input_feeding_gives_the_next_step_what_attention_gave():
    small = SmallModel({}, {"attention.input_feeding": True}, pairs=True)
    model, batch = small.model, small.batch
    *layers, fed, vectors, real = model.begin(batch.source.ids_SB, batch.source.real_SB1)
    expected = []
    for ids_1B in batch.inputs_TB.split(1):
        inputs = torch.cat((model.embedding(ids_1B), fed), -1)
        raw, _, layers = model.backbone(inputs, ids_1B, tuple(layers), OFF)
        fed = model.attention(raw[-1], Memory(vectors, real))
        expected.append(fed)
    features = small.run().features
    torch.testing.assert_close(features.output_TBH, torch.cat(expected))
    assert model.backbone.weight_ih_l0.shape[1] == 8 + model.attention.width


def test_without_attention_only_the_start_knows_the_source():
    small = SmallModel({"attention": "none"}, pairs=True)
    assert small.model.shapes.layers == tuple(small.model.backbone.widths)
    assert not [name for name, _ in small.model.named_parameters() if "attention" in name]


def test_a_decoder_that_would_know_nothing_of_the_source_is_refused():
    blind = {"backbone": "feed_forward", "attention": "none"}
    with pytest.raises(CombinationError, match=r"no state that is one vector.*attention = 'luong'"):
        SmallModel(blind, pairs=True)
    assert SmallModel({**blind, "attention": "luong"}, pairs=True).model.shapes.layers
