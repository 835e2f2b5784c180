"""Windows of words against an explicit loop over positions; the log-bilinear model; sizes."""

from __future__ import annotations

import pytest
import torch

from ablate.errors import CombinationError
from ablate.lm.model.masks import OFF

ORDER, E, H = 4, 6, 5


def backbone_of(build, **settings):
    values = {"backbone": "feed_forward", "backbone.order": ORDER, "backbone.units": H, **settings}
    return build(values).model.backbone


def run(backbone, x_TBE):
    raw, _, state = backbone(x_TBE, None, backbone.initial_state(x_TBE.shape[1]), OFF)
    return raw[0], state


def vectors(steps=9, rows=2):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(steps, rows, E, generator=generator)


def test_it_is_a_layer_over_the_last_words(build):
    backbone = backbone_of(build)
    x = vectors().to(backbone.weight.dtype)
    output, _ = run(backbone, x)
    padded = torch.cat((x.new_zeros(ORDER - 2, 2, E), x))
    for t in range(len(x)):
        expected = backbone.bias.clone().expand(2, H)
        for i in range(ORDER - 1):
            expected = expected + padded[t + ORDER - 2 - i] @ backbone.weight[:, i].t()
        torch.testing.assert_close(output[t], expected.tanh())


def test_the_log_bilinear_model_is_a_sum_of_products(build):
    settings = {"activation": "identity", "bias": False, "diagonal": True, "units": E}
    backbone = backbone_of(build, **{f"backbone.{name}": v for name, v in settings.items()})
    x = vectors().to(backbone.weight.dtype)
    output, _ = run(backbone, x)
    c = backbone.weight.squeeze(2)
    expected = sum(c[:, i] * x[5 - i] for i in range(ORDER - 1))
    torch.testing.assert_close(output[5], expected)


def test_a_window_can_be_its_own_output(build):
    settings = {"activation": "identity", "bias": False, "concatenated": True, "units": 3 * E}
    backbone = backbone_of(build, **{f"backbone.{name}": v for name, v in settings.items()})
    assert list(backbone.parameters()) == []
    x = vectors().double()
    output, (state,) = run(backbone, x)
    torch.testing.assert_close(output[5], torch.cat((x[5], x[4], x[3]), 1))
    assert torch.equal(state, x[-2:]) and not output[0, :, E:].any()


def test_a_diagonal_needs_as_many_units(build):
    with pytest.raises(CombinationError, match=r"embedding\.size"):
        backbone_of(build, **{"backbone.diagonal": True})
    with pytest.raises(CombinationError, match=r"backbone\.units = 18\."):
        backbone_of(build, **{"backbone.concatenated": True})
    with pytest.raises(CombinationError, match="only one of the two"):
        backbone_of(
            build, **{"backbone.concatenated": True, "backbone.diagonal": True, "backbone.units": E}
        )
