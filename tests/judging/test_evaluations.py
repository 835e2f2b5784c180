"""Logs that lm-evaluation-harness and Inspect wrote themselves, read as rows of items.

`evaluations/` was written by `make evaluations ARGS=--write`: lm_eval 0.4.13 and inspect_ai 0.3.285
with models of ours that need no weights (`tests/lab/evaluations/`).
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from ablate.errors import ConfigError
from ablate.judging import files
from tests.support.places import ROOT

LOGS = ROOT / "tests/judging/evaluations"


def log(pattern: str) -> Path:
    (found,) = LOGS.rglob(pattern)
    return found


def test_documents_of_the_harness_have_items_metrics_and_the_model():
    rows = files.read(str(LOGS / "lm_eval"))
    first = rows[0]
    assert [row["item"] for row in rows] == [*(f"sums/{at}" for at in range(4))] * 2
    assert (first["model"], first["model_args.skill"], first["model_args.seed"]) == (
        "sums",
        0.55,
        1,
    )
    assert first["folder.1"] == "plain"
    assert first["doc.template"] == 0
    assert {row["acc"] for row in rows} == {0.0, 1.0}
    assert first["fewshot_seed"] == 1234


def test_filters_are_metrics_of_one_document(tmp_path: Path):
    lines = [json.loads(line) for line in log("plain/*/samples_*.jsonl").read_text().splitlines()]
    both = [{**line, "filter": name} for line in lines for name in ("strict", "none")]
    file = tmp_path / "samples_sums_2026-11-28T18-14-41.264676.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in both))
    rows = files.read(str(file))
    assert len(rows) == 4
    assert [row["acc.strict"] for row in rows] == [row["acc"] for row in rows]


def test_samples_of_inspect_have_items_scores_and_the_model():
    zipped, plain = (files.read(str(log(name))) for name in ("*.eval", "inspect/*/*.json"))
    expected = {"model": "mockllm/sums", "task": "sums", "id": 0, "item": "sums/0"}
    for rows in (zipped, plain):
        assert len(rows) == 2
        assert expected.items() <= rows[0].items()
        assert rows[1]["metadata.half"] == 1
        assert all(row["match"] in (0.0, 1.0) for row in rows)


def test_epochs_and_words_of_inspect_are_numbers(tmp_path: Path):
    content = json.loads(log("inspect/*/*.json").read_text())
    first = content["samples"][0]
    values = ["C", "P", {"style": "I", "length": 3}, True]
    content["samples"] = [
        {**first, "id": at, "epoch": epoch, "scores": {"own": {"value": value}}}
        for at, value in enumerate(values)
        for epoch in (1, 2)
    ]
    content["samples"][0]["scores"]["own"]["value"] = "N"
    (tmp_path / "log.json").write_text(json.dumps(content))
    rows = files.read(str(tmp_path / "log.json"))
    assert [row.get("own") for row in rows] == [0.5, 0.5, None, 1.0]
    assert (rows[2]["own.style"], rows[2]["own.length"]) == (0.0, 3.0)


def test_members_that_are_deflated_are_read_too(tmp_path: Path):
    rows = files.read(str(log("*.eval")))
    header = {key: value for key, value in json.loads(log("inspect/*/*.json").read_text()).items()
              if key != "samples"}  # fmt: skip
    samples = json.loads(log("inspect/*/*.json").read_text())["samples"]
    with zipfile.ZipFile(tmp_path / "a.eval", "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("header.json", json.dumps(header))
        opened.writestr("summaries.json", json.dumps(samples))
    again = files.read(str(tmp_path / "a.eval"))
    assert [row["item"] for row in again] == [row["item"] for row in rows]


def test_a_log_that_did_not_end_or_is_cut_is_refused(tmp_path: Path):
    content = json.loads(log("inspect/*/*.json").read_text())
    (tmp_path / "log.json").write_text(json.dumps({**content, "status": "error"}))
    (tmp_path / "cut.eval").write_bytes(log("*.eval").read_bytes()[:2_000])
    for name, error in (("log.json", "status is 'error'"), ("cut.eval", "no whole log")):
        with pytest.raises(ConfigError) as raised:
            files.read(str(tmp_path / name))
        assert error in str(raised.value)
