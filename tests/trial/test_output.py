"""What a task prints and logs is in its journal, without secrets, and still printed."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import threading
from collections import deque
from dataclasses import dataclass

import pytest
from rich.console import Console
from rich.file_proxy import FileProxy

from ablate.commands.status import _troubles, show_log
from ablate.config import tasks
from ablate.config.identity import make_trial
from ablate.config.metrics import Metric
from ablate.config.resolve import resolve
from ablate.config.tasks import task
from ablate.engine.failures import last_output
from ablate.errors import TrialError
from ablate.store import journal as journals
from ablate.store import printed
from ablate.store.outcome import Outcome, Status
from ablate.store.store import Store
from ablate.trial.output import LONGEST_LINE, MOST_LINES, MOST_WAITING, Output
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
    while not run.advance(seconds=0):
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


def test_it_is_stored_by_trial_and_of_a_failure_the_traceback(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MY_TOKEN", "not-for-everyone")

    def fails(run):
        print("\nthe token is not-for-everyone")
        print("careful", file=sys.stderr)
        print("50%\r100%", end="")
        yield {"valid_accuracy": 0.5}
        raise ValueError("no")

    journal = ended(fails, tmp_path, monkeypatch)
    text = printed.read(Store(str(tmp_path / "store")), journal.trial.id)
    assert text is not None
    before, _, traceback = text.partition("  File ")
    assert before == "\nthe token is ***\ncareful\n100%\n"
    assert traceback.endswith("ValueError: no\n") and traceback.count("ValueError: no") == 1


def test_a_second_attempt_adds_to_what_the_first_one_printed(tmp_path):
    store = Store(str(tmp_path))
    for number in (1, 2):
        output = Output(store, "a")
        output.hear("stdout", f"attempt {number}\n")
        output.end("")
    text = printed.read(store, "a")
    assert text is not None
    first, between, last = text.splitlines()
    assert (first, last) == ("attempt 1", "attempt 2") and between.startswith("[another attempt, ")


def test_it_is_stored_while_a_trial_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("ablate.trial.output.WRITE_SECONDS", 0.0)
    output = Output(Store(str(tmp_path)), "a")
    output.hear("stdout", "before it hangs\n")
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join()
    assert printed.read(Store(str(tmp_path)), "a") == "before it hangs\n"


def test_what_is_printed_during_a_write_is_stored_by_a_later_one(tmp_path):
    output = Output(Store(str(tmp_path)), "a")

    class Lines(deque):
        def popleft(self):
            if not begun:
                begun.append(printing := threading.Thread(target=print_much, daemon=True))
                printing.start()
                printing.join(5)
            return super().popleft()

    def print_much():
        output.hear("stdout", "during\n" * 2 * MOST_WAITING)
        ended.set()

    begun, ended = list[threading.Thread](), threading.Event()
    output._new = Lines()
    output.hear("stdout", "before\n")
    output.write()
    assert ended.is_set(), "a trial waits for no write"
    output.write()
    text = printed.read(Store(str(tmp_path)), "a")
    assert text == "before\n" + "during\n" * 2 * MOST_WAITING


def test_a_trial_that_prints_nothing_writes_nothing(tmp_path, monkeypatch):
    journal = ended(lambda run: {"valid_accuracy": 0, "test_accuracy": 0}, tmp_path, monkeypatch)
    assert printed.read(Store(str(tmp_path / "store")), journal.trial.id) is None
    assert not list((tmp_path / "store").rglob("printed.json"))


def test_loggers_that_were_made_before_a_display_began_write_above_it():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger("early").addHandler(handler)
    output, console = Output(), Console(file=stream, force_terminal=True)
    proxy = FileProxy(console, stream)
    with contextlib.redirect_stderr(proxy), output.listening():  # type: ignore[type-var]
        logging.getLogger("early").warning("heard")
        assert handler.stream is sys.stderr
    assert handler.stream is stream and output.lines == ["heard"]
    logging.getLogger("early").removeHandler(handler)


def test_status_shows_what_a_trial_printed(tmp_path, monkeypatch):
    def says(run):
        print("hello")
        return {"valid_accuracy": 0, "test_accuracy": 0}

    journal = ended(says, tmp_path, monkeypatch)
    store, trial = Store(str(tmp_path / "store")), journal.trial
    assert show_log(store, trial.id[:6]) == f"{trial.name} ({trial.id}): completed\nhello"
    with pytest.raises(TrialError, match="Name it by its id"):
        show_log(store, None)


def test_an_output_that_a_reason_shows_is_not_shown_again(tmp_path, monkeypatch):
    def says(run):
        print("one\ntwo")
        return {"valid_accuracy": 0, "test_accuracy": 0}

    journal = ended(says, tmp_path, monkeypatch)
    assert last_output(journal) == ["  Its last output:", "    one", "    two"]
    journal.outcome = Outcome(status=Status.FAILED, reason="it failed\none\ntwo")
    assert last_output(journal) == []
