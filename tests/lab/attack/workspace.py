"""A small workspace with every kind of durable file, and what is in it when nothing is damaged."""

from __future__ import annotations

import contextlib
import io
import random
import re
import shutil
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ablate import cli
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.store import Store
from ablate.store.workspace import Workspace, open_workspace
from ablate.study.file import load
from ablate.study.plan import make_plan
from ablate.tune import local
from ablate.tune.listener import Listener
from ablate.tune.schedule import Schedule
from ablate.tune.search.arm import open_search
from tests.support.small_studies import order_in

STUDY = """
from ablate import Analyze, Arm, Scale, Search, Stage, Study, table

BASE = {{
    "embedding.size": 4,
    "backbone": "lstm",
    "backbone.num_layers": 1,
    "backbone.units": 4,
    "head": "softmax",
    "optimizer": "sgd",
    "optimizer.learning_rate": 1.0,
    "training.epochs": 2,
    "training.batch_size": 4,
    "training.window": 20,
}}
study = Study(
    question="Does it last?", base=BASE, base_arm="a",
    design=table(Arm("a"), Arm("b", {{"training.clip": 0.25}})),
    analyses=(Analyze("learning_curve", ("a", "b")),),
    scales={{"s": Scale(
        corpus="folder:{text}",
        seeds=1,
        search=Search(space="rates.toml", trials=2),
        hours=50,
        stages=(Stage("finetune", {{"training.epochs": 2}}),),
    )}},
)
"""
RATES = """
paper = "none"
tables = ["T"]

["Rate"]
field = "optimizer.learning_rate"
range = [0.1, 10.0]
scale = "log"
"""
KEY = "asked@s"
CUTS = {"searching": 3, "training": 13}  # epochs before the cut, which is in the middle of a trial
TIMES = re.compile(r"\d+m\d+s|\b\d+(\.\d+)? ?(ms|s|min|h)\b")


@dataclass(frozen=True)
class Said:
    """What a command printed, and how it ended."""

    status: int
    out: str
    error: str


def ablate(*words: str) -> Said:
    """Run a command in this process."""
    out, error, before = io.StringIO(), io.StringIO(), set(threading.enumerate())
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            status = cli.main(words)
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else 1
    _wait_for_records(before)
    return Said(status, out.getvalue(), error.getvalue())


def _wait_for_records(before: set[threading.Thread]) -> None:
    """Wait until no recorder of this command writes into the workspace."""
    for thread in set(threading.enumerate()) - before:
        if thread.name == "ablate-records":
            thread.join()


class Cut(Listener):
    """Stops the schedule after some epochs, as Ctrl-C does."""

    def __init__(self, epochs: int) -> None:
        self.schedule: Schedule | None = None
        self.left = epochs

    def progress(self, trial_id: str, epoch: Any, reached: Any = None) -> None:
        self.left -= epoch is not None
        if self.left == 0 and self.schedule is not None:
            self.schedule.stop_reason = "cut"


@dataclass(frozen=True)
class Pristine:
    """Undamaged copies of the workspace: one finished, the others cut in the middle of a trial."""

    folder: Path

    @property
    def study(self) -> str:
        return str(self.folder / "asked.py")

    @property
    def work(self) -> Path:
        """The workspace that commands use: records name it by its path."""
        return self.folder / "work"

    @property
    def workspace(self) -> Workspace:
        return open_workspace(str(self.work))

    def restore(self, which: str) -> None:
        """Make the workspace what it was: "finished", or a name of `CUTS`."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.folder / which, self.work)

    def keep(self, which: str) -> None:
        shutil.copytree(self.work, self.folder / which)

    def expected(self, words: Sequence[str]) -> str:
        """What a command says when nothing is damaged."""
        if words not in self._expected:
            self.restore("finished")
            self._expected[words] = without_times(ablate(*words, "--workspace", str(self.work)).out)
        return self._expected[words]

    @cached_property
    def _expected(self) -> dict[Sequence[str], str]:
        return {}

    @cached_property
    def undamaged(self) -> Store:
        """The store of the finished workspace, which no command touches."""
        return Store(str(self.folder / "finished" / "store"))

    @cached_property
    def results(self) -> Any:
        return results(self.undamaged)

    @cached_property
    def finals(self) -> list[str]:
        """The trials whose results the table shows."""
        return finals(self.undamaged)

    @cached_property
    def trained(self) -> str:
        """A finished trial that saved weights."""
        return self._of_parent(False)

    @cached_property
    def child(self) -> str:
        """A finished trial that builds on another's weights."""
        return self._of_parent(True)

    def _of_parent(self, has_parents: bool) -> str:
        known = journals.read_all(self.undamaged)
        return next(
            name
            for name, journal in sorted(known.items())
            if bool(journal.trial.parents) == has_parents and journal.trial.stage != "search"
        )

    @cached_property
    def table(self) -> str:
        """The hash of an exported table."""
        return next((self.folder / "finished/store/tables").iterdir()).stem

    @cached_property
    def runs(self) -> list[tuple[str, int]]:
        return runs_by_trial(self.folder / "finished/mlflow.db")


def build(folder: Path) -> Pristine:
    """Run the study, and keep the workspace as it is when it is cut and at the end."""
    _write_texts(folder / "text")
    (folder / "asked.py").write_text(STUDY.format(text=folder / "text"))
    (folder / "rates.toml").write_text(RATES)
    made = Pristine(folder)
    before = 0
    for name, epochs in CUTS.items():
        _run_cut(made, epochs - before)
        made.keep(name)
        before = epochs
    run_study(made)
    for words in (
        ("query", QUERY),
        ("table", KEY, "--format", "latex"),
        ("tokens", *finals(made.workspace.store), "--split", "test"),
    ):
        said = ablate(*words, "--workspace", str(made.work))
        if said.status != 0:
            raise RuntimeError(f"{words}: {said.error}")
    made.keep("finished")
    return made


QUERY = "SELECT trial, arm, seed, status, valid_nll FROM trials ORDER BY trial"


def finals(store: Store) -> list[str]:
    record = study_record.read(store, KEY)
    return [planned.id for planned in record.trials if planned.final]


def run_study(made: Pristine) -> None:
    said = ablate("study", made.study, "--local", "--workspace", str(made.work))
    if said.status != 0:
        raise RuntimeError(said.error)


def _run_cut(made: Pristine, epochs: int) -> None:
    workspace, listener = made.workspace, Cut(epochs)
    plan = make_plan(load(made.study), "s", data=workspace.data)
    schedule = Schedule(plan, workspace.store, open_search(workspace.searches), listener)
    listener.schedule = schedule
    local.run(schedule, order_in(workspace))


def _write_texts(folder: Path) -> None:
    draws = random.Random(17)
    folder.mkdir(parents=True)
    for split, num in (("train", 150), ("valid", 30), ("test", 30)):
        lines = (" ".join(draws.choices(["a", "b", "c", "d", "e", "f"], k=8)) for _ in range(num))
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n")


def results(store: Store) -> dict[str, Any]:
    """Each trial's results, without the times that they took, and what each search has found."""
    record = study_record.read(store, KEY)
    found: dict[str, Any] = {
        name: (
            journal.status,
            dict(journal.metrics),
            journal.outcome and journal.outcome.digest,
            [(epoch.number, epoch.metrics["valid_nll"]) for epoch in journal.epochs],
        )
        for name, journal in journals.read_all(store, record.trial_ids()).items()
    }
    found["searches"] = [(search.arm, search.trials, search.chosen) for search in record.searches]
    found["planned"] = record.trials
    return found


def without_times(text: str) -> str:
    return " ".join(TIMES.sub("TIME", text).split())


def runs_by_trial(database: Path) -> list[tuple[str, int]]:
    """How many runs each trial has in the records."""
    query = (
        "select value, count(*) from tags join runs using (run_uuid) where key = 'ablate.trial' "
        "and lifecycle_stage = 'active' group by value order by value"
    )
    with contextlib.closing(sqlite3.connect(database)) as db:
        try:
            return list(db.execute(query))
        except sqlite3.OperationalError:  # nothing was recorded
            return []
