"""The tutorial's script under torchrun: cut after an epoch, and with a process that dies."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from ablate.config import tasks
from ablate.config.identity import make_trial
from ablate.config.resolve import resolve
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.trial.run import TrialRun
from ablate.trial.user.user_code import executed
from tests.support import places, trials

PAGE = (places.DOCS / "tutorials" / "torchrun.md").read_text()
[JOINED] = re.findall(r"model = DistributedDataParallel\(model\)", PAGE)
[SHARDED] = re.findall(r"fully_shard\(model\)(?=  # instead)", PAGE)
IMPORTED = "from torch.distributed.fsdp import fully_shard"
READ = "inputs, labels = lines(1, 256, device)"
DIES = f'if rank == 1:\n        raise ValueError("rank 1 has no data")\n    {READ}'
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


def edit(folder: Path, old: str, new: str) -> None:
    script = folder / "train_together.py"
    text = script.read_text()
    assert old in text
    script.write_text(text.replace(old, new))


def test_processes_that_are_cut_end_with_the_same_bits(folder):
    """Whoever goes on after an epoch, data parallel or sharded, ends as those that were not cut."""
    run = started(folder, "whole")
    while not run.journal.epochs:
        run.advance(seconds=1)
    run.save()
    for how in ("data parallel", "sharded"):
        shutil.copytree(folder / "whole", folder / how)
    whole = trials.ended(run)
    assert whole.status == Status.COMPLETED, whole.outcome
    for how in ("data parallel", "sharded"):
        if how == "sharded":
            edit(folder, JOINED, SHARDED)
            edit(folder, "from torch import nn\n", f"from torch import nn\n{IMPORTED}\n")
        cut = trials.ended(started(folder, how))
        assert len(cut.attempts) == 2
        assert [epoch.metrics for epoch in cut.epochs] == [epoch.metrics for epoch in whole.epochs]
        assert cut.outcome.metrics == whole.outcome.metrics


def test_a_process_that_dies_is_one_failure_with_its_reason(folder):
    edit(folder, READ, DIES)
    journal = trials.ended(started(folder, "store"))
    assert journal.status == Status.FAILED
    assert "ended with status 1: ValueError: rank 1 has no data" in journal.outcome.reason
