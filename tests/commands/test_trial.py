"""`ablate trial CONFIG` runs whatever a config describes."""

from __future__ import annotations

import pytest

from ablate import cli
from ablate.commands.trial import run_config
from ablate.config import tasks
from ablate.errors import HeldError
from ablate.store import journal as journals
from ablate.store.outcome import Status
from tests.support.claiming import other_process


def test_a_config_of_an_ngram_model_is_counted(workspace, tmp_path, capsys):
    config = tmp_path / "trigram.toml"
    config.write_text(
        'model = "ngram"\n'
        'corpus = { name = "grammar", train_tokens = 2000, eval_tokens = 300 }\n'
        "ngram = { order = 3 }\n"
    )
    assert run_config(str(config), seed=1, threads=1, workspace=workspace) == 0
    assert "valid_ppl" in capsys.readouterr().out
    (journal,) = journals.read_all(workspace.store).values()
    assert journal.status == Status.COMPLETED and "test_nll" in journal.metrics


def test_a_trial_that_another_process_runs_is_refused(workspace, tmp_path, capsys):
    """Its outcome stays, and is shown once it is there."""
    config = tmp_path / "unigram.toml"
    config.write_text(
        'model = "ngram"\n'
        'corpus = { name = "grammar", train_tokens = 2000, eval_tokens = 300 }\n'
        "ngram = { order = 1 }\n"
    )

    def run() -> int:
        return run_config(str(config), seed=1, threads=1, workspace=workspace)

    assert run() == 0
    (trial_id,) = journals.read_all(workspace.store)
    capsys.readouterr()
    with other_process(workspace.store, trial_id) as holds_it:
        assert holds_it and run() == 0 and "valid_ppl" in capsys.readouterr().out
    unfinished = journals.find(workspace.store, trial_id)
    unfinished.outcome = None
    unfinished.write(workspace.store)
    with other_process(workspace.store, trial_id) as holds_it:
        with pytest.raises(HeldError, match=r"run by another process.* the same command again"):
            run()
        assert holds_it and journals.find(workspace.store, trial_id) == unfinished
    assert run() == 0


CODE = """
from dataclasses import dataclass
from ablate import Metric, setting, task
@dataclass(frozen=True, kw_only=True)
class Config:
    rate: float = setting(0.1, doc="rate")
@task("alone_and_edited", config=Config, metrics=Metric("loss"))
def train(run):
    return {"valid_loss": 1.0, "test_loss": 1.0}
"""


def test_a_trial_of_earlier_code_is_not_shown(workspace, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))
    config, code = tmp_path / "config.toml", tmp_path / "alone.py"
    config.write_text('task = "alone_and_edited"\n')
    code.write_text(CODE)
    words = ["trial", str(config), "--code", str(code), "--workspace", str(workspace.folder)]
    assert cli.main(words) == 0
    code.write_text(CODE.replace("def train", "# a comment\ndef train"))
    assert cli.main(words) == 0 and "test_loss 1.0" in capsys.readouterr().out
    code.write_text(CODE.replace('"valid_loss": 1.0', '"valid_loss": 2.0'))
    assert cli.main(words) == 5
    assert "not of today's code: alone.py was edited. Instead: raise" in capsys.readouterr().err
