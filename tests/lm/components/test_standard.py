"""The plain evaluation covers every token once, whatever the window."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from ablate.lm.components.evaluator.standard import Standard, StandardConfig
from ablate.lm.model.evaluator import Reading, log_mean_exp
from ablate.lm.model.mixture import log_probs

STREAM = torch.randint(0, 23, (50,), generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("window", [1, 7, 49, 200])
def test_every_token_after_the_first_given_all_before(build, judged, window):
    model = build({}).model
    actual = judged(Standard(StandardConfig(window=window)), [model], STREAM)
    with torch.no_grad():
        whole = log_probs(model(STREAM[:-1, None], model.initial_state(1)).mixture)
    expected = whole[range(49), STREAM[1:]].numpy()
    assert actual.dtype == np.float64
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_rows_start_afresh_and_the_rest_is_trimmed(build, judged):
    model = build({}).model
    actual = judged(Standard(StandardConfig(batch_size=4, window=5)), [model], STREAM)
    single = Standard(StandardConfig())
    rows = [judged(single, [model], STREAM[at : at + 12]) for at in range(0, 48, 12)]
    np.testing.assert_allclose(actual, np.concatenate(rows), rtol=1e-12)


def test_the_mean_does_not_underflow():
    np.testing.assert_allclose(log_mean_exp(np.array([[-2000.0], [-2000.0]])), [-2000.0])


def test_a_temperature_flattens_every_distribution(build, judged):
    model = build({"head": "mos", "head.experts": 2}).model
    actual = judged(Standard(StandardConfig(temperature=1.4)), [model], STREAM)
    with torch.no_grad():
        mixture = model(STREAM[:-1, None], model.initial_state(1)).mixture
    logits = mixture.vectors_NJE @ mixture.weight_VE.t() + mixture.bias_V
    parts = (logits / 1.4).softmax(-1)
    p = (mixture.log_prior_NJ.exp()[..., None] * parts).sum(1)[range(49), STREAM[1:]]
    np.testing.assert_allclose(np.exp(actual), p.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize(("rows", "length"), [(1, 50), (4, 12)])
def test_awds_convention_divides_the_sum_by_every_token_of_the_rows(build, text, rows, length):
    model = build({}).model

    def metrics(convention):
        config = StandardConfig(batch_size=rows, ppl_convention=convention)
        evaluators = {"standard": Standard(config)}
        reading = Reading([model], text(STREAM), evaluators)
        return evaluators["standard"].metrics(reading, "standard", "test"), reading

    exact, reading = metrics("exact")
    total = -reading.log_probs("standard", "test").sum()
    assert exact["nll"] == pytest.approx(total / (rows * (length - 1)))
    awd, _ = metrics("awd_rows")
    assert awd["nll"] == pytest.approx(total / (rows * length))
    assert awd["ppl"] == pytest.approx(math.exp(total / (rows * length)))
    assert awd["exact_nll"] == exact["nll"]
