"""A ledger counts every variant that was ever judged, and gives each held-out seed out once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ablate
from ablate.compare.statistics import anytime
from ablate.errors import ConfigError, DamagedError
from ablate.judging.ledger import Ledger
from ablate.results.verdict import Verdict
from tests.judging.test_judge import ASKED, rows


def one_try(at: int, seeds: int = 5) -> list[dict[str, Any]]:
    """A variant that is its base but for noise: try number `at` of many."""
    draws = np.random.default_rng(at)
    base = np.random.default_rng(99).normal(0.8, 0.01, seeds)
    noise = draws.normal(0, 0.01, seeds)
    plain = [{"model": "plain", "seed": s, "acc": base[s]} for s in range(seeds)]
    return [
        *plain,
        *({"model": f"try {at}", "seed": s, "acc": base[s] + noise[s]} for s in range(seeds)),
    ]


def test_the_best_of_forty_tries_is_judged_as_the_best_of_forty(tmp_path: Path):
    alone = [ablate.judge(one_try(at), **ASKED) for at in range(40)]
    decided = [s.arms[1].comparison.verdict.decided for s in alone]  # type: ignore[union-attr]
    assert any(decided)  # noise alone, seen one try at a time
    ledger = str(tmp_path / "ledger.jsonl")
    counted = [ablate.judge(one_try(at), **ASKED, ledger=ledger) for at in range(40)]
    last = ablate.judge(one_try(decided.index(True)), **ASKED, ledger=ledger)
    comparison = last.arms[1].comparison
    assert comparison is not None
    assert last.num_comparisons == 40
    assert comparison.verdict == Verdict.UNDECIDED
    assert comparison.p_holm == pytest.approx(min(1.0, 40 * comparison.difference.p))  # type: ignore[operator]
    assert counted[4].num_comparisons == 5


def test_judging_again_counts_nothing_twice(tmp_path: Path):
    ledger = tmp_path / "ledger.jsonl"
    for _ in range(3):
        summary = ablate.judge(one_try(1), **ASKED, ledger=str(ledger))
    assert summary.num_comparisons == 1
    assert len(ledger.read_text().splitlines()) == 1


def test_other_results_under_an_old_name_are_another_variant(tmp_path: Path):
    ledger, renamed = str(tmp_path / "ledger.jsonl"), one_try(2)
    ablate.judge(one_try(1), **ASKED, ledger=ledger)
    for row in renamed:
        row["model"] = row["model"].replace("try 2", "try 1")
    assert ablate.judge(renamed, **ASKED, ledger=ledger).num_comparisons == 2


def test_another_base_or_metric_is_another_family(tmp_path: Path):
    ledger = str(tmp_path / "ledger.jsonl")
    ablate.judge(one_try(1), **ASKED, ledger=ledger)
    assert ablate.judge(one_try(2), **ASKED, ledger=ledger, base="try 2").num_comparisons == 1


def test_a_seed_is_given_out_once(tmp_path: Path):
    ledger = Ledger(str(tmp_path / "ledger.jsonl"))
    drawn = [*ledger.draw(50), *Ledger(str(tmp_path / "ledger.jsonl")).draw(50)]
    assert len(set(drawn)) == 100


def test_results_on_drawn_seeds_are_held_out_until_they_are_judged(tmp_path: Path):
    ledger = str(tmp_path / "ledger.jsonl")
    seeds = Ledger(ledger).draw(5)
    records = rows({"plain": 0.0, "wide": 0.02}, seeds=5)
    fresh = [{**row, "seed": seeds[row["seed"]]} for row in records]
    first = ablate.judge(fresh, **ASKED, ledger=ledger)
    assert any("drawn by the ledger" in note for note in first.record.notes)
    other = [{**r, "model": r["model"].replace("wide", "deep"), "acc": r["acc"] / 2} for r in fresh]
    second = ablate.judge(other, **ASKED, ledger=ledger)
    assert not any("drawn by the ledger" in note for note in second.record.notes)


def test_an_arm_that_gets_more_seeds_is_judged_at_any_time(tmp_path: Path):
    ledger, whole = str(tmp_path / "ledger.jsonl"), one_try(1, seeds=8)
    early = [row for row in whole if row["seed"] in (5, 6, 7)]
    assert ablate.judge(early, **ASKED, ledger=ledger).looks.is_one
    later = ablate.judge(whole, **ASKED, ledger=ledger)
    assert str(later.looks) == "looked at 3, 8 seeds; 8 were planned"
    difference = later.arms[1].comparison.difference  # type: ignore[union-attr]
    # In the order in which the seeds were seen, for which alone the test holds.
    by_seed = {(row["model"], row["seed"]): row["acc"] for row in whole}
    order = [5, 6, 7, 0, 1, 2, 3, 4]
    deltas = [by_seed["plain", seed] - by_seed["try 1", seed] for seed in order]
    assert difference.deltas == pytest.approx(deltas)
    assert difference.p == pytest.approx(anytime.p_value(deltas))


def test_looks_hold_if_they_were_planned_before_the_first(tmp_path: Path):
    ledger, whole = str(tmp_path / "ledger.jsonl"), one_try(1, seeds=8)
    early = [row for row in whole if row["seed"] < 5]
    ablate.judge(early, **ASKED, ledger=ledger, looks=(5, 8))
    later = ablate.judge(whole, **ASKED, ledger=ledger)
    assert str(later.looks) == "looked at 5, 8 seeds, as planned"
    unplanned = str(tmp_path / "other.jsonl")
    ablate.judge(early, **ASKED, ledger=unplanned)
    with pytest.raises(ConfigError, match="made before the first look"):
        ablate.judge(whole, **ASKED, ledger=unplanned, looks=(5, 8))


def test_a_damaged_ledger_is_not_read_around(tmp_path: Path):
    file = tmp_path / "ledger.jsonl"
    ablate.judge(one_try(1), **ASKED, ledger=str(file))
    file.write_text(file.read_text() + "{\n")
    with pytest.raises(DamagedError, match="line 2"):
        ablate.judge(one_try(2), **ASKED, ledger=str(file))


def test_two_judgements_at_once_count_each_other(tmp_path: Path):
    """Each must see the other's variant, or the one that comes second does."""
    ledger = str(tmp_path / "ledger.jsonl")
    with ThreadPoolExecutor(4) as pool:
        judged = [pool.submit(ablate.judge, one_try(at), **ASKED, ledger=ledger) for at in range(8)]
        families = sorted(one.result().num_comparisons for one in judged)
    assert families == [*range(1, 9)]
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.jsonl"]
