"""Muon against its update written out in float64, and which parameters are whose."""

from __future__ import annotations

import math

import pytest
import torch

from ablate.errors import CombinationError, ConfigError
from ablate.lm.components.optimizer.muon import Muon, MuonConfig
from ablate.lm.model.growth import hidden_matrices
from ablate.lm.model.optimizer import set_rate
from ablate.lm.testing import SmallModel

A, B, C = 3.4445, -4.7750, 2.0315


def orthogonal(x, steps=5):
    """The iteration, on the smaller side of the matrix."""
    turned = x.shape[0] > x.shape[1]
    x = x.t() if turned else x
    x = x / x.norm()
    for _ in range(steps):
        product = x @ x.t()
        x = A * x + (B * product + C * product @ product) @ x
    return x.t() if turned else x


def scale_of(shape, like_adamw):
    rows, columns = shape
    return 0.2 * max(rows, columns) ** 0.5 if like_adamw else max(1, rows / columns) ** 0.5


def iterates(w, gradients, rates, *, momentum, nesterov, decay, like_adamw):
    m = torch.zeros_like(w)
    for gradient, rate in zip(gradients, rates, strict=True):
        m = momentum * m + (1 - momentum) * gradient
        looked = momentum * m + (1 - momentum) * gradient if nesterov else m
        step = scale_of(w.shape, like_adamw) * orthogonal(looked)
        w = (1 - rate * decay) * w - rate * step
    return w


@pytest.mark.parametrize(("exact", "atol"), [(True, 1e-10), (False, 0.01)])
@pytest.mark.parametrize(
    "settings",
    [
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1, "scale": "original"},
        {"momentum": 0.5, "nesterov": False, "weight_decay": 0.0, "scale": "like_adamw"},
    ],
)
def test_steps_are_the_algorithm(monkeypatch, settings, exact, atol):
    """In float64 to its digits if the iteration is kept from bfloat16, and near it otherwise."""
    if exact:
        monkeypatch.setattr(torch.Tensor, "bfloat16", lambda matrix: matrix.clone())
    drawn, rates = torch.Generator().manual_seed(1), (0.1, 0.05, 0.2)
    for shape in ((7, 4), (3, 6)):
        model = torch.nn.Linear(*shape[::-1], bias=False).double()
        w = model.weight.detach().clone()
        gradients = [torch.randn(shape, generator=drawn, dtype=torch.float64) for _ in rates]
        optimizer = Muon(MuonConfig(learning_rate=0.1, **settings), model)
        for gradient, rate in zip(gradients, rates, strict=True):
            model.weight.grad = gradient.clone()
            optimizer.step(rate=rate)
        options = {k: settings[k] for k in ("momentum", "nesterov")}
        options |= {"decay": settings["weight_decay"]}
        options |= {"like_adamw": settings["scale"] == "like_adamw"}
        expected = iterates(w, gradients, rates, **options)
        torch.testing.assert_close(model.weight.detach(), expected, rtol=0, atol=atol)
        assert (model.weight.detach() - w).norm() > 0.1


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"head": "softmax"}, {"backbone.weight_ih_l0", "backbone.weight_hh_l0"}),
        ({"head": "sum_product"}, {"backbone.weight_ih_l0", "backbone.weight_hh_l0"}),
        ({"backbone": "feed_forward", "words": "characters"}, set()),
    ],
)
def test_words_vectors_and_convolutions_are_the_rest(chosen, expected):
    values = {"backbone.num_layers": 1} if "backbone" not in chosen else {"words.symbols": 19}
    if "words" in chosen:
        values |= {"words.widths": (1, 2), "words.features": (3, 5)}
    model = SmallModel(chosen, values).model
    names = {p: name for name, p in model.named_parameters()}
    assert {names[p] for p in hidden_matrices(model)} == expected
    optimizer = Muon(MuonConfig(), model)
    grouped = [p for group in optimizer.torch.param_groups for p in group["params"]]
    assert sorted(names[p] for p in grouped) == sorted(names.values())
    parts = [type(part).__name__ for part in optimizer.torch.parts]
    assert parts == (["Muon", "AdamW"] if expected else ["AdamW"])


def parts_of(model):
    """The names of what Muon itself trains, and of what AdamW does."""
    names = {p: name for name, p in model.named_parameters()}
    parts = Muon(MuonConfig(), model).torch.parts
    return [{names[p] for group in part.param_groups for p in group["params"]} for part in parts]


@pytest.mark.parametrize(
    ("chosen", "values", "thin"),
    [
        ({"head": "mos"}, {}, {"head.prior.weight"}),
        ({"backbone": "gated_delta"}, {}, {"backbone.layers.0.mixer.rates.weight"}),
        ({"backbone": "xlstm"}, {}, {"backbone.layers.0.gates.weight"}),
        # As many as a layer has units: still not more of them in a wider model.
        ({"backbone": "mogrifier"}, {"backbone.rank": 8, "backbone.rounds": 1},
         {"backbone.mogrifier_left_r1_l0", "backbone.mogrifier_right_r1_l0"}),
    ],
)  # fmt: skip
def test_matrices_with_a_fixed_number_of_rows_or_columns_are_the_rest(chosen, values, thin):
    model = SmallModel(chosen, {"backbone.num_layers": 1, **values}).model
    own, rest = parts_of(model)
    assert thin <= rest and len(own) >= 2
    between = {name for name, p in model.backbone.named_parameters("backbone") if p.dim() == 2}
    assert own - {"head.latent_0.weight"} == between - thin


def test_each_part_has_its_own_share_of_a_scheduled_rate():
    model = SmallModel({}).model
    optimizer = Muon(MuonConfig(learning_rate=0.02, rest_learning_rate=0.001), model)
    set_rate(optimizer.torch, 0.01)
    rates = [group["lr"] for group in optimizer.torch.param_groups]
    assert rates == pytest.approx([0.01, 0.0005, 0.0005])
    assert math.isclose(optimizer.rate, 0.02)


def test_an_output_matrix_may_have_a_rate_of_its_own():
    config = MuonConfig(rest_learning_rate=0.05, output_learning_rate=0.001)
    model = SmallModel({"head": "softmax"}, {"head.tied": False}).model
    names = {p: name for name, p in model.named_parameters()}
    groups = Muon(config, model).torch.param_groups
    rates = {names[p]: g["rate_scale"] * 0.02 for g in groups for p in g["params"]}
    assert sorted(rates) == sorted(names.values())
    assert rates.pop("head.decoder.weight") == pytest.approx(0.001)
    assert rates["head.decoder.bias"] == rates["embedding.weight"] == pytest.approx(0.05)
    tied = {"optimizer": "muon", "optimizer.output_learning_rate": 0.001, "head.tied": True}
    with pytest.raises(CombinationError, match=r"output_learning_rate = 0\.001.*none of its own"):
        SmallModel({"head": "softmax"}, tied)


def test_a_torch_without_it_is_refused(monkeypatch):
    monkeypatch.delattr(torch.optim, "Muon")
    with pytest.raises(ConfigError, match=r"needs torch 2\.9 or newer"):
        Muon(MuonConfig(), SmallModel({}).model)
