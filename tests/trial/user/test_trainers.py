"""The tutorial's trainers, cut after an epoch: they end with the numbers of a whole run."""

import re
import shutil

import pytest

from ablate.config import tasks
from ablate.config.identity import make_trial
from ablate.config.resolve import resolve
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.trial.run import TrialRun
from tests.support import places, trials

PAGE = (places.DOCS / "tutorials" / "trainers.md").read_text()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of libraries that are not ours
]


@pytest.fixture
def kinds(monkeypatch):
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))


def started(name, folder):
    values = {"task": name, f"{name}.dropout": 0.2, f"{name}.epochs": 2}
    trial = make_trial(resolve(values), values=values, seed=1, corpus_digest="")
    return TrialRun(trial, Store(str(folder)), "data")


@pytest.mark.parametrize("name", ["hf_regression", "lit_regression"])
def test_a_trainer_that_is_cut_ends_with_the_same_numbers(name, kinds, tmp_path):
    file = f"{name.removesuffix('regression')}dropout.py"
    [code] = re.findall(rf"```python\n# file: {file}\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, file, "exec"), {"__name__": file.removesuffix(".py")})
    run = started(name, tmp_path / "whole")
    while not run.journal.epochs:
        run.advance(seconds=1)
    run.save()
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    whole = trials.ended(run)
    assert whole.outcome.status == Status.COMPLETED, whole.outcome.reason
    cut = trials.ended(started(name, tmp_path / "cut"))
    assert len(cut.attempts) == 2
    assert [epoch.metrics for epoch in cut.epochs] == [epoch.metrics for epoch in whole.epochs]
    assert cut.outcome.metrics == whole.outcome.metrics
