"""Runs that were measured item by item: over items, over clusters of them, and over seeds too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import ablate
from ablate.compare.statistics import items, power_items, two_noises
from ablate.compare.statistics.paired import Difference, paired_difference
from ablate.compare.study_summary import StudySummary
from ablate.compare.table.advice import advice
from ablate.compare.table.notes import cautions
from ablate.errors import ConfigError

ASKED = {"arm": "model", "metric": "acc", "better": "higher", "item": "doc"}


def answers(
    gains: Mapping[str, float], *, seeds: int = 0, num: int = 200, apart: float = 0.0
) -> list[dict[str, Any]]:
    """Right and wrong answers of each arm to the same items, ten of each template."""
    draws = np.random.default_rng(11)
    hard = draws.normal(0, 1, num)
    rows = []
    for arm, gain in gains.items():
        for seed in range(max(1, seeds)):
            own = {"seed": seed} if seeds else {}
            odds = hard + gain + draws.normal(0, apart)
            right = draws.random(num) < 1 / (1 + np.exp(-odds))
            rows += [
                {"model": arm, **own, "doc": at, "template": at // 10, "acc": int(one)}
                for at, one in enumerate(right)
            ]
    return rows


ONE = answers({"plain": 0.0, "tuned": 1.5, "same": 0.1})
THREE = answers({"plain": 0.0, "tuned": 1.0}, seeds=3, apart=0.05)


def by_item(rows: Sequence[Mapping[str, Any]], arm: str) -> np.ndarray:
    """[seed, item]"""
    values = [row["acc"] for row in rows if row["model"] == arm]
    return np.array(values, float).reshape(-1, 200)


def difference(summary: StudySummary, arm: str) -> Difference:
    comparison = summary.arm(arm).comparison
    assert comparison is not None
    return comparison.difference


@pytest.mark.parametrize("arm", ["tuned", "same"])
def test_one_training_each_is_judged_by_the_exact_test_of_items_that_differ(arm: str):
    summary = ablate.judge(ONE, **ASKED)
    apart = (by_item(ONE, arm) - by_item(ONE, "plain")).ravel()
    better, differ = int((apart > 0).sum()), int((apart != 0).sum())
    own = difference(summary, arm)
    assert own.p == pytest.approx(stats.binomtest(better, differ).pvalue)
    assert own.mean == pytest.approx(-apart.mean())
    assert summary.arm(arm).comparison.verdict == ("better" if arm == "tuned" else "undecided")  # type: ignore[union-attr]
    row = next(line for line in str(summary).splitlines() if line.startswith(f"{arm} "))
    assert f"{better}/{differ}" in row
    assert "one training an arm, paired on 200 items" in str(summary)
    assert "says nothing of how trainings vary" in " ".join(str(summary).split())
    assert any("says nothing of how trainings vary" in note for note in cautions(summary))


@pytest.mark.parametrize("level", [0.05, 0.01, 0.001])
def test_the_exact_tests_interval_agrees_with_it(level: float):
    for above in range(0, 40, 3):
        for below in range(0, 40, 5):
            values = [1.0] * above + [-1.0] * below + [0.0] * 20
            centre = float(np.mean(values))
            pair = paired_difference([centre])
            assert pair is not None
            found = replace(pair, by_block=(tuple(v - centre for v in values),))
            low, high = items.interval(found, level) or (0.0, 0.0)
            assert low <= centre <= high
            p = items.p_value(found)
            if p is not None and above + below:
                assert (low <= 0 <= high) == (p > level)


def test_scores_that_are_not_right_or_wrong_are_judged_by_a_t_test_over_items():
    scored = [{**row, "acc": row["acc"] + 0.01 * (row["doc"] % 7)} for row in ONE]
    halved = [{**row, "acc": row["acc"] / (1 + (row["model"] == "tuned"))} for row in scored]
    apart = (by_item(halved, "tuned") - by_item(halved, "plain")).ravel()
    known = stats.ttest_1samp(-apart, 0)
    own = difference(ablate.judge(halved, **ASKED), "tuned")
    assert own.p == pytest.approx(known.pvalue)
    assert own.interval == pytest.approx(known.confidence_interval())


def test_clusters_are_judged_by_a_t_test_over_their_sums():
    summary = ablate.judge(ONE, **ASKED, cluster="template")
    sums = (by_item(ONE, "plain") - by_item(ONE, "tuned")).reshape(20, 10).sum(1)
    known = stats.ttest_1samp(sums / 10, 0)
    own = difference(summary, "tuned")
    assert own.p == pytest.approx(known.pvalue)
    assert own.interval == pytest.approx(known.confidence_interval())
    assert "paired on 20 clusters" in str(summary)


def test_seeds_and_items_are_crossed():
    summary = ablate.judge(THREE, **ASKED)
    apart = by_item(THREE, "plain") - by_item(THREE, "tuned")
    noises = apart.mean(1).tolist(), apart.mean(0).tolist()
    own = difference(summary, "tuned")
    assert own.p == pytest.approx(two_noises.p_value(noises))
    assert own.interval == pytest.approx(two_noises.interval(noises, 0.05))
    assert own.p > stats.ttest_1samp(noises[0], 0).pvalue  # type: ignore[operator]
    assert "3 paired seeds on 200 items (over seeds and items)" in " ".join(str(summary).split())


def test_on_a_scale_of_odds_items_count_as_they_move_the_odds():
    own = difference(ablate.judge(THREE, **ASKED, scale="logit"), "tuned")
    centre = {arm: by_item(THREE, arm).mean(1, keepdims=True) for arm in ("plain", "tuned")}
    moved = {
        arm: (by_item(THREE, arm) - mean) / (mean * (1 - mean)) for arm, mean in centre.items()
    }
    assert np.array(own.by_block) == pytest.approx(moved["plain"] - moved["tuned"])


@pytest.mark.parametrize(
    ("rows", "more", "error"),
    [
        ([*ONE, ONE[0]], {}, "--in-order"),
        ([{**row, "template": row["model"]} for row in ONE], {"cluster": "template"},
         "An item is in one cluster"),
        (ONE, {"cluster": "text"}, "unknown column 'text'"),
        ([{**r, "seed": f"{r['seed']}_{r['doc']}"} for r in THREE], {"item": None},
         "each of 3 with each of 200"),
        ([{**r, "seed": 1} for r in ONE if r["doc"] == 4], {"item": None}, "--item COLUMN"),
    ],
)  # fmt: skip
def test_rows_of_items_that_cannot_be_judged(rows: Any, more: Any, error: str):
    with pytest.raises(ConfigError) as raised:
        ablate.judge(rows, **{**ASKED, **more})
    assert error in str(raised.value)


def test_items_that_are_taken_for_seeds_are_noticed():
    numbered = [{**row, "seed": row["doc"]} for row in ONE]
    summary = ablate.judge(numbered, **{**ASKED, "item": None})
    assert "Every number is 0 or 1" in " ".join(str(summary).split())
    scored = [{**row, "acc": row["acc"] + 0.5} for row in numbered]
    summary = ablate.judge(scored, **{**ASKED, "item": None})
    assert "200 seeds of one arm are many" in " ".join(str(summary).split())


def crossed(of_seeds: Sequence[float], of_items: Sequence[float]) -> Difference:
    """A difference with these means of seeds, and with items that are so far above them."""
    pair = paired_difference([*of_seeds])
    assert pair is not None
    return replace(pair, by_block=(tuple(of_items),) * len(of_seeds))


def test_what_takes_fewer_evaluations_comes_first():
    spread = np.linspace(-1, 1, 100)
    noisy_seeds = power_items.ways(crossed([0.3, 0.6, 0.45, 0.0], spread / 100), 0.05)
    assert [way.of_items for way in noisy_seeds] == [False]
    assert 1 <= noisy_seeds[0].num <= 60
    noisy_items = power_items.ways(crossed([0.10, 0.12, 0.11, 0.11, 0.10, 0.12], spread), 0.05)
    assert [way.of_items for way in noisy_items] == [True]
    (alone,) = power_items.ways(crossed([0.1], spread), 0.05)
    assert alone.of_items
    assert 100 < alone.num <= 1_000
    assert power_items.ways(crossed([0.0001], spread), 0.05) == ()


def test_what_to_run_next_names_items():
    (hopeless,) = advice(ablate.judge(answers({"plain": 0.0, "tuned": 0.0}), **ASKED))
    assert hopeless.why == "nothing: 10 times as many do not reach 80%"
    fewer = [row for row in ONE if row["model"] != "same" and row["doc"] < 24]
    (one,) = advice(ablate.judge(fewer, **ASKED))
    assert one.why.endswith(" fresh items, 80%")
    assert one.why.replace(", 80%", " (80% power)") in str(ablate.judge(fewer, **ASKED))
