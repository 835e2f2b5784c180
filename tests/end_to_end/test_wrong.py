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
CONFIGURATION, CORPUS, STORE, TRIAL, RECORD, TECHNIQUE = 2, 3, 4, 5, 6, 8


def changed(old: str, new: str, text: str = GOOD) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def really(text: str = GOOD, **values: Any) -> str:
    """The study with a model that is really trained, on little text."""
    small = {"corpus.train_tokens": 1000, "corpus.eval_tokens": 200, **values}
    more = "".join(f'    "{name}": {value!r},\n' for name, value in small.items())
    text = changed("BASE = {\n", "BASE = {\n" + more, text)
    return changed('    runner="sloping",\n', "", text)


def run(place: Any, text: str, *arguments: str, **options: Any) -> Any:
    place.write("asked.py", text)
    return place.ablate("study", "asked.py", "--local", *arguments, **options)


class TestStudyFile:
    """A file that is not a valid study, or a study that is impossible."""

    def test_no_such_file(self, place):
        place.write("asked.py", GOOD)
        ended = place.ablate("study", "aksed.py", "--local")
        ended.failed(CONFIGURATION, "unknown study file 'aksed.py'. Did you mean 'asked.py'?")

    def test_syntax(self, place):
        text = changed("base=BASE,", "base=BASE),")
        message = f"asked.py:{line_of(text, 'base_arm')}: unexpected indent: base_arm="
        run(place, text).failed(CONFIGURATION, message)

    def test_no_study(self, place):
        text = changed("\nstudy = Study(", "\nstuddy = Study(")
        message = "asked.py: no `study = Study(...)` in this file. It has a Study called 'studdy'"
        run(place, text).failed(CONFIGURATION, message)

    def test_unknown_field(self, place):
        text = changed("seeds=2", "sedes=2")
        message = "unknown field of Scale 'sedes'. Did you mean 'seeds'? Expected one of: corpus, "
        run(place, text).failed(CONFIGURATION, f"asked.py:{line_of(text, 'sedes')}: {message}")

    def test_wrong_type(self, place):
        text = changed("seeds=2", "seeds='three'")
        message = "Scale: seeds = 'three' is not allowed. Expected: whole number"
        run(place, text).failed(CONFIGURATION, f"asked.py:{line_of(text, 'three')}: {message}")

    def test_arms_that_are_none(self, place):
        text = changed('table(Arm("a"), ', 'table("a", ')
        message = "Design: arms[0] = 'a' is not allowed. Expected: Arm."
        run(place, text).failed(CONFIGURATION, f"asked.py:{line_of(text, 'table(')}: {message}")

    def test_no_design(self, place):
        text = changed("    design=table(", "    arms=table(")
        run(place, text).failed(CONFIGURATION, "unknown field of Study 'arms'.", "design")
        text = changed('    base_arm="a",\n', "")
        run(place, text).failed(CONFIGURATION, "Study needs base_arm.")

    def test_unknown_word(self, place):
        text = changed("import Arm, Scale", "import Arm, Scael, Scale")
        message = "unknown word of ablate 'Scael'. Did you mean 'Scale'?"
        run(place, text).failed(CONFIGURATION, f"asked.py:{line_of(text, 'Scael')}: ", message)

    def test_unknown_scale(self, place):
        place.write("asked.py", GOOD)
        for command in (["study", "asked.py", "--local"], ["plan", "asked.py"]):
            ended = place.ablate(*command, "--scale", "smal")
            ended.failed(CONFIGURATION, "unknown scale 'smal'. Did you mean 'small'?")

    def test_unknown_runner(self, place):
        text = changed("sloping", "runners:Sloping")
        message = "runner = 'runners:Sloping' is not allowed.", "register the function that trains"
        run(place, text).failed(CONFIGURATION, *message)


class TestValues:
    """Impossible techniques and values; every message names the arm."""

    def test_unknown_technique(self, place):
        text = changed('{"optimizer.learning_rate": 2.0}', '{"head": "mso"}')
        message = (
            "asked.py: arm 'b': unknown head 'mso'. Did you mean 'mos'? Expected one of: doc, "
        )
        run(place, text).failed(CONFIGURATION, message)

    def test_unknown_field(self, place):
        text = changed('{"optimizer.learning_rate": 2.0}', '{"optimizer.learning_rat": 2.0}')
        message = "asked.py: arm 'b': optimizer sgd: unknown field 'learning_rat'. Did you mean"
        run(place, text).failed(CONFIGURATION, message)

    def test_out_of_range(self, place):
        text = changed('{"optimizer.learning_rate": 2.0}', '{"training.batch_size": 0}')
        message = (
            "asked.py: arm 'b': training.batch_size = 0 is not allowed. Expected: whole number, "
        )
        run(place, text).failed(CONFIGURATION, message + "at least 1.")

    def test_a_layer_that_the_backbone_lacks(self, place):
        text = changed(
            '{"optimizer.learning_rate": 2.0}', '{"head": "doc", "head.experts": (1, 1, 1, 1)}'
        )
        run(place, text).failed(
            CONFIGURATION, "asked.py: arm 'b': ", "experts = [1, 1, 1, 1]", "the backbone has 1"
        )

    def test_another_corpus_in_an_arm(self, place):
        text = changed('{"optimizer.learning_rate": 2.0}', '{"corpus.lowercase": True}')
        run(place, text).failed(CONFIGURATION, "arm 'b': corpus.lowercase = True is not allowed")


SPACE = """
paper = "none"
tables = ["Rates"]

["Rate"]
field = "optimizer.learning_rat"
range = [1e-3, 10.0]
scale = "log"
"""


class TestSpaces:
    def test_a_space_that_names_a_missing_field(self, place):
        place.write("rates.toml", SPACE)
        text = changed("seeds=2", "seeds=2, search=Search(space='rates.toml', trials=3)")
        message = ("rates.toml:5", "row 'Rate'", "'learning_rat'", "Did you mean 'learning_rate'?")
        run(place, text).failed(CONFIGURATION, *message)

    def test_a_space_that_is_not_there(self, place):
        text = changed("seeds=2", "seeds=2, search=Search(space='doc_table2', trials=3)")
        run(place, text).failed(CONFIGURATION, "asked.py: unknown search space 'doc_table2'.")

    def test_a_database_of_searches_that_does_not_answer(self, place):
        place.write("rates.toml", SPACE.replace('rat"', 'rate"'))
        text = changed("seeds=2", "seeds=2, search=Search(space='rates.toml', trials=3)")
        ended = run(place, text, "--searches", "sqlite:////nowhere/searches.db")
        ended.failed(RECORD, "the search storage sqlite:////nowhere/searches.db does not answer")


class TestCorpora:
    def test_a_corpus_that_was_not_fetched(self, place):
        text = changed("Scale(seeds=2)", "Scale(corpus='ptb', seeds=2)")
        ended = run(place, text, "--workspace", "elsewhere")
        ended.failed(CORPUS, "the corpus ptb is missing: ", "`ablate data get ptb` fetches it")

    def test_a_corpus_that_is_damaged(self, place):
        folder = place.folder / "elsewhere" / "data" / "ptb"
        folder.mkdir(parents=True)
        for split in ("train", "valid", "test"):
            (folder / f"ptb.{split}.txt").write_text("no <unk> N words\n")
        text = changed("Scale(seeds=2)", "Scale(corpus='ptb', seeds=2)")
        ended = run(place, text, "--workspace", "elsewhere")
        ended.failed(CORPUS, "ptb.train.txt is not the published file: its SHA-256 should be")

    def test_an_unknown_corpus(self, place):
        text = changed("Scale(seeds=2)", "Scale(corpus='ptbb', seeds=2)")
        run(place, text).failed(CORPUS, "unknown corpus 'ptbb'. Did you mean 'ptb'?")


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

    def test_a_full_disk(self, place, disk):
        """Nothing is lost: with free space, the same command completes the table."""
        text, small = changed("seeds=2", "seeds=6"), disk("small", "size=200k")
        (small / "data").symlink_to(place.workspace / "data")
        where = ("--workspace", "small", "--mlflow", f"sqlite:///{place.workspace}/mlflow.db")
        place.write("asked.py", text)
        ended = place.ablate("study", "asked.py", *where)
        ended.failed(STORE, "cannot write", "No space left on device", "Free some space")
        done = len(journals.read_all(_store(small)))
        assert 0 < done < 12
        subprocess.run(["mount", "-o", "remount,size=20m", str(small)], check=True)
        run(place, text, *where).succeeded()
        run(place, text).succeeded()
        assert _metrics(_store(small)) == _metrics(place.store)

    def test_a_full_disk_from_the_start(self, place, disk):
        small = disk("small", "size=40k")
        (small / "data").symlink_to(place.workspace / "data")
        (small / "filler").write_bytes(b"x" * 36_864)
        ended = run(place, GOOD, "--workspace", "small")
        ended.failed(STORE, "No space left on device", "--workspace")

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

    def test_a_file_in_place_of_the_workspace(self, place):
        place.write("taken", "a file")
        ended = run(place, GOOD, "--workspace", "taken")
        ended.failed(STORE, f"the workspace {place.folder / 'taken'} cannot be written")

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


def _store(workspace: Path) -> Any:
    from ablate.store.store import Store

    return Store(str(workspace / "store"))


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
    def test_a_server_that_does_not_answer(self, place, silent):
        """The study continues; its records follow later, wherever the server is."""
        ended = run(place, GOOD, "--mlflow", silent)
        ended.succeeded()
        assert f"{silent} cannot store records now" in ended.out
        assert (
            "not recorded yet: 4 trials" in ended.out and "later: ablate report sync" in ended.out
        )
        assert "2 paired seeds" in ended.out
        refused = place.ablate("sync", "--mlflow", silent)
        refused.failed(RECORD, f"{silent} cannot store records now")
        synced = place.ablate("sync")
        synced.succeeded()
        assert synced.out == "asked@small: 4 trials delivered now, all recorded\n"

    def test_a_uri_that_is_none(self, place):
        ended = run(place, GOOD, "--mlflow", "htp:/host:5000")
        ended.failed(
            RECORD, "records cannot be stored in 'htp:/host:5000'. Expected an MLflow server "
        )
        assert journals.read_all(place.store) == {}

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

    def test_a_loss_that_really_becomes_no_number(self, place):
        text = really(**{"training.clip": 1e38}).replace("2.0", "1e38")
        ended = run(place, text)
        ended.failed(TRIAL, "2 of 4 trials", "2 x diverged, b seed 1 first: the ", " loss became ")

    def test_out_of_memory(self, place):
        text = changed("sloping", "hungry")
        run(place, text).failed(TRIAL, "2 x failed, a seed 2 first: out of memory: a smaller")
        run(place, text).failed(TRIAL, "out of memory")  # tried again, once

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

    def test_in_a_function_of_the_study(self, place):
        text = changed("seeds=2", "seeds=2, adapt=lambda values: values['nosuch']")
        ended = run(place, text)
        ended.failed(TECHNIQUE, "asked.py: adapt", "KeyError: 'nosuch'", "in <lambda>")
        assert ended.err.count("  File ") == 1

    def _with_noise(self, place, name: str, noise: str) -> Any:
        place.write(f"{name}.py", noise.replace("{name}", name))
        text = really(**{f"regularizer.{name}.size": 0.5})
        text = changed("(runners.__file__,)", f'(runners.__file__, "{name}.py")', text)
        return run(place, text)

    def test_in_a_technique_while_it_trains(self, place):
        ended = self._with_noise(place, "noisy", NOISE)
        message = (
            "3 of 4 trials failed or diverged",  # for one reason, so the fourth did not start
            "noisy.py",
            "in worked_out",
            "AttributeError",
        )
        ended.failed(TRIAL, *message)
        assert ended.err.count("  File ") == 2

    def test_in_a_technique_while_it_is_planned(self, place):
        noise = NOISE.replace(
            "    def penalty", "    def __init__(self, config):\n        1 / 0\n\n    def penalty"
        )
        ended = self._with_noise(place, "early", noise)
        ended.failed(TECHNIQUE, "arm 'a'", "early.py", "in __init__", "ZeroDivisionError")
        assert ended.err.count("  File ") == 1

    def test_in_a_file_of_techniques(self, place):
        ended = self._with_noise(place, "broken", NOISE + "\n1 / 0\n")
        ended.failed(TECHNIQUE, "broken.py", "ZeroDivisionError")
        ended = self._with_noise(place, "unread", NOISE + "\ndef (:\n")
        ended.failed(CONFIGURATION, "unread.py:", "invalid syntax")

    def test_a_file_of_techniques_that_is_not_there(self, place):
        place.write("noises.py", NOISE)
        text = changed("(runners.__file__,)", '("noise.py",)')
        message = "asked.py: unknown file of techniques 'noise.py'. Did you mean 'noises.py'?"
        run(place, text).failed(CONFIGURATION, message)


class TestDamage:
    """Stored files that are damaged."""

    @pytest.fixture
    def run_once(self, place) -> Any:
        run(place, GOOD).succeeded()
        return place

    def test_a_damaged_journal(self, run_once):
        place, store = run_once, run_once.store
        before = _metrics(store)
        name = next(iter(before))
        for damage in (b'{"trial": ', b"[]", b'{"trial": {"id": "x"}}'):
            store.write(journals.key(name), damage)
            ended = run(place, GOOD)
            ended.failed(STORE, f"trials/{name}/journal.json in the store", "is damaged", "Delete")
        store.delete(journals.key(name))
        run(place, GOOD).succeeded()
        assert _metrics(store) == before

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

    def test_a_damaged_study(self, run_once):
        key = "studies/asked@small/study.json"
        for damage in (b"{", b"{}"):
            run_once.store.write(key, damage)
            run_once.ablate("table", "asked").failed(STORE, f"{key} in the store", "is damaged")
        run(run_once, GOOD).succeeded()

    def test_damaged_searches(self, place):
        place.write("rates.toml", SPACE.replace('rat"', 'rate"'))
        log = place.workspace / "searches" / "asked@small.log"
        log.parent.mkdir()
        log.write_text("this is no search\n" * 100)
        text = changed("seeds=2", "seeds=2, search=Search(space='rates.toml', trials=3)")
        run(place, text).failed(RECORD, "asked@small.log are damaged (line 1", "Move the file away")

    def test_a_damaged_database_of_searches(self, place):
        place.write("rates.toml", SPACE.replace('rat"', 'rate"'))
        database = place.workspace / "searches.db"
        database.write_text("this is no database " * 100)
        text = changed("seeds=2", "seeds=2, search=Search(space='rates.toml', trials=3)")
        ended = run(place, text, "--searches", f"sqlite:///{database}")
        ended.failed(RECORD, "searches.db", "file is not a database")


class TestCommands:
    """Other commands, given names that do not exist."""

    def test_a_study_that_nobody_ran(self, place):
        run(place, GOOD).succeeded()
        for command in ("status", "table"):
            ended = place.ablate(command, "asekd@small")
            ended.failed(CONFIGURATION, "unknown study 'asekd@small'. Did you mean 'asked@small'?")

    def test_a_trial_that_nobody_ran(self, place):
        place.ablate("rerun", "0123").failed(TRIAL, "no trial '0123' in")

    def test_a_config_that_is_none(self, place):
        place.write("one.toml", "backbone = {\n")
        place.ablate("trial", "one.toml").failed(CONFIGURATION, "one.toml: ", "line 1")
        place.ablate("trial", "on.toml").failed(CONFIGURATION, "Did you mean 'one.toml'?")
        place.ablate("trial", ".").failed(CONFIGURATION, ".: Is a directory.")
        place.write("one.toml", 'backbone = "lstmm"\n')
        ended = place.ablate("trial", "one.toml")
        ended.failed(CONFIGURATION, "one.toml: unknown backbone 'lstmm'. Did you mean 'lstm'?")

    def test_a_corpus_to_get_that_is_none(self, place):
        ended = place.ablate("data", "get", "ptbb")
        ended.failed(CORPUS, "unknown corpus 'ptbb'. Did you mean 'ptb'?")

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
