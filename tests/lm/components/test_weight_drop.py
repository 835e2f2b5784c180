"""DropConnect on the recurrent matrix against the public code's numbers."""

from __future__ import annotations

import torch

from ablate.lm.components.regularizer.weight_drop import WeightDrop, WeightDropConfig
from ablate.lm.model.masks import OFF, Masks


def test_it_is_the_public_code(build, golden, fixed_chance):
    vectors = golden("weight_drop")
    values = {"backbone.num_layers": 1, "backbone.units": 5, "embedding.size": 4}
    backbone = build(values, dtype=torch.float32).model.backbone
    with torch.no_grad():
        for kind in ("weight_ih", "bias_ih", "bias_hh"):
            backbone.get_parameter(f"{kind}_l0").copy_(vectors[kind])
        backbone.get_parameter("weight_hh_l0").copy_(vectors["weight_hh_raw"])
    chance = fixed_chance({"weight_drop/weight_hh_l0": vectors["mask"]})
    masks = Masks((WeightDrop(WeightDropConfig(rate=0.5)),), chance)
    state = (vectors["h0"], vectors["c0"])
    for chosen, expected in ((masks, "out_train"), (OFF, "out_eval"), (masks, "out_train")):
        (output,), _, _ = backbone(vectors["x"], torch.zeros(6, 3), state, chosen)
        torch.testing.assert_close(output, vectors[expected], rtol=1e-5, atol=1e-6)
    assert chance.requested == {"weight_drop/weight_hh_l0": ((20, 5), 0.5)}
