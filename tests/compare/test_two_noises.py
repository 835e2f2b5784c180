"""Intervals and p-values that hold for new seeds and new blocks, beside numpy's and scipy's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

from ablate.compare.judged import Judged
from ablate.compare.statistics import anytime, two_noises
from ablate.compare.statistics.anytime import AT_ANY_TIME
from ablate.compare.table.answer import what_next
from ablate.compare.table.full_table import full_table
from ablate.compare.table.study_table import study_table
from ablate.config.metrics import BITS_PER_BYTE, Metric
from ablate.store.outcome import TEXT
from ablate.store.study_record import SearchRecord
from tests.support.studies_by_hand import ByHand


def drawn(seeds: int, blocks: int, shift: float = 0.5) -> np.ndarray:
    """Differences [seed, block] with noise of seeds, of blocks, and of each seed on each block."""
    draws = np.random.default_rng(seeds * blocks)
    own = draws.normal(shift, 0.3, (seeds, 1)) + draws.normal(0, 2.0, (1, blocks))
    return own + draws.normal(0, 1.0, (seeds, blocks))


def noises(d: np.ndarray) -> tuple[list[float], list[float]]:
    return d.mean(1).tolist(), d.mean(0).tolist()


def h_by_mean_squares(d: np.ndarray, level: float) -> float:
    """h as an analysis of variance has it, by its mean squares."""
    (num, blocks), m = d.shape, d.mean()
    ms_seeds = blocks * ((d.mean(1) - m) ** 2).sum() / (num - 1)
    ms_blocks = num * ((d.mean(0) - m) ** 2).sum() / (blocks - 1)
    t_seeds, t_blocks = (stats.t.isf(level / 2, of - 1) for of in d.shape)
    return np.sqrt((t_seeds**2 * ms_seeds + t_blocks**2 * ms_blocks) / (num * blocks))


@pytest.mark.parametrize("shape", [(3, 28), (5, 90), (12, 8)])
@pytest.mark.parametrize("level", [0.05, 0.05 / 7])
def test_the_interval_is_that_of_mean_squares(shape: tuple[int, int], level: float):
    d = drawn(*shape)
    h = h_by_mean_squares(d, level)
    expected = (d.mean() - h, d.mean() + h)
    assert two_noises.interval(noises(d), level) == pytest.approx(expected)


@pytest.mark.parametrize("shape", [(3, 28), (5, 90), (12, 8)])
@pytest.mark.parametrize("shift", [0.01, 0.5, 5.0])
def test_p_is_the_level_at_which_the_interval_ends_at_0(shape: tuple[int, int], shift: float):
    d = drawn(*shape, shift)
    root = optimize.brentq(lambda x: h_by_mean_squares(d, np.exp(x)) - abs(d.mean()), -50, 0)
    assert two_noises.p_value(noises(d)) == pytest.approx(np.exp(root), rel=1e-6)


def test_at_any_time_too_the_interval_ends_at_0_at_the_level_p():
    seeds, blocks = noises(drawn(8, 30))
    p = two_noises.p_value((seeds, blocks), AT_ANY_TIME)
    low, high = two_noises.interval((seeds, blocks), p, AT_ANY_TIME)
    assert min(abs(low), abs(high)) == pytest.approx(0, abs=1e-9)
    half = stats.t.ppf(1 - p / 4, 29) * stats.sem(blocks)  # blocks: at half the level
    assert half**2 == pytest.approx(np.mean(seeds) ** 2 - of_seeds(seeds, p) ** 2)


def of_seeds(seeds, level: float) -> float:
    """Half of the interval at any time over seeds alone."""
    return float(anytime.t_at(1 / level, np.array([len(seeds)]))[0] * stats.sem(seeds))


def test_where_one_noise_is_quiet_the_other_decides():
    d = drawn(5, 90)
    seeds, blocks = noises(d)
    of_seeds = stats.ttest_1samp(seeds, 0)
    assert two_noises.p_value((seeds, [d.mean()] * 90)) == pytest.approx(of_seeds.pvalue)
    assert two_noises.interval((seeds, []), 0.05) == pytest.approx(of_seeds.confidence_interval())
    of_blocks = stats.ttest_1samp(blocks, 0)
    assert two_noises.p_value(([d.mean()], blocks)) == pytest.approx(of_blocks.pvalue)
    assert two_noises.interval(([d.mean()], blocks), 0.05) == pytest.approx(
        of_blocks.confidence_interval()
    )


def test_without_noise_there_is_no_interval_and_p_is_of_the_mean():
    assert two_noises.interval(([0.5], []), 0.05) is None
    assert two_noises.p_value(([0.5, 0.5], [0.5, 0.5])) is None
    assert two_noises.p_value(([0.0, 0.0], [0.0, 0.0])) == 1
    assert two_noises.p_value(([0.1, -0.1], [0.2, -0.2])) == 1


LOSSES = {"base": [4.10, 4.12, 4.09, 4.11], "arm": [4.08, 4.095, 4.075, 4.085]}
NOISY = np.random.default_rng(5).normal(0, 0.1, 30)
OF_TEXT = {
    "base": [[0.0] * 30] * 4,
    "arm": [(NOISY - NOISY.mean() + seed / 1000).tolist() for seed in (1, -1, 2, -2)],
}


def judged(deviations: Mapping[str, Any], losses: Mapping[str, Any] = LOSSES, **record: Any):
    study = ByHand(losses, deviations=deviations, record_fields=record)
    return Judged(study.record, study.journals)


def test_a_table_holds_for_new_seeds_and_new_text():
    with_text, without = judged(OF_TEXT), judged({})
    own, other = (one.arm("arm").comparison for one in (with_text, without))
    assert own is not None and other is not None
    blocks = (np.mean(OF_TEXT["arm"], 0) + other.difference.mean).tolist()
    expected = two_noises.interval((other.difference.deltas, blocks), 0.05)
    assert own.bounds == pytest.approx(expected)
    assert (own.verdict, other.verdict) == ("undecided", "better")
    assert own.difference.p == pytest.approx(two_noises.p_value((other.difference.deltas, blocks)))
    shown, plain = (" ".join(str(study_table(one)).split()) for one in (with_text, without))
    assert "4 paired seeds (over seeds and text)" in shown
    assert "4 paired seeds (over seeds, for this test text)" in plain
    assert "t-test over seeds and text on" in " ".join(str(full_table(with_text)).split())
    hopeless = "Even 100 seeds would probably not decide it"
    assert [*what_next(with_text)] == [f"{hopeless} on this text."]
    alike = {"base": [4.0, 4.0001, 3.9998, 4.0003], "arm": [4.0, 3.9999, 4.0002, 3.9997]}
    assert [*what_next(judged({}, alike))] == [f"{hopeless}."]


def test_a_text_that_one_result_lacks_is_in_no_interval():
    some = judged({"base": OF_TEXT["base"]})
    assert some.blocks is None
    assert some.arm("arm").comparison == judged({}).arm("arm").comparison


def in_another_metric(metric: Metric) -> Judged:
    """The same losses, reported as half of what they are in nats."""
    study = ByHand(LOSSES, record_fields={"judged_by": metric})
    for trial in study.trials:
        nats = 2 * LOSSES[trial.arm][trial.seed_index]
        own = {"deviations": tuple(OF_TEXT[trial.arm][trial.seed_index]), "deviations_of": TEXT}
        metrics = {"test_nll": nats, metric.key("test"): nats / 2}
        study.end(trial.id, "completed", metrics=metrics, **own)
    return Judged(study.record, study.journals)


def test_bits_per_byte_vary_with_the_tokens_of_a_text():
    comparison = in_another_metric(BITS_PER_BYTE).arm("arm").comparison
    assert comparison is not None
    expected = np.array(OF_TEXT["arm"]) / 2
    assert np.array(comparison.difference.by_block) == pytest.approx(expected)


def test_of_metrics_that_are_no_mean_over_tokens_nothing_is_said_of_text():
    summary = in_another_metric(Metric("accuracy"))
    assert summary.blocks is None
    assert "4 paired seeds, test accuracy" in " ".join(str(study_table(summary)).split())


def test_a_text_is_no_repetition_of_one_training():
    one = judged(
        {name: rows[:1] for name, rows in OF_TEXT.items()},
        {name: values[:1] for name, values in LOSSES.items()},
    )
    comparison = one.arm("arm").comparison
    assert comparison is not None
    assert (one.blocks, comparison.reason, comparison.interval) == (None, "1 pair", None)


def test_searches_that_are_confirmed_on_several_seeds_have_one_mean_a_search():
    searches = [SearchRecord(arm=a, repeat=r, num_trials=2) for r in range(3) for a in LOSSES]
    six = {name: [*values, *values[:2]] for name, values in LOSSES.items()}
    text = {name: [*rows, *rows[:2]] for name, rows in OF_TEXT.items()}
    tuned = judged(text, six, num_seeds=2, searches=tuple(searches)).arm("arm").comparison
    assert tuned is not None
    first = np.mean(text["arm"][:2], 0)
    assert tuned.difference.by_block[0] == pytest.approx(first)
    assert tuned.difference.num_pairs == len(tuned.difference.by_block) == 3
