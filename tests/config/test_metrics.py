"""A metric's scale, direction and shown value, held to their definitions."""

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablate.config import metrics
from ablate.config.metrics import ACCURACY, BITS, BLEU, PERPLEXITY, Metric
from ablate.errors import ConfigError, TrialError

SHARES = st.floats(min_value=0.001, max_value=0.999)
METRICS = [
    Metric(f"{scale}_{better}", scale=scale, better=better, factor=factor)
    for scale in ("linear", "log", "logit")
    for better in ("lower", "higher")
    for factor in (1.0, 100.0)
]
BY_NAME = pytest.mark.parametrize("metric", METRICS, ids=lambda m: f"{m.name}-{m.factor:g}")


@BY_NAME
@given(value=SHARES)
def test_what_is_shown_is_what_was_reported(metric, value):
    shown = metric.show(metric.loss(value))
    assert shown == pytest.approx(metric.factor * value, rel=1e-9)
    assert metric.loss_of_shown(shown) == pytest.approx(metric.loss(value), abs=1e-6)


@BY_NAME
@given(one=SHARES, other=SHARES)
def test_a_lower_loss_is_better(metric, one, other):
    if abs(one - other) > 1e-9:
        higher_is_better = metric.better == "higher"
        assert (metric.loss(one) < metric.loss(other)) == ((one > other) == higher_is_better)


@BY_NAME
@given(one=SHARES, other=SHARES)
def test_a_difference_of_losses_is_shown_as_the_difference_of_what_is_shown(metric, one, other):
    start, end = metric.loss(one), metric.loss(other)
    expected = metric.factor * (other - one)
    assert metric.shift(end - start, metric.show(start)) == pytest.approx(expected, abs=1e-6)


def test_the_scales_are_their_definitions():
    assert Metric("x").loss(0.3) == 0.3
    assert Metric("x", better="higher").loss(0.3) == -0.3
    assert Metric("x", scale="log").loss(7.5) == pytest.approx(math.log(7.5))
    assert Metric("x", scale="logit").loss(0.8) == pytest.approx(math.log(4))
    assert Metric("x", scale="logit", better="higher").loss(0.8) == pytest.approx(-math.log(4))


def test_a_language_models_nats_are_perplexity_and_bits():
    assert PERPLEXITY.loss(4.0) == BITS.loss(4.0) == 4.0
    assert PERPLEXITY.show(4.0) == pytest.approx(math.exp(4))
    assert BITS.show(4.0) == pytest.approx(4 / math.log(2))
    assert PERPLEXITY.loss_of_shown(54.5) == pytest.approx(math.log(54.5))
    assert PERPLEXITY.show(1e6) == pytest.approx(math.exp(300))


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_perfect_share_has_finite_odds(share):
    assert math.isfinite(Metric("x", scale="logit").loss(share))


@pytest.mark.parametrize("scale, value", [("log", -1.0), ("logit", 1.2)])
def test_a_value_outside_its_scale_is_refused(scale, value):
    with pytest.raises(TrialError, match=f"x = {value:g} "):
        Metric("x", scale=scale).loss(value)


def test_0_is_below_every_value_on_a_scale_of_logarithms_and_in_no_mean():
    metric = Metric("x", scale="log")
    assert metric.loss(0.0) < metric.loss(1e-300)
    assert metric.loss_of({"valid_x": 0.0}, "valid") is None
    assert metric.is_at_floor(0.0) and not metric.is_at_floor(1e-300)
    assert not Metric("x").is_at_floor(0.0) and not PERPLEXITY.is_at_floor(0.0)
    assert PERPLEXITY.loss_of({"valid_nll": 0.0}, "valid") == 0.0


def test_missing_and_unfinished_values_have_no_loss():
    metric = Metric("accuracy", better="higher")
    assert metric.loss_of({"valid_accuracy": 0.5}, "valid") == -0.5
    assert metric.loss_of({"valid_accuracy": 0.5}, "test") is None
    assert metric.loss_of({"valid_accuracy": math.nan}, "valid") is None
    assert metric.loss_of({"valid_accuracy": "high"}, "valid") is None


@pytest.mark.parametrize(
    "wrong", [{"better": "up"}, {"scale": "cubic"}, {"digits": -1}, {"factor": 0.0}]
)
def test_a_wrong_metric_is_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Metric("accuracy", **wrong)


@pytest.mark.parametrize("name", ["", " "])
def test_a_metric_has_a_name(name):
    with pytest.raises(ConfigError, match=r"Metric: name = .* is not allowed"):
        Metric(name)


def test_a_range_has_an_end_where_the_metric_has():
    assert BLEU.range == (0, 100) and ACCURACY.range == (0, 100)
    assert BITS.range == (0, math.inf) and PERPLEXITY.range == (-math.inf, math.inf)
    with pytest.raises(ConfigError, match="more than lowest, which is 1"):
        Metric("x", lowest=1.0, highest=1.0)


def test_a_metric_that_was_recorded_without_limits_has_those_of_today():
    of_before = {
        k: v for k, v in dataclasses.asdict(BLEU).items() if k not in ("lowest", "highest")
    }
    assert metrics.from_plain(of_before) == BLEU
    by_generate = metrics.from_plain({**of_before, "name": "generate.bleu"})
    assert by_generate == BLEU.by("generate")
    assert metrics.from_plain({"name": "bleu"}) == Metric("bleu"), "somebody's own"
    assert metrics.from_plain(dataclasses.asdict(Metric("x", lowest=1.0))).range[0] == 1.0
