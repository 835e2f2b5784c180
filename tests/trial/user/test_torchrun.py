"""The tutorial's script under torchrun: cut after an epoch, and with a process that dies."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ablate.config import tasks
from ablate.config.identity import make_trial
from ablate.config.resolve import resolve
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.trial.run import TrialRun
from ablate.trial.user.user_code import executed
from tests.support import places

PAGE = (places.DOCS / "tutorials" / "torchrun.md").read_text()
[JOINED] = re.findall(r"model = DistributedDataParallel\(model\)", PAGE)
[SHARDED] = re.findall(r"fully_shard\(model\)(?=  # instead)", PAGE)
IMPORTED = "from torch.distributed.fsdp import fully_shard"
DIES = """if rank == 1 and epoch == 2:
            raise ValueError("rank 1 has no data")
        """
pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))
    for name, text in re.findall(r"```python\n# file: (\S+)\n(.*?)```", PAGE, re.DOTALL):
        (tmp_path / name).write_text(text)
    executed(tmp_path / "together.py", "together")
    return tmp_path


def started(folder: Path, store: str) -> TrialRun:
    values = {"task": "together", "together.dropout": 0.2}
    trial = make_trial(resolve(values), values=values, seed=1, corpus_digest="", reads_test=True)
    return TrialRun(trial, Store(str(folder / store)), "data")


def ended(folder: Path, store: str, cut_after: int | None = None):
    """Return the journal of a trial, cut once after an epoch or not."""
    run = started(folder, store)
    while not run.advance(seconds=1):
        if len(run.journal.epochs) == cut_after:
            run.save()
            return ended(folder, store)
    return run.journal


def edit(folder: Path, old: str, new: str) -> None:
    script = folder / "train_together.py"
    text = script.read_text()
    assert old in text
    script.write_text(text.replace(old, new))


@pytest.mark.parametrize("how", ["data parallel", "sharded"])
def test_processes_that_are_cut_end_with_the_same_bits(how, folder):
    if how == "sharded":
        edit(folder, JOINED, SHARDED)
        edit(folder, "from torch import nn\n", f"from torch import nn\n{IMPORTED}\n")
    whole, cut = ended(folder, "whole"), ended(folder, "cut", cut_after=1)
    assert whole.status == Status.COMPLETED, whole.outcome
    assert len(cut.attempts) == 2
    assert [epoch.metrics for epoch in cut.epochs] == [epoch.metrics for epoch in whole.epochs]
    assert cut.outcome.metrics == whole.outcome.metrics


def test_a_process_that_dies_is_one_failure_with_its_reason(folder):
    edit(folder, "loss = evaluated(model, lines(2", f"{DIES}loss = evaluated(model, lines(2")
    journal = ended(folder, "store")
    assert journal.status == Status.FAILED
    assert "ended with status 1: ValueError: rank 1 has no data" in journal.outcome.reason
