"""The tutorial's trainers, cut after an epoch: they end with the numbers of a whole run."""

import re

import pytest

from ablate.config import tasks
from ablate.config.identity import make_trial
from ablate.config.resolve import resolve
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.trial.run import TrialRun
from tests.support import places

PAGE = (places.DOCS / "tutorials" / "trainers.md").read_text()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of libraries that are not ours
]


@pytest.fixture
def kinds(monkeypatch):
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))


def ended(name, folder, cut_after=None):
    """Return the journal of a trial of the tutorial's task, killed once after an epoch or not."""
    values = {"task": name, f"{name}.dropout": 0.2, f"{name}.epochs": 3}
    trial = make_trial(resolve(values), values=values, seed=1, corpus_digest="")
    run = TrialRun(trial, Store(str(folder)), "data")
    while not run.advance(seconds=1):
        if len(run.journal.epochs) == cut_after:
            run.save()
            return ended(name, folder)
    return run.journal


@pytest.mark.parametrize("name", ["hf_regression", "lit_regression"])
def test_a_trainer_that_is_cut_ends_with_the_same_numbers(name, kinds, tmp_path):
    file = f"{name.removesuffix('regression')}dropout.py"
    [code] = re.findall(rf"```python\n# file: {file}\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, file, "exec"), {"__name__": file.removesuffix(".py")})
    whole = ended(name, tmp_path / "whole")
    assert whole.outcome.status == Status.COMPLETED, whole.outcome.reason
    cut = ended(name, tmp_path / "cut", cut_after=2)
    assert [epoch.metrics for epoch in cut.epochs] == [epoch.metrics for epoch in whole.epochs]
    assert cut.outcome.metrics == whole.outcome.metrics
