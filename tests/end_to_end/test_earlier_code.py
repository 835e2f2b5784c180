"""A study that meets trials of other code, defaults or data stops, and is told what to do."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from ablate.store import journal as journals
from ablate.store.attempt import Attempt

HELPERS = """
import os
def loss(rate):
    return 2 * rate + float(os.environ.get("BIAS_OF_LOSS", 0))
"""
STUDY = """
import importlib
from dataclasses import dataclass
from pathlib import Path
import pyarrow
from pyarrow import csv
import settings_of_toy
from arms_of_toy import HIGH
from ablate import Arm, Metric, Scale, Study, Search, table, task
from helpers_of_toy import loss

more = importlib.import_module("more_of_" + "toy")

@task("toy", config=settings_of_toy.Config, metrics=Metric("loss"))
def train(run):
    here = Path(__file__).parent
    words = (here / "words.txt").read_text()
    bias = more.BIAS + csv.read_csv(here / "data" / "bias.csv")["bias"][0].as_py()
    found = loss(run.config.rate) + len(words) + bias + 0.01 * (run.seed % 3) * run.config.rate
    csv.write_csv(pyarrow.table({"loss": [found]}), here / "output.csv")
    yield {"valid_loss": found}
    return {"test_loss": found}

study = Study(
    question="Is it noticed?", base={"task": "toy"}, base_arm="base",
    design=table(Arm("base"), Arm("high", {"toy.rate": HIGH})),
    scales={"s": Scale(seeds=2)},
)
"""
CONFIG = """
from dataclasses import dataclass
from ablate import setting
@dataclass(frozen=True, kw_only=True)
class Config:
    rate: float = setting(0.1, doc="rate")
"""


class Toy:
    """A study with a task of its own, its modules and its data, run in other processes."""

    def __init__(self, place: Any) -> None:
        self.place, self.folder, self.seconds = place, Path(place.folder), int(time.time())
        for name, text in (
            ("helpers_of_toy", HELPERS),
            ("settings_of_toy", CONFIG),
            ("more_of_toy", "BIAS = 1.0"),
            ("arms_of_toy", "HIGH = 0.5"),
            ("toy", STUDY),
        ):
            place.write(f"{name}.py", text)
        (self.folder / "words.txt").write_text("one two")
        (self.folder / "data").mkdir()
        (self.folder / "data" / "bias.csv").write_text("bias\n1\n")

    def edit(self, name: str, old: str, new: str) -> None:
        file = self.folder / name
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))
        # Python takes compiled code for that of any file of the same size and second.
        self.seconds += 2
        os.utime(file, (self.seconds, self.seconds))

    def ablate(self, *arguments: str, **env: str) -> Any:
        return self.place.ablate(*arguments, env={"PYTHONPATH": str(self.folder), **env})

    def study(self, *options: str, **env: str) -> Any:
        options = options or ("--local",)
        return self.ablate("study", "toy.py", *options, **env)

    @property
    def journals(self) -> dict[str, journals.Journal]:
        return journals.read_all(self.place.store)

    def lowest(self) -> float:
        """The lowest loss on record, as SQL has it."""
        asked = self.ablate("query", "SELECT min(valid_loss) AS low FROM trials", "--format", "csv")
        return float(asked.out.split()[-1])


@pytest.fixture
def toy(place) -> Toy:
    return Toy(place)


EDITS = {
    "a module": ("helpers_of_toy.py", "2 * rate", "3 * rate"),
    "a module of a computed name": ("more_of_toy.py", "1.0", "2.0"),
    "the function": ("toy.py", "0.01 *", "0.02 *"),
    "a file": ("words.txt", "two", "two three"),
    "a file that C++ opens": ("data/bias.csv", "1", "2"),
}
DEFAULT = ("settings_of_toy.py", "setting(0.1", "setting(0.2")


@pytest.mark.slow
def test_an_edit_of_whatever_made_a_trial_stops_the_study_before_it_trains(toy) -> None:
    toy.study().succeeded()
    before = toy.journals
    assert len(before) == 4
    for edit in EDITS.values():
        toy.edit(*edit)
    stopped = toy.study(BIAS_OF_LOSS="123456")
    assert stopped.status == 2 and "--keep" in stopped.err
    for file, *_ in EDITS.values():
        assert f"{file} was edited: 2 trials of base, 2 trials of high" in stopped.err
    told = "$BIAS_OF_LOSS has another value: 2 trials of base, 2 trials of high"
    assert told in stopped.err
    for file, old, new in EDITS.values():
        toy.edit(file, new, old)
    toy.edit(*DEFAULT)
    stopped = toy.study()
    assert stopped.status == 2 and "toy.rate was 0.1, and is 0.2: 2 trials of base" in stopped.err
    toy.edit(DEFAULT[0], DEFAULT[2], DEFAULT[1])
    assert toy.journals == before
    toy.edit("helpers_of_toy.py", "import os", "import os  # a comment\n")
    toy.edit("arms_of_toy.py", "HIGH = 0.5", "HIGH, HIGHER = 0.5, 0.7")  # the study's alone
    again = toy.study()
    again.succeeded()
    assert "nothing is left to do, all 4 trials are done" in again.out
    assert toy.journals == before


@pytest.mark.slow
def test_kept_trials_are_named_and_trained_again_they_are_as_new(toy) -> None:
    toy.study().succeeded()
    first, before = toy.lowest(), toy.journals
    toy.edit("helpers_of_toy.py", "2 * rate", "4 * rate")
    toy.edit("toy.py", "Scale(seeds=2)", "Scale(seeds=3)")
    note = "4 of 6 trials are of earlier code: helpers_of_toy.py."
    kept = toy.study("--local", "--keep")
    kept.succeeded()
    assert note in kept.out and note in toy.ablate("table", "toy").out
    assert {**toy.journals, **before} == toy.journals  # and two more
    assert "resume with" not in kept.out and toy.study().status == 2

    exported = toy.ablate("table", "toy", "--format", "markdown").out
    digest = exported.rpartition("ablate table provenance ")[2][:16]
    told = toy.ablate("provenance", digest).out
    assert "  4 trials: " in told and "  2 trials: " in told and "words.txt" in told
    assert f"; pyarrow {pyarrow.__version__}; " in told, "of the task's own libraries"
    page = toy.ablate("report", "toy")
    page.succeeded()
    assert note in (toy.place.workspace / "studies" / "toy@s" / "report.html").read_text()

    again = toy.study("--local", "--again")
    again.succeeded()
    assert "4 of 6" not in again.out and "of earlier code" not in toy.ablate("table", "toy").out
    assert toy.lowest() == min(j.metrics["valid_loss"] for j in toy.journals.values()) > first
    assert toy.study().status == 0


@pytest.mark.slow
def test_an_arm_that_lists_the_new_default_does_not_get_trials_of_the_old(toy) -> None:
    toy.study().succeeded()
    toy.edit("settings_of_toy.py", "setting(0.1", "setting(0.2")
    toy.edit("toy.py", 'Arm("high", {"toy.rate": HIGH})', 'Arm("same", {"toy.rate": 0.2})')
    stopped = toy.study()
    assert stopped.status == 2 and "toy.rate was 0.1, and is 0.2: 2 trials of base" in stopped.err


COMMAND = """
from ablate import Arm, Metric, Scale, Study, table, task_command
task_command("script", "python scripts/train.py --conf=conf.json {rate} {seed}",
             settings={"rate": 0.1}, metrics=Metric("loss"))
study = Study(question="?", base={"task": "script"}, base_arm="a",
              design=table(Arm("a")), scales={"s": Scale(seeds=1)})
"""
SCRIPT = """
import json, sys
from beside_the_script import FACTOR
loss = FACTOR * float(sys.argv[2])
print(json.dumps({"valid_loss": loss})); print(json.dumps({"test_loss": loss}))
"""


@pytest.mark.slow
def test_the_script_of_a_command_and_what_the_command_names_count(toy) -> None:
    (toy.folder / "scripts").mkdir()
    for name, text in (
        ("scripts/train.py", SCRIPT),
        ("scripts/beside_the_script.py", "FACTOR = 1"),
    ):
        (toy.folder / name).write_text(text)
    (toy.folder / "conf.json").write_text("{}")
    toy.place.write("command.py", COMMAND)
    words = ("study", "command.py", "--local")
    toy.ablate(*words).succeeded()
    edits = {
        "scripts/train.py": ("float(", "2 + float("),
        "scripts/beside_the_script.py": ("= 1", "= 3"),
        "conf.json": ("{}", "[]"),
    }
    for name, edit in edits.items():
        toy.edit(name, *edit)
    told = toy.ablate(*words).err
    for name in ("train.py was edited", "beside_the_script.py was edited", "conf.json was edited"):
        assert name in told


SEARCHED = """
from ablate import Search
study = Study(
    question="?", base={"task": "toy"}, base_arm="base", design=table(Arm("base")),
    scales={"s": Scale(seeds=1, search=Search(space="rates", trials=2, sampler="random"))},
)
"""
SPACE = """
task = "toy"
["Rate"]
field = "toy.rate"
range = [0.1, 0.9]
"""


@pytest.mark.slow
def test_a_search_of_earlier_code_starts_from_scratch(toy) -> None:
    """Its results would choose the winner for other code."""
    (toy.folder / "search_spaces").mkdir()
    (toy.folder / "search_spaces" / "rates.toml").write_text(SPACE)
    toy.place.write("toy.py", STUDY[: STUDY.index("study = ")] + SEARCHED)
    toy.study().succeeded()
    first = {trial_id: journal.metrics for trial_id, journal in toy.journals.items()}
    toy.edit("helpers_of_toy.py", "2 * rate", "4 - 2 * rate")  # the other one is the best now
    assert "3 of 3 trials on record" in toy.study().err
    toy.study("--local", "--again").succeeded()
    now = toy.journals
    assert all(now[trial_id].metrics != first[trial_id] for trial_id in now.keys() & first.keys())
    rates = {j.config["toy.rate"] for j in now.values() if j.trial.stage == "search"}
    assert len(rates) == 2
    (winner,) = (j for j in now.values() if j.trial.stage == "train" and j.trial.id not in first)
    assert winner.config["toy.rate"] == max(rates)
    assert "nothing is left to do" in toy.study().out


@pytest.mark.slow
def test_a_record_of_an_older_version_is_compared_by_what_it_has(toy) -> None:
    toy.study().succeeded()
    for journal in toy.journals.values():
        journal.attempts = [
            Attempt.from_plain({**attempt.to_plain(), "closure": None, "sources": {"toy.py": "0"}})
            for attempt in journal.attempts
        ]
        journal.write(toy.place.store)
    told = toy.study().err
    assert "toy.py was edited: 2 trials of base, 2 trials of high" in told
    for journal in toy.journals.values():
        journal.note(sources=None)
        journal.write(toy.place.store)
    assert "nothing is left to do" in toy.study().out


READERS = """
from dataclasses import dataclass
from pathlib import Path
from ablate import Arm, Metric, Scale, Study, setting, table, task

@dataclass(frozen=True, kw_only=True)
class Config:
    rate: float = setting(0.1, doc="rate")
    words: str = setting("words.txt", doc="one word a line", file=True)

@task("reader", config=Config, metrics=Metric("loss"))
def train(run):
    found = run.config.rate + len(Path(run.config.words).read_text())
    return {"valid_loss": found, "test_loss": found}

def adapt(values):
    return {"reader.rate": float((Path(__file__).parent / "rate.txt").read_text())}

study = Study(
    question="?", base={"task": "reader"}, base_arm="base", design=table(Arm("base")),
    scales={"s": Scale(seeds=1, adapt=adapt)},
)
"""


def test_what_adapt_and_a_setting_of_a_file_read_makes_other_trials(place) -> None:
    place.write("reader.py", READERS)
    for rate, words, loss in (("1", "abc", 4.0), ("2", "abc", 5.0), ("2", "abcd", 6.0)):
        place.write("rate.txt", rate)
        place.write("words.txt", words)
        place.ablate("study", "reader.py", "--local").succeeded()
        assert loss in {j.metrics["valid_loss"] for j in journals.read_all(place.store).values()}
    assert len(journals.read_all(place.store)) == 3
