"""The gate that reads the hidden state against the golden vectors, and its size by the formula."""

from __future__ import annotations

import torch

from ablate.lm.components.gate.iog import IogConfig
from ablate.lm.components.gate.iog_hidden import IogHidden
from ablate.lm.model.flow import Shapes
from ablate.lm.model.masks import OFF


def test_it_is_the_reference(golden, make_features):
    vectors = golden("iog_reference")
    num_words, units = vectors["E_g"].shape
    hidden_NH = vectors["h"]
    shapes = Shapes(vocabulary=num_words, embedding=1, output=hidden_NH.shape[1])
    gate = IogHidden(IogConfig(units=units), shapes).double()
    gate.embedding.weight.data.copy_(vectors["E_g"])
    gate.output.weight.data.copy_(vectors["W_g_hidden"])
    gate.output.bias.data.copy_(vectors["b_g"])
    features = make_features(len(hidden_NH), 1, 1, (1,))
    read = {"ids_TB": vectors["x"][:, None], "output_TBH": hidden_NH[:, None]}
    signal, _ = gate(features.__class__(**{**features.__dict__, **read}), (), OFF)
    actual = (signal.vectors_NG @ signal.weight_VG.t() + signal.bias_V).sigmoid()
    torch.testing.assert_close(actual, vectors["gate_hidden"], rtol=1e-9, atol=1e-12)
