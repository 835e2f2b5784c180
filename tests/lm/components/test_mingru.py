"""The minGRU against a loop in numpy, its gates at their ends, and what can be off."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.lm.model.masks import OFF
from tests.support.by_hand import gelu, numbers, rms_norm, sigmoid

MINGRU = {"backbone": "mingru", "backbone.units": 5}
OFFS = {"backbone.candidate": "linear", "backbone.convolution": 1, "backbone.mlp": 0}
CLOSE = {torch.float64: 1e-9, torch.float32: 1e-4}


def block_by_hand(x_TBH, read, h, w, linear):
    """One block word by word; `read` are the convolution's inputs so far, the newest last."""
    outputs = []
    for x in x_TBH:
        u = rms_norm(x, w["norm.scale"])
        if "convolution.weight" in w:
            read = [*read, u]
            kernel = w["convolution.weight"]
            u = w["convolution.bias"] + sum(
                kernel[:, 0, back] * read[-1 - back] for back in range(kernel.shape[2])
            )
        z, c = sigmoid(u @ w["weight_z"].T + w["bias_z"]), u @ w["weight_h"].T + w["bias_h"]
        if not linear:
            c = np.where(c >= 0, c + 0.5, sigmoid(c))
        h = (1 - z) * h + z * c
        x = x + (h @ w["weight_down"].T if "weight_down" in w else h)
        if "mlp.weight_up" in w:
            hidden = gelu(
                rms_norm(x, w["mlp.norm.scale"]) @ w["mlp.weight_up"].T + w["mlp.bias_up"]
            )
            x = x + hidden @ w["mlp.weight_out"].T + w["mlp.bias_out"]
        outputs.append(x)
    return np.stack(outputs), read, h


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("values", [{}, {"backbone.expansion": 2}, OFFS])
def test_layers_are_a_loop(build, dtype, values):
    backbone = build({**MINGRU, **values}, dtype=dtype).model.backbone
    with torch.no_grad():
        for parameter in backbone.parameters():
            parameter.add_(torch.randn_like(parameter) / 10)  # gains that are not 1, biases not 0
    inputs = torch.randn(7, 2, 6, dtype=dtype)
    before = tuple(torch.randn_like(s) for s in backbone.initial_state(2))
    raw, _, after = backbone(inputs, torch.zeros(7, 2), before, OFF)
    x = inputs.double().numpy() @ backbone.stack.weight_ih.detach().double().numpy().T
    near = {"rtol": 0, "atol": CLOSE[dtype]}
    for layer, block in enumerate(backbone.stack.blocks):
        read, h = (s.double().numpy() for s in before[2 * layer : 2 * layer + 2])
        x, read, h = block_by_hand(x, list(read), h[0], numbers(block), values is OFFS)
        gain = numbers(backbone.stack)["last_norm.scale"]
        wanted = rms_norm(x, gain) if layer == 1 else x
        torch.testing.assert_close(raw[layer].double(), torch.from_numpy(wanted), **near)
        torch.testing.assert_close(after[2 * layer + 1][0].double(), torch.from_numpy(h), **near)
        kept = after[2 * layer].detach().double().numpy()
        assert len(kept) == (0 if values is OFFS else 3)
        for one, other in zip(kept, read[-3:], strict=bool(len(kept))):
            np.testing.assert_allclose(one, other, **near)
