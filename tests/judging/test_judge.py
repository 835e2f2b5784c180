"""Results of anybody's loop: refused where they cannot be judged, else judged as a study is."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy import stats

import ablate
from ablate.cli import main
from ablate.compare.table.advice import Advice, advice
from ablate.compare.table.notes import cautions
from ablate.config.metrics import Metric
from ablate.errors import ConfigError, StudyError
from ablate.judging import files
from ablate.judging.imported import imported
from ablate.judging.rows import Row
from ablate.results.verdict import Verdict

ASKED = {"arm": "model", "metric": "acc", "better": "higher"}
OPTIONS = ("--arm", "model", "--metric", "acc", "--better", "higher")


def rows(gains: Mapping[str, float], seeds: int = 6, **more: Any) -> list[dict[str, Any]]:
    """Arms that differ from chance by their gains, on seeds that they share."""
    draws = np.random.default_rng(4)
    of_seed = draws.normal(0.8, 0.01, seeds)
    return [
        {"model": arm, "seed": seed, "acc": of_seed[seed] + gain + draws.normal(0, 0.002), **more}
        for arm, gain in gains.items()
        for seed in range(seeds)
    ]


THREE = rows({"plain": 0.0, "wide": 0.02, "drop": 0.0})


def by_arm(records: Sequence[Mapping[str, Any]], arm: str) -> np.ndarray:
    return np.array([record["acc"] for record in records if record["model"] == arm])


def test_its_numbers_are_scipys():
    summary = ablate.judge(THREE, **ASKED)
    plain = by_arm(THREE, "plain")
    known = {arm: stats.ttest_rel(by_arm(THREE, arm), plain) for arm in ("wide", "drop")}
    p = {arm: result.pvalue for arm, result in known.items()}
    smaller, larger = sorted(p.values())
    for arm, result in known.items():
        comparison = summary.arm(arm).comparison
        assert comparison is not None
        assert comparison.difference.p == pytest.approx(result.pvalue)
        own = tuple(sorted(-end for end in result.confidence_interval()))
        assert comparison.difference.interval == pytest.approx(own)
        of_table = tuple(result.confidence_interval(1 - 0.05 / 2))
        assert comparison.interval == pytest.approx(of_table)
        holm = 2 * smaller if p[arm] == smaller else max(2 * smaller, larger)
        assert comparison.p_holm == pytest.approx(min(1.0, holm))
    assert summary.arm("wide").comparison.verdict == Verdict.BETTER  # type: ignore[union-attr]
    assert summary.arm("drop").comparison.verdict == Verdict.UNDECIDED  # type: ignore[union-attr]


def written(file: Path, records: Sequence[Mapping[str, Any]]) -> str:
    if file.suffix in (".csv", ".tsv"):
        with file.open("w", newline="") as lines:
            separator = "\t" if file.suffix == ".tsv" else ","
            writer = csv.DictWriter(lines, list(records[0]), delimiter=separator)
            writer.writeheader()
            writer.writerows(records)
    elif file.suffix == ".jsonl":
        file.write_text("".join(json.dumps(record) + "\n" for record in records))
    elif file.suffix == ".json":
        file.write_text(json.dumps(records))
    else:
        parquet.write_table(pa.Table.from_pylist([*records]), file)
    return str(file)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "json", "parquet"])
def test_every_kind_of_file_gives_the_same(suffix: str, tmp_path: Path):
    judged = ablate.judge(written(tmp_path / f"results.{suffix}", THREE), **ASKED)
    known = ablate.judge(THREE, **ASKED)
    for arm in ("wide", "drop"):
        ours, theirs = judged.arm(arm).comparison, known.arm(arm).comparison
        assert ours is not None
        assert theirs is not None
        assert ours.difference.deltas == pytest.approx(theirs.difference.deltas)


def test_several_columns_name_an_arm():
    records = [{**row, "width": 8 if row["model"] == "plain" else 16} for row in THREE]
    summary = ablate.judge(records, **{**ASKED, "arm": ("model", "width")})
    assert [arm.name for arm in summary.arms] == [
        "model=plain, width=8",
        "model=wide, width=16",
        "model=drop, width=16",
    ]


def test_the_last_row_of_a_run_counts():
    early = [{**row, "step": 1, "acc": 0.1} for row in THREE]
    summary = ablate.judge([*early, *({**row, "step": 2} for row in THREE)], **ASKED, last="step")
    assert summary.arm("wide").comparison == ablate.judge(THREE, **ASKED).arm("wide").comparison


def test_a_run_without_a_number_speaks_against_its_arm():
    records = [{**row, "acc": float("nan")} if row["model"] == "wide" and row["seed"] == 3 else row
               for row in THREE]  # fmt: skip
    comparison = ablate.judge(records, **ASKED).arm("wide").comparison
    assert comparison is not None
    assert comparison.verdict == Verdict.UNDECIDED
    assert comparison.reason == "lost seeds"


@pytest.mark.parametrize(
    ("records", "more", "error"),
    [
        (THREE, {"arm": "modl"}, "unknown column 'modl'. Did you mean 'model'?"),
        (THREE, {"base": "plane"}, "unknown arm 'plane'. Did you mean 'plain'?"),
        (THREE[:6], {}, "one arm, 'plain': there is nothing to compare it with"),
        (rows({"plain": 0.0, "wide": 0.02}, seeds=1), {}, "one seed of each arm"),
        ([*THREE, THREE[3]], {}, "rows 4 and 19 are both of arm 'plain' and seed 3"),
        ([{**row, "step": 1} for row in THREE] * 2, {}, "They are equal: leave one out"),
        ([{**row, "step": at} for at in (1, 2) for row in THREE], {}, "They differ in 'step'"),
        (
            [{**r, "seed": f"{r['model']}{r['seed']}"} for r in THREE],
            {},
            "no two arms share a seed",
        ),
        ([{**THREE[0], "acc": "0_85"}, *THREE[1:]], {}, "row 1: acc = '0_85' is not allowed"),
        (
            [{**row, "step": 1, "acc": row["acc"] + at} for at in (0, 1) for row in THREE],
            {"last": "step"},
            "rows 1 and 19 are both the last of arm 'plain' and seed 0 by 'step'",
        ),
        ([{**THREE[0], "model": ""}, *THREE[1:]], {}, "row 1: 'model' is empty"),
        ([1, 2], {}, "cannot be read. Expected a data frame"),
    ],
)
def test_what_cannot_be_judged_is_refused(records: Any, more: Any, error: str):
    with pytest.raises(ConfigError) as raised:
        ablate.judge(records, **{**ASKED, **more})
    assert error in str(raised.value)


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("r.xlsx", "", "its name should end in .csv"),
        ("none.csv", None, "cannot be read: No such file"),
        ("r.csv", "", "has no rows"),
        ("r.json", '{"a": 1}', "expected a list of objects"),
        ("r.jsonl", '{"a": 1}\n3\n', "line 2 is not an object"),
        ("r.parquet", "no", "is damaged, or is not parquet"),
    ],
)
def test_a_wrong_file_is_refused(name: str, content: str | None, error: str, tmp_path: Path):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError) as raised:
        files.read(str(tmp_path / name))
    assert error in str(raised.value)


def test_kept_results_are_a_study_of_the_workspace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file, place = written(tmp_path / "sweep.csv", THREE), ["--workspace", str(tmp_path / "w")]
    assert main(["judge", file, *OPTIONS, "--keep", "widths", *place]) == 0
    first = capsys.readouterr().out
    assert main(["table", "widths", *place]) == 0
    again = capsys.readouterr().out
    assert again.splitlines()[0].startswith("widths@imported")
    assert again.splitlines()[1:] == first.splitlines()[1:]
    assert f"imported from {file}" in again.replace("\n", " ")
    assert main(["query", "SELECT imported, status FROM studies", *place, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"imported": file, "status": "finished"}]
    assert main(["compare", "widths", "takase2018doc", *place]) == 0
    beside = capsys.readouterr().out
    assert f"imported from {file}" in " ".join(beside.split())
    assert "ablate table papers takase2018doc" in " ".join(beside.split())
    assert main(["report", "widths", "--static", *place]) == 0
    (report,) = (tmp_path / "w").rglob("report.html")
    assert "imported from" in report.read_text()


def advised(records: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Advice]:
    return {one.arm: one for one in advice(ablate.judge(records, **ASKED, **more))}


def test_what_to_run_next():
    assert "wide" not in advised(THREE)  # decided
    close = rows({"plain": 0.0, "wide": 0.002}, seeds=6)
    more = advised(close)["wide"].more
    comparison = ablate.judge(close, **ASKED).arm("wide").comparison
    assert more is not None
    assert more == comparison.pairs_needed  # type: ignore[union-attr]
    assert str(advised(close)["wide"]) == f"wide: {more} more seeds, 80%"
    assert advised(rows({"plain": 0.0, "wide": 0.02}, seeds=2))["wide"].more == 1
    assert advised(close, looks=(6, 9))["wide"].more == 3


def test_planned_looks_are_judged_as_looks():
    summary = ablate.judge(THREE, **ASKED, looks=(3, 6, 9))
    assert str(summary.looks) == "looked at 6 seeds, as planned; next at 9"
    plain = ablate.judge(THREE, **ASKED).arm("wide").comparison
    planned = summary.arm("wide").comparison
    assert planned.difference.p > plain.difference.p  # type: ignore[union-attr, operator]
    with pytest.raises(StudyError, match="numbers that rise"):
        ablate.judge(THREE, **ASKED, looks=(5, 3))


def test_runs_without_seeds_pair_in_the_order_of_rows():
    bare = [{key: value for key, value in row.items() if key != "seed"} for row in THREE]
    with pytest.raises(ConfigError, match="--in-order"):
        ablate.judge(bare, **ASKED)
    summary = ablate.judge(bare, **ASKED, seed=None)
    assert summary.arm("wide").comparison == ablate.judge(THREE, **ASKED).arm("wide").comparison
    assert any("order of rows" in note for note in summary.notes)
    ranked = sorted(bare, key=lambda row: (row["model"], row["acc"]))
    with pytest.raises(ConfigError, match="sorted by their results"):
        ablate.judge(ranked, **ASKED, seed=None)


@pytest.mark.parametrize(
    ("gone", "base", "verdict", "reason"),
    [
        (("wide", 0), "plain", "undecided", "lost seeds"),
        (("wide", 5), "wide", "undecided", "other arm lost seeds"),
        (("plain", 5), "plain", "better", ""),
        (("plain", 5), "wide", "worse", ""),
        (("drop", 5), "plain", "better", ""),
    ],
)
def test_a_seed_without_a_row_is_lost(gone, base, verdict, reason):
    uneven = [row for row in THREE if (row["model"], row["seed"]) != gone]
    summary = ablate.judge(uneven, **ASKED, base=base)
    arm = "wide" if base == "plain" else "plain"
    comparison = summary.arm(arm).comparison
    assert comparison is not None
    assert (comparison.verdict, comparison.reason) == (verdict, reason)
    said = any(arm in note and ": the seeds" in note for note in cautions(summary))
    assert said == bool(reason)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of SQLAlchemy's, in MLflow's client
def test_runs_of_mlflow_and_trials_of_optuna(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    import mlflow
    import optuna

    uri, storage = f"sqlite:///{tmp_path}/m.db", f"sqlite:///{tmp_path}/o.db"
    client = mlflow.MlflowClient(uri)
    experiment = client.create_experiment("sweep", str(tmp_path / "artifacts"))
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(storage=storage, study_name="sweep")
    for number, row in enumerate(THREE):
        run = client.create_run(experiment, start_time=1_000 + number)
        client.log_param(run.info.run_id, "model", row["model"])
        client.log_param(run.info.run_id, "seed", row["seed"])
        client.log_metric(run.info.run_id, "acc", row["acc"])
        client.set_terminated(run.info.run_id)
        trial = study.ask()
        for name in ("model", "seed"):
            trial.set_user_attr(name, row[name])
        study.tell(trial, row["acc"])
    tables = []
    value = [*OPTIONS[:3], "value", *OPTIONS[4:]]
    for asked in (
        ["mlflow:sweep", *OPTIONS, "--mlflow", uri],
        ["optuna:sweep", *value, "--searches", storage],
    ):
        assert main(["judge", *asked, "--format", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["base_arm"] == "plain"  # which was logged first
        tables.append({row["arm"]: (row["verdict"], row.get("p_holm")) for row in found["arms"]})
    assert tables[0]["wide"] == tables[1]["wide"]
    assert tables[0]["wide"][0] == "better"


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("r.csv", "model,acc,acc\n", "two columns of one name, 'acc'"),
        ("r.csv", "model,seed,acc\nplain,1,0,85\n", "line 2 has 4 cells, and the header 3"),
        ("r.jsonl", '{"acc": 1, "acc": 2}\n', "two columns of one name, 'acc'"),
        ("r.json", '[{"a.b": 1, "a": {"b": 2}}]', "two columns of one name, 'a.b'"),
    ],
)
def test_a_file_that_says_two_things_is_refused(
    name: str, content: str, error: str, tmp_path: Path
):
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError) as raised:
        files.read(str(tmp_path / name))
    assert error in str(raised.value)


def test_empty_cells_may_follow_a_line(tmp_path: Path):
    lines = ["model,seed,acc,,"] + [f"{r['model']},{r['seed']},{r['acc']},,," for r in THREE]
    (tmp_path / "r.csv").write_text("\n".join(lines))
    judged = ablate.judge(tmp_path / "r.csv", **ASKED)
    assert judged.arm("wide").comparison == ablate.judge(THREE, **ASKED).arm("wide").comparison


@pytest.mark.parametrize("column", ["model", "seed"])
def test_a_name_that_no_file_can_hold_is_refused(column: str):
    records = [{**row, column: "\ud800"} if at == 7 else row for at, row in enumerate(THREE)]
    with pytest.raises(ConfigError, match=f"row 8: {column} = "):
        ablate.judge(records, **ASKED)


def with_items(num: int = 4) -> list[dict[str, Any]]:
    """The runs, each measured on items whose mean is the run's number."""
    around = np.linspace(-0.3, 0.3, num)
    return [{**r, "doc_id": at, "acc": r["acc"] + a} for r in THREE for at, a in enumerate(around)]


def test_the_mean_over_its_items_is_a_runs_number():
    summary, known = (
        ablate.judge(with_items(), **ASKED, item="doc_id"),
        ablate.judge(THREE, **ASKED),
    )
    for arm in ("wide", "drop"):
        ours, theirs = summary.arm(arm).comparison, known.arm(arm).comparison
        assert ours.difference.deltas == pytest.approx(theirs.difference.deltas)  # type: ignore[union-attr]
    assert any("mean over its 4 values of 'doc_id'" in note for note in summary.record.notes)
    bare = [{key: value for key, value in row.items() if key != "seed"} for row in with_items()]
    in_order = ablate.judge(bare, **ASKED, seed=None, item="doc_id")
    assert in_order.arm("wide").comparison == summary.arm("wide").comparison


@pytest.mark.parametrize(
    ("records", "more", "error"),
    [
        (with_items(), {}, "--item COLUMN takes their mean"),
        (with_items(), {"seed": "doc_id"}, "Then --seed seed --item doc_id takes the mean"),
        (with_items(), {"seed": "doc_id", "last": "seed"}, "would drop all seeds but one"),
        (with_items(), {"seed": "doc_id", "item": "seed"}, "would take seeds for items"),
        (
            with_items()[:-1],
            {"item": "doc_id"},
            "seed 5 lacks doc_id 3 (row 4), unlike arm 'plain'",
        ),
        ([*with_items(), with_items()[9]], {"item": "doc_id"}, "rows 10 and 73 are both of"),
        (
            [{**r, "acc": None} if at == 9 else r for at, r in enumerate(with_items())],
            {"item": "doc_id"},
            "has no number in row 10",
        ),
    ],
)
def test_items_are_not_taken_for_runs(records: Any, more: Any, error: str):
    with pytest.raises(ConfigError) as raised:
        ablate.judge(records, **{**ASKED, **more})
    assert error in str(raised.value)


@pytest.mark.parametrize("state", ["crashed", "failed", "running"])
def test_a_run_that_did_not_finish_has_not_diverged(state: str):
    """Weights & Biases exports the state of a run, and a number that is not final."""
    ended = [{**row, "State": "finished"} for row in THREE]
    records = [{**r, "State": state, "acc": 0.1} if at == 7 else r for at, r in enumerate(ended)]
    summary = ablate.judge(records, **ASKED)
    wide = summary.arm("wide")
    assert wide.counts.diverged == 0
    assert wide.counts.failed == (state != "running")
    assert wide.comparison.difference.num_pairs == 5  # type: ignore[union-attr]
    assert any(f"wide seed 1 ({state})" in note for note in summary.record.notes)
    assert ("Run them again" in str(summary.record.notes)) == (state == "crashed")
    assert ablate.judge(ended, **ASKED).arm("wide").comparison == (
        ablate.judge(THREE, **ASKED).arm("wide").comparison
    )


@pytest.mark.parametrize("states", [{"state": " Crashed"}, {"State": "crashed", "state": "x"}])
def test_a_state_is_read_however_it_is_written(states: dict[str, str]):
    records = [{**row, **(states if at == 7 else {})} for at, row in enumerate(THREE)]
    assert ablate.judge(records, **ASKED).arm("wide").counts.failed == 1


@pytest.mark.parametrize("named", ["Seed {}", "acc/seed={}"])
def test_a_column_for_each_seed_is_read(named: str, tmp_path: Path):
    wide = [
        {"model": arm, **{named.format(s): v for s, v in enumerate(by_arm(THREE, arm).tolist())}}
        for arm in ("plain", "wide", "drop")
    ]
    judged = ablate.judge(written(tmp_path / "r.csv", wide), **ASKED)
    assert judged.arm("wide").comparison == ablate.judge(THREE, **ASKED).arm("wide").comparison


def test_nested_values_have_names_with_dots(tmp_path: Path):
    nested = [{"config": {"model": r["model"], "seed": r["seed"]}, "eval": {"acc": r["acc"]}}
              for r in THREE]  # fmt: skip
    asked = {"arm": "config.model", "seed": "config.seed", "metric": "eval.acc", "better": "higher"}
    known = ablate.judge(THREE, **ASKED).arm("wide").comparison
    for kind in ("json", "jsonl", "parquet"):
        file = written(tmp_path / f"r.{kind}", nested)
        assert ablate.judge(file, **asked).arm("wide").comparison == known
    assert ablate.judge(nested, **asked).arm("wide").comparison == known


def test_a_storage_that_is_missing_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for storage in (f"sqlite:///{tmp_path}/none.db", f"{tmp_path}/none.log"):
        assert main(["judge", "optuna:sweep", *OPTIONS, "--searches", storage]) == 2
        assert "there is no file" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("name", ["\udcff", "", "../x", "a@b"])
def test_results_are_kept_under_a_name_that_a_folder_can_have(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file, place = written(tmp_path / "sweep.csv", THREE), ["--workspace", str(tmp_path / "w")]
    assert main(["judge", file, *OPTIONS, "--keep", name, *place]) == 2
    assert "--keep = " in capsys.readouterr().err


class Seed(str):
    """A seed that counts how often one of its kind is compared with another."""

    num = 0

    def __eq__(self, other):
        Seed.num += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_seeds_are_not_looked_for_in_a_list():
    """2,000,000 rows once took time that grew with the square of the seeds."""
    seeds = [Seed(number) for number in range(200)]
    given = {"value": 1.0, "cost": None, "place": 1, "cells": {}}
    rows = [Row(arm=arm, seed=seed, **given) for arm in ("a", "b") for seed in seeds]
    Seed.num = 0
    imported(rows, Metric("loss"), base="a", source="runs.csv")
    assert Seed.num < 20 * len(rows)
