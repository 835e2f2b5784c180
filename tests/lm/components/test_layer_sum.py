"""The sum of the layers' outputs against a loop over them, its masks, and the published sizes."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from ablate.config.streams import Streams
from ablate.errors import CombinationError
from ablate.lm.model.masks import OFF, Chance, Masks

SUM = {"bridge": "layer_sum", "backbone.num_layers": 3, "backbone.units": 5}
IDS = torch.arange(8).view(4, 2)


def test_the_head_reads_the_sum_of_every_layer(build):
    model = build(SUM).model
    features, _ = model.features(IDS, model.initial_state(2), OFF)
    expected = torch.zeros(4, 2, 5, dtype=torch.float64)
    for layer in features.raw:
        expected += layer
    torch.testing.assert_close(features.output_TBH, expected, rtol=0, atol=1e-15)
    assert not torch.equal(features.raw[0], features.raw[1])


def test_a_projection_reads_the_masked_sum_and_is_masked_again(build):
    values = {"bridge.units": 6, "head.tied": True, "regularizer.dropout.output": 0.5}
    assembly = build({**SUM, **values})
    model, chance = assembly.model, Chance(Streams(1), 0)
    features, _ = model.features(IDS, model.initial_state(2), Masks(assembly.regularizers, chance))
    summed = torch.stack(features.raw).sum(0)
    masks = [
        chance.keep(f"dropout/output{site}", (4, 2, width), 0.5, summed)
        for site, width in (("", 5), ("/projected", 6))
    ]
    expected = masks[1] * F.linear(masks[0] * summed, model.bridge.weight)
    torch.testing.assert_close(features.output_TBH, expected)


def test_the_projection_starts_orthonormal(build):
    for units in (3, 6):
        weight = build({**SUM, "bridge.units": units}, dtype=torch.float32).model.bridge.weight
        few = min(weight.shape)
        gram = weight @ weight.t() if units == few else weight.t() @ weight
        torch.testing.assert_close(gram, torch.eye(few), rtol=0, atol=1e-5)


def test_layers_of_different_units_are_refused(build):
    with pytest.raises(CombinationError, match="different units: 5, 7"):
        build({**SUM, "backbone.num_layers": 2, "backbone.units": [5, 7]})
