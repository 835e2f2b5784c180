"""Half precision in training: every technique learns in it, close to what float32 finds."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from ablate.config import registry
from ablate.lm.components.backbone import _layers as layers
from ablate.lm.components.backbone import lstm
from ablate.lm.model.fast import precision
from ablate.lm.model.fast.precision import multiplies_bfloat16, products_in, rounded
from ablate.lm.model.mixture import expert_logits
from ablate.lm.testing import SmallModel

CLOSE = 0.02  # bfloat16 keeps 8 bits
BESIDE = {"guided_pointer": {"head": "pointer_sentinel"}}  # what a technique needs
NETWORK = ("backbone", "bridge", "head", "gate", "loss")
EVERY = [(slot, name) for slot in NETWORK for name in registry.names(slot)]


def loss_and_gradients(built, kind):
    with products_in(kind, "cpu"):
        loss = built.summed_loss()
    loss.backward()
    named = built.model.named_parameters()
    gradients = {name: p.grad for name, p in named if p.grad is not None}
    return loss.detach(), gradients


@pytest.mark.parametrize(("slot", "name"), EVERY)
def test_a_step_in_bfloat16_is_close_to_float32_and_leaves_float32(slot, name):
    chosen = {slot: name, **BESIDE.get(name, {})}
    loss, gradients = loss_and_gradients(SmallModel(chosen, dtype=torch.float32), "float32")
    half_loss, half = loss_and_gradients(SmallModel(chosen, dtype=torch.float32), "bfloat16")
    assert half_loss.dtype == torch.float32
    assert half_loss.item() == pytest.approx(loss.item(), rel=CLOSE)
    assert half.keys() == gradients.keys()
    for actual in half.values():
        assert actual.dtype == torch.float32
        assert torch.isfinite(actual).all()


@pytest.mark.parametrize("head", ["mos", "doc"])
def test_priors_and_logits_are_float32(head):
    """Only the products are rounded: priors of rounded logits still sum to 1."""
    built = SmallModel({"head": head, "gate": "iog"}, dtype=torch.float32)
    with products_in("bfloat16", "cpu"):
        mixture = built.run().mixture
        logits = expert_logits(mixture, slice(None))
    assert mixture.log_prior_NJ.dtype == logits.dtype == torch.float32
    sums = mixture.log_prior_NJ.exp().sum(-1)
    torch.testing.assert_close(sums, torch.ones_like(sums))


PROCESSORS = {
    "vendor_id : GenuineIntel\nflags : fpu avx512_bf16 amx_bf16 amx_tile": True,
    "vendor_id : GenuineIntel\nflags : fpu avx512_bf16": False,
    "vendor_id : AuthenticAMD\nflags : fpu avx512_bf16": True,
    "vendor_id : AuthenticAMD\nflags : fpu avx2": False,
    "Features : fp asimd bf16": True,
}


@pytest.mark.parametrize("cpuinfo", PROCESSORS)
def test_which_processors_multiply_bfloat16_faster_than_float32(cpuinfo):
    assert multiplies_bfloat16(cpuinfo) is PROCESSORS[cpuinfo]


@pytest.mark.parametrize("choices", [{"head": "softmax"}, {"head": "mos"}, {"loss": "augmented"}])
def test_a_processor_without_fast_bfloat16_multiplies_the_same_rounded_numbers(
    choices, monkeypatch
):
    found = {}
    for fast in (True, False):
        monkeypatch.setattr(precision, "has_fast_bfloat16", lambda fast=fast: fast)
        found[fast] = loss_and_gradients(SmallModel(choices, dtype=torch.float32), "bfloat16")
    full, _ = loss_and_gradients(SmallModel(choices, dtype=torch.float32), "float32")
    (low, low_gradients), (high, gradients) = found[True], found[False]
    assert low.item() == pytest.approx(high.item(), rel=2e-3)
    assert len({low.item(), high.item(), full.item()}) == 3
    for name, gradient in gradients.items():
        assert torch.dist(gradient, low_gradients[name]) <= CLOSE * (1e-3 + gradient.norm()), name


def test_without_avx512_an_lstm_trains_in_bfloat16_too(monkeypatch):
    """torch's fused LSTM raises an error there."""
    expected, _ = loss_and_gradients(SmallModel({}, dtype=torch.float32), "float32")
    monkeypatch.setattr(lstm, "onednn_has_bfloat16", lambda: False)
    monkeypatch.setattr(layers, "fused", None)
    loss, _ = loss_and_gradients(SmallModel({}, dtype=torch.float32), "bfloat16")
    assert loss.item() == pytest.approx(expected.item(), rel=CLOSE)


def test_on_a_gpu_fused_layers_are_computed_in_float32(monkeypatch):
    """Autocast there would have cuDNN compute in float16, whatever its dtype is."""
    asked = iter([torch.bfloat16])  # within, autocast is off
    monkeypatch.setattr(layers, "autocast_dtype", lambda device: next(asked, None))
    monkeypatch.setattr(precision, "autocast_dtype", lambda device: torch.bfloat16)
    seen = []

    def kernel(x, states, parameters, *_):
        seen.extend(tensor.dtype for tensor in (x, *states, *parameters))

    with FakeTensorMode():
        x, bias, *matrices = (torch.empty(2, 3, 4, device="cuda") for _ in range(4))
        half = x.bfloat16()
        layers.fused(kernel, half, (half, half), (*matrices, bias, bias))
    assert seen == [torch.float32] * 7


def test_only_bfloat16_on_the_cpu_is_stored_as_float32(monkeypatch):
    monkeypatch.setattr(precision, "has_fast_bfloat16", lambda: False)
    x = torch.tensor([1.0, 1.001])
    assert rounded(x, torch.bfloat16).dtype == torch.float32
    assert rounded(x, torch.bfloat16).tolist() == [1.0, 1.0]
    assert rounded(x, torch.float16).dtype == torch.float16
    monkeypatch.setattr(precision, "has_fast_bfloat16", lambda: True)
    assert rounded(x, torch.bfloat16).dtype == torch.bfloat16


TIED = {"head.tied": True, "head.bias": False}


@pytest.mark.parametrize(
    ("choices", "values"),
    [*(({"head": name}, {}) for name in ("softmax", "mlp", "mos", "doc"))]
    + [({"loss": "augmented"}, values) for values in ({}, TIED)],
)
def test_kernels_and_torch_give_the_same_gradients_in_bfloat16(choices, values, monkeypatch):
    monkeypatch.setattr(precision, "has_fast_bfloat16", lambda: True)
    by_way = []
    for switch in ("on", "off"):
        monkeypatch.setenv("ABLATE_NATIVE", switch)
        built = SmallModel(choices, values, dtype=torch.float32)
        by_way.append(loss_and_gradients(built, "bfloat16"))
    (loss, gradients), (by_torch, wanted) = by_way
    assert loss.item() == pytest.approx(by_torch.item(), rel=1e-3)
    for name, gradient in gradients.items():
        error = (gradient - wanted[name]).norm()
        assert error <= CLOSE * wanted[name].norm() + 1e-6, name
