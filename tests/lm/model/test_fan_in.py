"""Initial values of about 1/inputs as variance, cut off at two standard deviations."""

from __future__ import annotations

import math

import pytest

from ablate.lm.model.fan_in import CORRECTION

UNITS, EMBEDDING = 50, 30


@pytest.fixture
def start(build):
    """The backbone's parameters as they start, by name."""

    def made(values):
        fixed = {"backbone.units": UNITS, "embedding.size": EMBEDDING, "backbone.num_layers": 1}
        values = {**fixed, "backbone.initialization": "fan_in", **values}
        return {n: p.detach() for n, p in build(values).model.backbone.named_parameters()}

    return made


@pytest.mark.parametrize("backbone", ["lstm", "mogrifier"])
def test_matrices_have_a_variance_of_one_by_their_inputs(start, backbone):
    weights = start({"backbone": backbone, "backbone.biases": 1})
    for name, inputs in (("weight_ih_l0", EMBEDDING), ("weight_hh_l0", UNITS)):
        assert weights[name].var().item() * inputs == pytest.approx(1, rel=0.08)
        assert weights[name].abs().max() <= 2 * math.sqrt(CORRECTION / inputs)


def test_the_forget_gate_starts_around_one_and_the_others_around_zero(start):
    weights = start({"backbone.biases": 2})
    means = weights["bias_ih_l0"].view(4, UNITS).mean(1)
    assert means.tolist() == pytest.approx([0, 1, 0, 0], abs=0.1)
    assert weights["bias_hh_l0"].view(4, UNITS).mean(1).abs().max() < 0.1
    assert weights["bias_ih_l0"].view(4, UNITS)[0].var() * UNITS == pytest.approx(1, rel=0.4)


def test_the_product_of_a_rounds_factors_has_that_variance_too(start):
    weights = start({"backbone": "mogrifier", "backbone.rounds": 2, "backbone.rank": 40})
    for suffix, inputs in (("r1_l0", UNITS), ("r2_l0", EMBEDDING)):
        product = weights[f"mogrifier_left_{suffix}"] @ weights[f"mogrifier_right_{suffix}"]
        cut = (1 / CORRECTION) ** 2  # these factors are not corrected for the cut
        assert product.var().item() * inputs == pytest.approx(cut, rel=0.15)
        assert not weights[f"mogrifier_bias_{suffix}"].any()
