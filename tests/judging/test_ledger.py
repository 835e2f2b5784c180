"""A ledger counts every variant that was ever judged, and gives each held-out seed out once."""

from __future__ import annotations

import errno
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ablate
from ablate.compare.statistics import anytime
from ablate.errors import ConfigError, DamagedError, StoreError
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
    for at in (0, 4, 39):
        of_try = counted[at].arms[1].comparison
        share = (at + 1) * (at + 2)
        assert of_try.p_holm == pytest.approx(min(1.0, share * of_try.difference.p))  # type: ignore[union-attr, operator]
    assert counted[4].num_comparisons == 5


def test_a_seed_that_another_file_writes_otherwise_is_no_fresh_one(tmp_path: Path):
    ledger = tmp_path / "ledger.jsonl"
    for written in (int, float, str, "{}.0".format):
        records = [{**row, "seed": written(row["seed"])} for row in one_try(1)]
        summary = ablate.judge(records, **ASKED, ledger=str(ledger))
    assert summary.arms[1].comparison.difference.num_pairs == 5  # type: ignore[union-attr]
    assert len(ledger.read_text().splitlines()) == 1


def test_a_ledger_without_a_name_is_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="is not a file"):
        ablate.judge(one_try(1), **ASKED, ledger="")


def test_another_name_of_the_base_or_the_column_is_no_new_beginning(tmp_path: Path):
    ledger = str(tmp_path / "ledger.jsonl")
    ablate.judge(one_try(1), **ASKED, ledger=ledger)
    of_base = named(one_try(2), {"plain": "base"})
    assert ablate.judge(of_base, **ASKED, ledger=ledger).num_comparisons == 2
    column = [{**row, "top1": row["acc"]} for row in one_try(3)]
    other = {**ASKED, "metric": "top1"}
    assert ablate.judge(column, **other, ledger=ledger).num_comparisons == 3
    # Pairs that are the same are no new variant.
    again = [{**row, "top1": row["acc"]} for row in named(one_try(2), {"plain": "other"})]
    assert ablate.judge(again, **other, ledger=ledger).num_comparisons == 3


def named(records: list[dict[str, Any]], names: dict[str, str]) -> list[dict[str, Any]]:
    return [{**row, "model": names.get(row["model"], row["model"])} for row in records]


def test_a_base_that_was_run_again_makes_another_variant(tmp_path: Path):
    ledger, again = str(tmp_path / "ledger.jsonl"), one_try(1)
    ablate.judge(one_try(1), **ASKED, ledger=ledger)
    for row in again:
        row["acc"] += 0.01 * row["seed"] * (row["model"] == "plain")
    summary = ablate.judge(again, **ASKED, ledger=ledger)
    assert summary.num_comparisons == 2
    assert summary.looks.is_one
    assert summary.record.counted_as == {"try 1": 6}


def test_fresh_seeds_of_a_name_add_to_its_pairs(tmp_path: Path):
    ledger, whole = str(tmp_path / "ledger.jsonl"), one_try(1, seeds=10)
    first = [row for row in whole if row["seed"] < 5]
    fresh = [row for row in whole if row["seed"] >= 5]
    ablate.judge(first, **ASKED, ledger=ledger)
    for records in (fresh, fresh, [row for row in whole if row["seed"] not in (1, 7)]):
        summary = ablate.judge(records, **ASKED, ledger=ledger)
        assert str(summary.looks) == "looked at 5, 10 seeds; 10 were planned"
        assert summary.num_comparisons == 1
        comparison = summary.arms[1].comparison
        deltas = [a["acc"] - b["acc"] for a, b in zip(whole[:10], whole[10:], strict=True)]
        assert comparison.difference.deltas == pytest.approx(deltas)  # type: ignore[union-attr]
        at_any_time = anytime.p_value(deltas)
        assert comparison.p_holm == pytest.approx(min(1.0, 2 * at_any_time))  # type: ignore[union-attr, operator]


def test_arms_of_one_table_have_equal_shares(tmp_path: Path):
    ledger, both = str(tmp_path / "ledger.jsonl"), [*one_try(1), *one_try(2)[5:]]
    assert ablate.judge(both, **ASKED, ledger=ledger).record.counted_as == {"try 1": 3, "try 2": 3}
    third = ablate.judge([*both, *one_try(3)[5:]], **ASKED, ledger=ledger)
    assert third.record.counted_as == {"try 1": 3, "try 2": 3, "try 3": 12}
    assert third.num_comparisons == 3
    sizes = [
        (arm.comparison.difference.p, 12 if arm.name == "try 3" else 3) for arm in third.arms[1:]
    ]  # type: ignore[union-attr]
    least = min(range(3), key=lambda at: sizes[at][0] * sizes[at][1])
    p, num = sizes[least]
    assert third.arms[1 + least].comparison.p_holm == pytest.approx(min(1.0, p * num))  # type: ignore[union-attr]


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


def on_seeds(seeds: list[str], gain: float = 0.02, arm: str = "wide") -> list[dict[str, Any]]:
    records = rows({"plain": 0.0, arm: gain}, seeds=len(seeds))
    return [{**row, "seed": seeds[row["seed"]]} for row in records]


def test_confirmations_are_a_family_of_their_own(tmp_path: Path):
    ledger = str(tmp_path / "ledger.jsonl")
    for at in range(40):
        ablate.judge(one_try(at), **ASKED, ledger=ledger)
    ablate.judge(on_seeds([*"12345"]), **ASKED, ledger=ledger)  # what will be confirmed
    drawn = Ledger(ledger).draw(5)
    for _ in range(2):
        confirmed = ablate.judge(on_seeds(drawn), **ASKED, ledger=ledger)
        assert confirmed.record.counted_as == {"wide": 2}
        assert confirmed.arms[1].comparison.difference.num_pairs == 5  # type: ignore[union-attr]
        assert any("drawn by the ledger" in note for note in confirmed.record.notes)
    other = ablate.judge(on_seeds(Ledger(ledger).draw(5), arm="deep"), **ASKED, ledger=ledger)
    assert other.record.counted_as == {"deep": 6}
    again = ablate.judge(on_seeds(Ledger(ledger).draw(5)), **ASKED, ledger=ledger)
    assert again.record.counted_as == {"wide": 2}
    assert str(again.looks) == "looked at 5, 10 seeds; 10 were planned"


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


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line)["judged"] for line in file.read_text().splitlines()]


def test_a_line_that_was_cut_is_replaced(tmp_path: Path):
    """By a full disk: nobody was told of what it says."""
    file = tmp_path / "ledger.jsonl"
    ablate.judge(one_try(1), **ASKED, ledger=str(file))
    whole = file.read_bytes()
    file.write_bytes(whole + whole[: len(whole) // 2])
    assert ablate.judge(one_try(2), **ASKED, ledger=str(file)).num_comparisons == 2
    assert file.read_bytes().startswith(whole)
    assert [line["arm"] for line in lines_of(file)] == ["try 1", "try 2"]
    file.write_bytes(file.read_bytes()[:-1])  # an editor left the last end out
    assert ablate.judge(one_try(3), **ASKED, ledger=str(file)).num_comparisons == 3


def test_a_full_disk_leaves_the_ledger_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "ledger.jsonl"
    ablate.judge(one_try(1), **ASKED, ledger=str(file))
    whole = file.read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(StoreError, match="No space left"):
        patched.setattr(os, "fsync", full)
        ablate.judge(one_try(2), **ASKED, ledger=str(file))
    assert file.read_bytes() == whole


@pytest.mark.parametrize("value", ["1" + 400 * "0", "1e999", '"good"', "[1]"])
def test_a_ledger_of_what_is_no_number_is_damaged(value: str, tmp_path: Path):
    file = tmp_path / "ledger.jsonl"
    ablate.judge(one_try(1), **ASKED, ledger=str(file))
    entry = json.loads(file.read_text())
    entry["judged"]["values"]["0"] = "VALUE"
    file.write_text(json.dumps(entry).replace('"VALUE"', value) + "\n")
    with pytest.raises(DamagedError, match="line 1"):
        ablate.judge(one_try(2), **ASKED, ledger=str(file))


def test_an_older_ledger_is_read(tmp_path: Path):
    """Its lines lack the values of the base, and say nothing of shares."""
    file = tmp_path / "ledger.jsonl"
    for at in (1, 2):
        ablate.judge(one_try(at), **ASKED, ledger=str(file))
    lines = lines_of(file)
    kept = ("base", "metric", "arm", "values", "when", "looks")
    older = [json.dumps({"judged": {name: line[name] for name in kept}}) for line in lines]
    file.write_text("".join(line + "\n" for line in older))
    again = ablate.judge(one_try(2), **ASKED, ledger=str(file))
    assert again.record.counted_as == {"try 2": 6}
    assert again.looks.is_one
    longer = one_try(1, seeds=8)
    early = {(row["model"], row["seed"]): row for row in one_try(1)}
    grown = [early.get((row["model"], row["seed"]), row) for row in longer]
    assert ablate.judge(grown, **ASKED, ledger=str(file)).record.counted_as == {"try 1": 2}
    # Without the base's values there is nothing to add up.
    fresh = [{**row, "seed": row["seed"] + 50} for row in one_try(2)]
    file.write_text("".join(line + "\n" for line in older))
    assert ablate.judge(fresh, **ASKED, ledger=str(file)).record.counted_as == {"try 2": 12}


def test_two_judgements_at_once_count_each_other(tmp_path: Path):
    """Each must see the other's variant, or the one that comes second does."""
    ledger = str(tmp_path / "ledger.jsonl")
    with ThreadPoolExecutor(4) as pool:
        judged = [pool.submit(ablate.judge, one_try(at), **ASKED, ledger=ledger) for at in range(8)]
        families = sorted(one.result().num_comparisons for one in judged)
    assert families == [*range(1, 9)]
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.jsonl"]
