"""The softmax head: tied, untied, and refused."""

from __future__ import annotations

import pytest
import torch

from ablate.lm.model.mixture import log_probs


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_it_is_a_softmax_of_the_output(build, make_features, tied, bias):
    model = build({"head.tied": tied, "head.bias": bias, "backbone.units": 6}).model
    if bias:
        model.head.decoder.bias.data.normal_()
    features = make_features(4, 3, 6, (6,))
    embedding_VE = model.embedding.weight
    actual = log_probs(model.head(features, embedding_VE, None))
    weight = embedding_VE if tied else model.head.decoder.weight
    logits = features.output_TBH.reshape(12, 6) @ weight.t()
    expected = (logits + model.head.decoder.bias if bias else logits).log_softmax(-1)
    torch.testing.assert_close(actual, expected)
    names = {name for name, _ in model.head.named_parameters()}
    assert names == {"decoder.weight"} - ({"decoder.weight"} if tied else set()) | (
        {"decoder.bias"} if bias else set()
    )


@pytest.mark.parametrize("tied", [True, False])
def test_the_bias_starts_in_its_range_and_moves_no_other_draw(build, tied):
    values = {"head.tied": tied, "backbone.units": 6}
    plain = dict(build(values, vocabulary=500).model.named_parameters())
    result = dict(
        build({**values, "head.bias_range": 0.03}, vocabulary=500).model.named_parameters()
    )
    bias = result.pop("head.decoder.bias")
    assert 0.029 < bias.max() <= 0.03
    assert -0.03 <= bias.min() < -0.029
    assert not plain.pop("head.decoder.bias").any()
    assert result.keys() == plain.keys()
    assert all(torch.equal(parameter, plain[name]) for name, parameter in result.items())
