"""Logs of trackers and launchers, as these wrote them: Ray Tune 2.60, Hydra 1.3, trackio 0.43.

Each has two arms that differ by 0.1 on three seeds, in three steps.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from pathlib import Path

import pytest

import ablate
from ablate.errors import ConfigError
from ablate.judging.event_files import rows as events
from ablate.judging.files import read

WRITTEN = Path(__file__).parent / "trackers"
BY_CONFIG = {"arm": "config.rate", "seed": "config.seed"}


@pytest.fixture
def trackio(tmp_path) -> Path:
    """A project of trackio, from the text of its database."""
    file = tmp_path / "tries.db"
    with sqlite3.connect(file) as database:
        database.executescript((WRITTEN / "trackio.sql").read_text())
    database.close()
    return file


def judged(results: Path | str, *, last: str = "step", **columns: str):
    return ablate.judge(str(results), metric="loss", better="lower", last=last, **columns)


def losses(judgement) -> dict[str, list[float]]:
    return {arm.name: [*arm.values.values()] for arm in judgement.arms}


@pytest.mark.parametrize(
    ("results", "columns"),
    [
        (WRITTEN / "ray_tune", {**BY_CONFIG, "last": "training_iteration"}),
        (f"{WRITTEN}/hydra/*/metrics.csv", {"arm": "rate", "seed": "seed"}),
        ("trackio", {"arm": "config.arm", "seed": "config.seed"}),
    ],
)
def test_the_last_step_of_each_run_counts(results, columns, request):
    results = request.getfixturevalue(results) if results == "trackio" else results
    base, other = losses(judged(results, **columns)).values()
    for one, another in zip(base, other, strict=True):
        assert abs(one - another) == pytest.approx(0.1, abs=1e-6)
    assert len(base) == 3


def test_event_files_say_what_ray_tune_says(tmp_path):
    """Ray Tune writes both, here by tensorboardX."""
    for written in WRITTEN.glob("ray_tune/*/events*"):
        (tmp_path / written.parent.name).mkdir()
        shutil.copy(written, tmp_path / written.parent.name)
    ours = {(row["folder.1"], row["step"]): row["ray/tune/loss"] for row in read(str(tmp_path))}
    theirs = {
        (row["folder.1"], row["training_iteration"]): row["loss"]
        for row in read(str(WRITTEN / "ray_tune"))
    }
    assert len(ours) == 18 and ours == pytest.approx(theirs, rel=1e-6)  # they are of 32 bits


def test_an_event_file_that_is_cut_off_lacks_steps_and_a_changed_one_is_refused(tmp_path):
    (written,) = (WRITTEN / "ray_tune" / "trial_00000").glob("events*")
    whole, data = events(written), written.read_bytes()
    file = tmp_path / "events.out.tfevents.1"
    file.write_bytes(data[: len(data) // 2])
    cut = [row["ray/tune/loss"] for row in events(file)]
    assert len(whole) == 3 and cut == [row["ray/tune/loss"] for row in whole[: len(cut)]]
    assert 0 < len(cut) < 3
    for at in (10, len(data) // 2, len(data) - 2):
        file.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        with pytest.raises(ConfigError, match="a checksum does not match"):
            read(str(file))


def test_a_trial_that_failed_or_ended_early_is_named(tmp_path):
    shutil.copytree(WRITTEN / "ray_tune", tmp_path / "tries")
    (tmp_path / "tries" / "trial_00001" / "error.txt").write_text("no")
    short = tmp_path / "tries" / "trial_00002" / "result.json"
    short.write_text("".join(short.read_text().splitlines(keepends=True)[:2]))
    judgement = judged(tmp_path / "tries", last="training_iteration", **BY_CONFIG)
    text = re.sub(r"\n +", " ", str(judgement))
    assert "Runs that did not finish do not count: 0.2 seed 1 (failed)." in text
    assert "Not all runs end at training_iteration 3: 0.1 seed 2 at 2." in text


def test_steps_without_the_metric_are_not_the_last(tmp_path):
    """A log has rows of training too; an empty cell is a run that diverged."""
    rows = [
        {"a": arm, "seed": seed, "step": step, **({"loss": seed} if step == 1 else {})}
        for arm in "xy"
        for seed in (1, 2, 3)
        for step in (1, 2)
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    known = losses(judged(tmp_path / "log.jsonl", arm="a", seed="seed"))
    assert [*known.values()] == [[1, 2, 3], [1, 2, 3]]
