"""What a task prints and logs is in its journal, without secrets, and still printed."""

from __future__ import annotations

import io
import logging
import sys
from dataclasses import dataclass

import pytest

from ablate.commands.status import _troubles
from ablate.config import tasks
from ablate.config.identity import make_trial
from ablate.config.metrics import Metric
from ablate.config.resolve import resolve
from ablate.config.tasks import task
from ablate.store import journal as journals
from ablate.store.store import Store
from ablate.trial.output import LONGEST_LINE, MOST_LINES, Output
from ablate.trial.run import TrialRun


@dataclass(frozen=True, kw_only=True)
class Config:
    pass


def ended(function, tmp_path, monkeypatch) -> journals.Journal:
    """The journal in the store of a trial of this function."""
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))
    task("loud", config=Config, metrics=Metric("accuracy", better="higher"))(function)
    values = {"task": "loud"}
    trial = make_trial(resolve(values), values=values, seed=1, corpus_digest="")
    store = Store(str(tmp_path / "store"))
    run = TrialRun(trial, store, str(tmp_path))
    while not run.advance(seconds=0).done:
        pass
    journal = journals.read(store, trial.id)
    assert journal is not None
    return journal


def test_what_a_task_says_is_recorded_and_still_printed(tmp_path, monkeypatch, capsys):
    logger, stream = logging.getLogger("mine"), logging.StreamHandler()  # writes to stderr
    logger.addHandler(stream)

    def says(run):
        print("starting", run.seed)
        for epoch in (1, 2):
            logger.warning("epoch %d", epoch)
            yield {"valid_accuracy": 0.5}
        print("half a line", end="", file=sys.stderr)
        return {"test_accuracy": 0.5}

    journal = ended(says, tmp_path, monkeypatch)
    logger.removeHandler(stream)
    assert journal.output == ("starting 1", "epoch 1", "epoch 2", "half a line")
    printed = capsys.readouterr()
    assert printed.out == "starting 1\n"
    assert printed.err == "epoch 1\nepoch 2\nhalf a line"
    assert _troubles({journal.trial.id: journal}) == []


def test_it_is_shown_if_the_trial_fails_and_has_no_secret(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MY_TOKEN", "not-for-everyone")

    def fails(run):
        print("the token is not-for-everyone")
        raise ValueError("no")

    journal = ended(fails, tmp_path, monkeypatch)
    shown = _troubles({journal.trial.id: journal})
    at = shown.index("  Its last output:")
    assert shown[at + 1] == "    the token is ***"
    file = tmp_path / "store" / journals.key(journal.trial.id)
    assert "not-for-everyone" not in file.read_text()


def test_a_quiet_task_has_no_output_and_old_journals_have_none(tmp_path, monkeypatch):
    journal = ended(lambda run: {"valid_accuracy": 0, "test_accuracy": 0}, tmp_path, monkeypatch)
    assert "output" not in journal.attempts[-1].to_plain()
    assert journal.output == ()


def test_it_is_bounded():
    output = Output()
    for number in range(1000):
        output.hear("stdout", f"line {number}\n{'x' * 20_000}")
    assert len(output.lines) == MOST_LINES
    assert max(map(len, output.lines)) == LONGEST_LINE


@pytest.mark.parametrize(
    "texts, lines",
    [
        (["a", "b\nc", "\n"], ["ab", "c"]),
        (["\r 10%", "\r 50%", "\r100%\n"], ["100%"]),
        (["one\r", "two\r"], ["two"]),
        (["\n\n \n"], []),
    ],
)
def test_lines(texts, lines):
    output = Output()
    for text in texts:
        output.hear("stderr", text)
    assert output.lines == lines


def test_whoever_keeps_or_replaces_a_stream_is_left_alone(monkeypatch):
    output, stream = Output(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    with output.listening():
        kept = sys.stdout
        handler = logging.StreamHandler(kept)
        logging.getLogger("late").addHandler(handler)
        print("heard")
    assert sys.stdout is stream and handler.stream is stream
    logging.getLogger("late").removeHandler(handler)
    print("not heard", file=kept)
    with output.listening():
        sys.stdout = other = io.StringIO()
    assert sys.stdout is other
    assert output.lines == ["heard"] and stream.getvalue() == "heard\nnot heard\n"
