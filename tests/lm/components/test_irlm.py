"""The IRLM against the float64 reference, its limits, and the published sizes."""

from __future__ import annotations

import pytest
import torch

from ablate.errors import CombinationError
from ablate.lm.components.backbone.irlm import (
    timescales,
)
from ablate.lm.model.fast.scan import scan_plain
from ablate.lm.model.masks import OFF, Masks
from ablate.lm.model.mixture import log_probs, summed_nll
from ablate.lm.model.optimizer import parameter_groups

IRLM = {"backbone": "irlm", "head.bias": False}
LONG_UNITS = {
    "backbone.units": 6,
    "backbone.groups": [4, 2],
    "backbone.lowest": [0.7, -1.0],
    "backbone.highest": 1.0,
    "backbone.initial": [0.9, 0.0],
}


@pytest.fixture
def reference(build, golden):
    """The golden vectors and a model with their weights."""
    vectors = golden("irlm_reference")
    values = {**IRLM, "backbone.units": 5, "embedding.size": 5}
    model = build(values, vocabulary=12).model
    with torch.no_grad():
        model.embedding.weight.copy_(vectors["W"])
        model.head.decoder.weight.copy_(vectors["Z"])
        model.backbone.r.copy_(vectors["r"])
    return vectors, model


def test_it_is_the_reference(reference):
    vectors, model = reference
    passed = model(vectors["ids"], (vectors["x0"][None],))
    torch.testing.assert_close(passed.features.raw[0], vectors["x"])
    torch.testing.assert_close(passed.state[0][0], vectors["x"][-1])
    logits = vectors["logits"].flatten(0, 1)
    torch.testing.assert_close(log_probs(passed.mixture), logits.log_softmax(-1))
    loss = summed_nll(passed.mixture, vectors["targets"].flatten()) / 14
    torch.testing.assert_close(loss, vectors["loss"])
    loss.backward()
    torch.testing.assert_close(model.embedding.weight.grad, vectors["grad_W"])
    torch.testing.assert_close(model.head.decoder.weight.grad, vectors["grad_Z"])
    torch.testing.assert_close(model.backbone.r.grad, vectors["grad_r"])


def test_the_decoder_may_read_it_through_a_mask(reference):
    """The recurrence itself is not masked."""
    vectors, model = reference

    class Decoder(Masks):
        def __call__(self, site, x_TBH):
            return x_TBH * 2 * vectors["mask"] if site == "output" else x_TBH

    passed = model(vectors["ids"], (vectors["x0"][None],), Decoder())
    torch.testing.assert_close(passed.features.raw[0], vectors["x"])
    logits = vectors["logits_dropped_inverted"].flatten(0, 1)
    torch.testing.assert_close(log_probs(passed.mixture), logits.log_softmax(-1))


def test_timescales_are_those_of_the_reference(golden):
    vectors = golden("irlm_reference")
    actual = timescales(vectors["r"])
    torch.testing.assert_close(actual, vectors["timescale"], equal_nan=True)
    assert timescales(torch.tensor(1.0)) == torch.inf


def test_a_mask_may_be_on_the_state_it_reads(build):
    backbone = build({**IRLM, "backbone.units": 6}).model.backbone
    x, before, mask = torch.randn(5, 2, 6).double(), torch.randn(1, 2, 6).double(), 2.0

    class Held(Masks):
        def locked(self, site, shape, like):
            assert (site, shape) == ("recurrent/1", (1, 2, 6))
            return torch.full(shape, mask, dtype=like.dtype)

    raw, _, _ = backbone(x, torch.zeros(5, 2), (before,), Held())
    doubled = scan_plain(mask * backbone.r[None, None], x, before[0])
    torch.testing.assert_close(raw[0], doubled)
    assert not torch.allclose(raw[0], backbone(x, torch.zeros(5, 2), (before,), OFF)[0][0])


def test_groups_start_in_their_own_way_and_are_clipped_to_their_own_range(build):
    backbone = build({**IRLM, **LONG_UNITS}).model.backbone
    torch.testing.assert_close(backbone.r.data.float(), torch.tensor([0.9] * 4 + [0.0] * 2))
    backbone.r.data.copy_(torch.tensor([0.5, 0.8, 1.5, -3.0, -3.0, 0.4]))
    backbone.project()
    expected = torch.tensor([0.7, 0.8, 1.0, 0.7, -1.0, 0.4], dtype=torch.float64)
    torch.testing.assert_close(backbone.r.data, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize(("values", "share"), [({}, 0.001), ({"recurrent_rate": 0.25}, 0.25)])
def test_r_learns_at_a_share_of_the_rate(build, values, share):
    named = {f"backbone.{name}": value for name, value in values.items()}
    model = build({**IRLM, "backbone.units": 6, **named}).model
    shares = {group["rate_scale"]: group["params"] for group in parameter_groups(model)}
    assert shares[share] == [model.backbone.r]
    assert model.backbone.r not in set(shares[1.0])


def test_an_r_without_a_rate_is_fixed(build):
    model = build({**IRLM, "backbone.units": 6, "backbone.recurrent_rate": 0}).model
    passed = model(torch.zeros(3, 2, dtype=torch.long), model.initial_state(2))
    summed_nll(passed.mixture, torch.zeros(6, dtype=torch.long)).backward()
    assert model.backbone.r.grad is None
    assert model.embedding.weight.grad is not None


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ({"units": 7}, ("embedding.size = 6", "backbone.units = 7", "backbone.units = 6")),
        ({"groups": [4, 1]}, ("[4, 1] have 5 units", "backbone.units = 6")),
        ({"groups": [4, 2], "lowest": [0.7]}, ("backbone.lowest = [0.7]", "1 values for 2")),
        ({"lowest": 0.7}, ("backbone.initial = 0.5 of group 1", "0.7", "highest = 1")),
    ],
)
def test_what_does_not_fit_is_refused_with_the_ways_out(build, values, parts):
    named = {f"backbone.{name}": value for name, value in values.items()}
    with pytest.raises(CombinationError) as refusal:
        build({**IRLM, "backbone.units": 6, **named})
    for part in parts:
        assert part in str(refusal.value)
