"""Fixed norms against the float64 reference."""

from __future__ import annotations

import pytest
import torch

from ablate.errors import CombinationError
from ablate.lm.components.regularizer.column_norm import ColumnNorm, ColumnNormConfig, set_norms_

SIZE = {"embedding.size": 5, "backbone.units": 5}


@pytest.fixture
def model(build, golden):
    def made(values: dict):
        vectors = golden("irlm_reference")
        built = build({**SIZE, "head.bias": False, **values}, vocabulary=12).model
        built.embedding.weight.data.copy_(vectors["W"])
        if built.head.decoder.weight is not None:
            built.head.decoder.weight.data.copy_(vectors["Z"])
        return built, vectors

    return made


@pytest.mark.parametrize("backbone", ["irlm", "lstm"])
def test_columns_of_both_matrices_are_the_reference(model, backbone):
    built, vectors = model({"backbone": backbone})
    before = {n: p.detach().clone() for n, p in built.named_parameters()}
    ColumnNorm(ColumnNormConfig(norm=15)).project(built)
    torch.testing.assert_close(built.embedding.weight.data, vectors["W_colnorm15"])
    torch.testing.assert_close(built.head.decoder.weight.data, vectors["Z_colnorm15"])
    for name, parameter in built.backbone.named_parameters():
        assert torch.equal(parameter, before[f"backbone.{name}"])


def test_the_output_matrix_may_have_another_norm(model):
    built, vectors = model({})
    ColumnNorm(ColumnNormConfig(norm=15, output_norm=7.5)).project(built)
    torch.testing.assert_close(built.embedding.weight.data, vectors["W_colnorm15"])
    torch.testing.assert_close(built.head.decoder.weight.data, vectors["Z_colnorm15"] / 2)


def test_a_norm_for_the_output_alone_is_refused():
    with pytest.raises(CombinationError, match=r"output_norm = 7\.5 fixes Z's norm, which needs"):
        ColumnNorm(ColumnNormConfig(output_norm=7.5))


def test_rows_are_the_word_vectors_alone(model):
    built, vectors = model({})
    ColumnNorm(ColumnNormConfig(rows=True)).project(built)
    W = vectors["W"]
    expected = W / W.square().sum(1, keepdim=True).sqrt()
    torch.testing.assert_close(built.embedding.weight.data, expected)
    assert torch.equal(built.head.decoder.weight.data, vectors["Z"])


def test_a_unit_without_weights_stays_so(model):
    built, _ = model({})
    built.embedding.weight.data[:, 2] = 0
    ColumnNorm(ColumnNormConfig(norm=15)).project(built)
    lengths = built.embedding.weight.data.norm(dim=0)
    assert lengths[2] == 0
    torch.testing.assert_close(lengths[[0, 1, 3, 4]], torch.full((4,), 15.0).double())


def test_what_is_not_trained_is_not_moved(model):
    built, vectors = model({})
    built.train_only_gate()
    ColumnNorm(ColumnNormConfig(norm=15)).project(built)
    assert torch.equal(built.embedding.weight.data, vectors["W"])


def test_rows_and_columns_at_once_are_refused():
    with pytest.raises(CombinationError, match=r"norm = 15 fixes W's columns, and rows = true"):
        ColumnNorm(ColumnNormConfig(norm=15, rows=True))


def test_read_literally_a_row_of_l_is_a_unit_over_all_words(model):
    """L is d x |V|: its row is a column of W; the output matrix is not touched."""
    built, vectors = model({})
    ColumnNorm(ColumnNormConfig(rows=True, row="unit")).project(built)
    W = vectors["W"]
    expected = W / W.square().sum(0, keepdim=True).sqrt()
    torch.testing.assert_close(built.embedding.weight.data, expected)
    assert torch.equal(built.head.decoder.weight.data, vectors["Z"])


@pytest.mark.parametrize("num_rows", [1, 255, 256, 257, 1000])
def test_norms_of_any_height_are_exact(num_rows):
    """Squares are added by blocks of rows."""
    weight = torch.randn(num_rows, 5)
    weight[:, 3] = 0
    expected = weight.double() / weight.double().norm(dim=0).masked_fill(weight[0] == 0, 1)
    set_norms_(weight, 2.0, 0)
    torch.testing.assert_close(weight.double(), 2 * expected, rtol=1e-5, atol=1e-7)
    assert torch.equal(weight[:, 3], torch.zeros(num_rows))


def test_what_rows_are_means_nothing_without_rows():
    with pytest.raises(CombinationError, match=r"row = 'unit' defines rows"):
        ColumnNorm(ColumnNormConfig(norm=15, row="unit"))


@pytest.mark.parametrize("blocks", [(), (3, 2)])
def test_recurrent_columns_have_a_norm_only_if_one_is_given(build, blocks):
    values = {"backbone": "elman", "backbone.inputs": "embedding", "backbone.blocks": blocks}
    built = build({**SIZE, **values, "regularizer.column_norm.norm": 15.0}, vocabulary=12).model
    before = [p.detach().clone() for p in built.backbone.parameters()]
    ColumnNorm(ColumnNormConfig(norm=15)).project(built)
    for weight, old in zip(built.backbone.parameters(), before, strict=True):
        assert torch.equal(weight, old)
    regularizer = ColumnNorm(ColumnNormConfig(norm=15, recurrent_norm=2))
    regularizer.check(built)
    regularizer.project(built)
    for weight, old in zip(built.backbone.parameters(), before, strict=True):
        torch.testing.assert_close(weight.data, 2 * old / old.square().sum(0).sqrt())


def test_without_recurrent_matrices_a_norm_for_them_is_refused(build):
    irlm = build({**SIZE, "backbone": "irlm"}, vocabulary=12).model
    with pytest.raises(CombinationError, match=r"recurrent_norm = 2 .* \(Irlm\) has none"):
        ColumnNorm(ColumnNormConfig(norm=15, recurrent_norm=2)).check(irlm)


def test_a_norm_for_the_output_of_a_tied_head_is_refused(build):
    values = {"regularizer.column_norm.norm": 15.0, "regularizer.column_norm.output_norm": 7.5}
    with pytest.raises(CombinationError, match="a tied head has no Z"):
        build({**values, "head.tied": True, "embedding.size": 7})
