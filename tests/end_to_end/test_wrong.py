"""When things go wrong, the user gets one clear message and an exit code, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ablate.store import journal as journals
from ablate.store import study_record
from ablate.trial import checkpoint
from tests.support import places

pytest.importorskip("ray")

GOOD = """
import runners

from ablate import Arm, Scale, Search, Stage, Study, table

BASE = {
    "embedding.size": 4,
    "backbone": "lstm",
    "backbone.num_layers": 1,
    "backbone.units": 4,
    "head": "softmax",
    "optimizer": "sgd",
    "optimizer.learning_rate": 1.0,
    "training.epochs": 2,
}

study = Study(
    question="What is wrong?",
    base=BASE,
    base_arm="a",
    design=table(Arm("a"), Arm("b", {"optimizer.learning_rate": 2.0})),
    scales={"small": Scale(seeds=2)},
    runner="sloping",
    techniques=(runners.__file__,),
)
"""
CONFIGURATION, STORE, TRIAL, RECORD, TECHNIQUE = 2, 4, 5, 6, 8


def changed(old: str, new: str, text: str = GOOD) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def really(text: str = GOOD, **values: Any) -> str:
    """The study with a model that is really trained, on little text."""
    small = {"corpus.train_tokens": 1000, "corpus.eval_tokens": 200, **values}
    more = "".join(f'    "{name}": {value!r},\n' for name, value in small.items())
    text = changed("BASE = {\n", "BASE = {\n" + more, text)
    return changed('    runner="sloping",\n', "", text)


def run(place: Any, text: str, *arguments: str, **options: Any) -> Any:
    place.write("asked.py", text)
    return place.ablate("study", "asked.py", "--local", *arguments, **options)


SPACE = """
paper = "none"
tables = ["Rates"]

["Rate"]
field = "optimizer.learning_rate"
range = [1e-3, 10.0]
scale = "log"
"""


@pytest.fixture
def disk(place) -> Iterator[Any]:
    """Mounts a small separate disk, with options; needs root on Linux."""
    mounted = []

    def mount(folder: str, options: str) -> Path:
        target = place.folder / folder
        target.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(target)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            pytest.skip("there is no `mount` here")
        if done.returncode:
            pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
        mounted.append(target)
        return target

    yield mount
    for target in mounted:
        subprocess.run(["umount", str(target)], check=True)


class TestPlaces:
    """Disks and folders that cannot be written."""

    def test_a_read_only_disk(self, place, disk):
        run(place, GOOD).succeeded()
        target = disk("fixed", "size=20m")
        shutil.copytree(place.workspace, target, dirs_exist_ok=True, symlinks=True)
        subprocess.run(["mount", "-o", "remount,ro", str(target)], check=True)
        ended = run(place, GOOD, "--workspace", "fixed")
        ended.failed(STORE, f"the workspace {target} cannot be written: Read-only file system")
        for command in (["status"], ["status", "asked"], ["table", "asked"], ["plan", "asked.py"]):
            ended = place.ablate(*command, "--workspace", "fixed")
            assert (ended.status, ended.err) == (0, ""), ended

    @pytest.mark.parametrize(
        ("store", "message"),
        [
            ("nosuch://bucket/x", "cannot open the store nosuch://bucket/x"),
            ("/proc/nowhere", "in the store /proc/nowhere"),
            ("taken", "/taken: Not a directory"),
        ],
    )
    def test_a_store_that_cannot_be_written(self, place, store, message):
        place.write("taken", "a file")
        ended = run(place, GOOD, "--store", store)
        assert ended.status == STORE and "Traceback" not in ended.err
        assert ended.err.startswith("ablate: cannot ") and store.split("/")[-1] in ended.err, (
            message
        )


def _metrics(store: Any) -> dict[str, Any]:
    known = journals.read_all(store)
    return {name: journal.metrics for name, journal in known.items()}


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    """The URI of a server that does not answer."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{unused.getsockname()[1]}"


class TestRecords:
    def test_a_database_that_is_none(self, place):
        (place.workspace / "mlflow.db").write_text("this is no database " * 100)
        ended = run(place, GOOD)
        ended.succeeded()
        assert "file is not a database" in ended.out
        assert "not recorded yet: 4 trials" in ended.out


class TestTrials:
    """A trial that fails stops no other one, and the table says so."""

    def test_a_loss_that_is_no_number(self, place):
        ended = run(place, changed("sloping", "broken"))
        message = (
            "2 of 4 trials failed or diverged",
            "2 x diverged, a seed 2 first: the training loss",
        )
        ended.failed(TRIAL, *message)
        assert ended.out.count("1 of 2") >= 2
        known = journals.read_all(place.store).values()
        (good,) = [j for j in known if j.trial.arm == "a" and j.trial.seed == 1]
        from ablate.engine.reading import load

        cell = load("asked", workspace=str(place.workspace)).arm("a").cells["valid"]
        assert (cell.num, cell.loss) == (1, good.outcome.metrics["valid_nll"])
        status = place.ablate("status", "asked")
        assert "diverged: a seed 2" in status.out and "became nan" in status.out

    def test_really_out_of_memory(self, place):
        text = really().replace('"embedding.size": 4', '"embedding.size": 10**8')
        ended = run(place, text, memory=8 * 2**30)
        ended.failed(TRIAL, "4 x failed, a seed 1 first: out of memory: a smaller batch_size")

    def test_a_gpu_that_is_not_there(self, place):
        import torch

        if torch.cuda.is_available():
            pytest.skip("there is one")
        run(place, changed("seeds=2", "seeds=2, gpus=1")).failed(TRIAL, "GPU", "gpus=0")

    def test_a_cluster_that_is_not_there(self, place, silent):
        address = silent.removeprefix("http://")
        place.write("asked.py", GOOD)
        ended = place.ablate("study", "asked.py", "--cluster", address)
        ended.failed(TRIAL, f"no Ray answers at {address}", "--local")


NOISE = '''
"""A custom technique."""

from dataclasses import dataclass

from ablate.lm.components import Regularizer, register, setting


@dataclass(frozen=True, kw_only=True)
class NoiseConfig:
    size: float = setting(0.0, doc="of the noise", low=0)


@register("regularizer", "{name}", config=NoiseConfig)
class Noise(Regularizer):
    """Noise."""

    def __init__(self, config):
        self.config = config

    def penalty(self, passed, model):
        return self.worked_out(passed)

    def worked_out(self, passed):
        return passed.no_such_thing
'''


class TestUsersOwn:
    """An exception in the user's own code shows only the user's frames."""

    def test_in_the_study(self, place):
        text = changed(
            "\nstudy = Study(", "\n\ndef half(x):\n    return 1 / x\n\n\nhalf(0)\nstudy = Study("
        )
        ended = run(place, text)
        ended.failed(TECHNIQUE, "raised an exception", "in half", "ZeroDivisionError")
        assert ended.err.count("  File ") == 2

    def _with_noise(self, place, name: str, noise: str) -> Any:
        place.write(f"{name}.py", noise.replace("{name}", name))
        text = really(**{f"regularizer.{name}.size": 0.5})
        text = changed("(runners.__file__,)", f'(runners.__file__, "{name}.py")', text)
        return run(place, text)

    def test_in_a_technique_while_it_is_planned(self, place):
        noise = NOISE.replace(
            "    def penalty", "    def __init__(self, config):\n        1 / 0\n\n    def penalty"
        )
        ended = self._with_noise(place, "early", noise)
        ended.failed(TECHNIQUE, "arm 'a'", "early.py", "in __init__", "ZeroDivisionError")
        assert ended.err.count("  File ") == 1


class TestDamage:
    """Stored files that are damaged."""

    def test_a_damaged_checkpoint(self, place):
        run(place, really()).succeeded()
        before, store = _metrics(place.store), place.store
        name = next(iter(before))
        journal = journals.read(store, name)
        journal.outcome = None
        journal.write(store)
        store.write(checkpoint.last_key(name), b"\x08" + b"\x00" * 20)
        ended = run(place, really())
        assert ended.status == 0
        assert ended.err.count("\n") == 1 and f"{name} starts from its beginning" in ended.err
        assert "is damaged" in journals.read(store, name).attempts[-1].discarded
        assert _metrics(store) == before

    def test_a_damaged_database_of_searches(self, place):
        place.write("rates.toml", SPACE)
        database = place.workspace / "searches.db"
        database.write_text("this is no database " * 100)
        text = changed("seeds=2", "seeds=2, search=Search(space='rates.toml', trials=3)")
        ended = run(place, text, "--searches", f"sqlite:///{database}")
        ended.failed(RECORD, "searches.db", "file is not a database")


class TestCommands:
    """Other commands, given names that do not exist."""

    def test_two_drivers_of_one_study(self, place):
        place.write("asked.py", changed("sloping", "slow"))
        first = place.start("study", "asked.py", "--local")
        while not journals.read_all(place.store):
            assert first.wait(0.05) is None
        second = place.ablate("study", "asked.py", "--local")
        second.failed(STORE, f"asked@small is already being run by process {first.pid} on ")
        status = place.ablate("status", "asked")
        assert f"being run by process {first.pid} on " in status.out
        first.ended().succeeded()
        assert (
            "every trial has ended: ablate table asked@small" in place.ablate("status", "asked").out
        )


class TestOutput:
    """A reader that goes away does not make the study fail."""

    def test_nobody_reads_the_table(self, place):
        place.write("asked.py", GOOD)
        command = ["study", "asked.py", "--local", "--workspace", str(place.workspace)]
        ended = _piped(command, place.folder)
        assert (ended.returncode, ended.stderr) == (0, "")
        assert len(journals.read_all(place.store)) == 4

    def test_nobody_reads_a_list(self, place):
        ended = _piped(["spaces", "takase2018doc_table2"], place.folder)
        assert (ended.returncode, ended.stderr) == (1, "")

    def test_a_terminal_without_unicode(self, place):
        env = {**os.environ, "PYTHONIOENCODING": "ascii"}
        command = [sys.executable, "-m", "ablate", "spaces", "oliva2021dual_table3_4"]
        ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stderr) == (0, "")


def _piped(arguments: list[str], folder: Path) -> subprocess.CompletedProcess:
    """Run with a stdout that no process reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    env = {**os.environ, "PYTHONPATH": str(places.TESTS / "end_to_end" / "studies")}
    command = [sys.executable, "-m", "ablate", *arguments]
    try:
        return subprocess.run(
            command, cwd=folder, env=env, stdout=writing, stderr=subprocess.PIPE, text=True,
            check=False,
        )  # fmt: skip
    finally:
        os.close(writing)


def test_a_study_that_was_refused_leaves_no_record(place):
    run(place, changed("seeds=2", "sedes=2"))
    assert study_record.names(place.store) == []
