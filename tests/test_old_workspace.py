"""A workspace that version 0.1.0 wrote, before its files were moved, opens and resumes as before.

`golden/workspace_0.1.0.tar.xz` was made by commit dbf9005: two studies, their files, the store and
MLflow's database. The store lacks one trial of `asked@s`, which had run and been recorded.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import ablate
from ablate.cli import main
from ablate.store import journal as journals
from ablate.store.store import Store
from ablate.study.file import load
from ablate.study.plan import make_plan
from tests.support import places

ARCHIVE = places.GOLDEN / "workspace_0.1.0.tar.xz"
MISSING = "e2321995814f60bb"  # clipped, seed 3
RECORDED = "00b27cd8cbb29f21"  # plain, seed 3


@pytest.fixture
def folder(tmp_path: Path, data: str) -> Path:
    shutil.unpack_archive(ARCHIVE, tmp_path, filter="data")
    (tmp_path / "workspace" / "data").symlink_to(data)
    return tmp_path


@pytest.fixture
def status_and_output(folder, capsys):
    """`ablate` in this process, on the old workspace."""

    def command(*arguments: str) -> tuple[int, str]:
        status = main([*arguments, "--workspace", str(folder / "workspace")])
        out, err = capsys.readouterr()
        return status, out + err * bool(status)

    return command


@pytest.fixture
def run(status_and_output):
    def command(*arguments: str) -> str:
        status, output = status_and_output(*arguments)
        assert status == 0, output
        return output

    return command


def old_table(folder: Path, study: str) -> str:
    """The table as version 0.1.0 printed it, all trials done."""
    return (folder / f"workspace/store/studies/{study}/results/files/table.txt").read_text()


def numbers(table: str, arm: str) -> list[str]:
    """The numbers of an arm's row in a table's first part, without marks of the best."""
    row = next(line for line in table.splitlines() if re.match(rf"{arm}\s", line))
    return re.findall(r"[\d.]+", row.removeprefix(arm))


def files(store: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (store / "trials").rglob("*") if path.is_file()}


def test_status_counts_its_trials(run):
    counts = {
        line.split()[0]: line.split()[1:] for line in run("status").splitlines() if "@" in line
    }
    assert counts == {"asked@s": ["5", "of", "6", "1"], "counted@s": ["9", "of", "9", "0"]}


def test_its_table_has_the_same_numbers(run, folder):
    table, old = run("table", "counted"), old_table(folder, "counted@s")
    # Means and spreads: parts of a table and words of verdicts have changed since.
    whole = run("table", "counted", "--columns")
    for arm in ("a", "b", "kn"):
        assert numbers(whole, arm)[:6] == numbers(old, arm)[:6]
        assert numbers(table, arm)[:1] == numbers(old, arm)[:1]
    unfinished = run("table", "asked", "--columns")
    assert numbers(unfinished, "plain")[:2] == ["3", "3"]  # of its trials
    assert numbers(unfinished, "plain")[2:] == numbers(old_table(folder, "asked@s"), "plain")


def test_resuming_runs_the_missing_trial_and_keeps_the_others(run, folder, monkeypatch):
    monkeypatch.chdir(folder)
    store = Store(str(folder / "workspace" / "store"))
    before, old = files(folder / "workspace/store"), old_table(folder, "asked@s")
    assert journals.read(store, MISSING) is None
    run("study", "asked.py", "--local")
    after = files(folder / "workspace/store")
    assert {path.parent.name for path in after.keys() - before.keys()} >= {MISSING}
    assert {path: after[path] for path in before} == before
    trial = journals.read(store, MISSING)
    assert trial is not None and trial.status == "completed"
    assert (trial.trial.arm, trial.trial.seed) == ("clipped", 3)
    table = run("table", "asked", "--columns")
    assert numbers(table, "plain") == numbers(old, "plain")
    means = zip(numbers(table, "clipped")[:6], numbers(old, "clipped")[:6], strict=True)
    for now, then in means:  # differences were in perplexity then, and are in percent now
        assert float(now) == pytest.approx(float(then), rel=0.1), table  # another processor's bits


def test_a_recorded_trial_can_be_repeated(status_and_output, folder):
    """The same bits on the processor that recorded it; elsewhere the difference is printed."""
    status, output = status_and_output("rerun", RECORDED[:8])
    recorded = journals.read(Store(str(folder / "workspace" / "store")), RECORDED)
    assert recorded is not None and recorded.outcome is not None
    shown = [float(nats) for nats in re.findall(r"train ([\d.]+) nats", output)]
    losses = [epoch.metrics["train_nll"] for epoch in recorded.epochs]
    assert shown == pytest.approx(losses, abs=1e-3)
    if status:
        assert repr(recorded.metrics["test_nll"]) in output
    else:
        assert "agree" in output


def test_provenance_of_a_table_made_then(run):
    assert MISSING in run("provenance", "c46d3344")


def test_a_runner_named_by_its_old_import_path(folder, data, tmp_path):
    """It is the same runner: its trials keep their ids, and it runs."""
    study = load(folder / "counted.py")
    assert study.runner == "stand_in"
    old = ablate.load("counted", workspace=str(folder / "workspace"))
    store = Store(str(folder / "workspace" / "store"))
    result = journals.read_all(store, [trial.id for trial in make_plan(study, data=data).trials])
    assert len(result) == 9
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "data").symlink_to(data)
    new = ablate.run(study, workspace=str(tmp_path / "new"), local=True)
    assert [arm.cells for arm in new.arms] == [arm.cells for arm in old.arms]
