"""Workers that are forked from a template: what they are given, and how they end; without Ray."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ablate.engine import drive
from ablate.engine.drive import RunOptions
from ablate.study.words import Scale
from ablate.tune.cluster import template
from ablate.tune.cluster.ray_private import FROM_TEMPLATE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux alone")
ENV = template.worker_env(1)
SETUP = """
import os, sys
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
WORKER = """
import json, os, random, signal, sys, time
import numpy

said = {
    "arguments": sys.argv[1:], "name": __name__, "first": sys.path[0],
    "imported": "torch" in sys.modules,
    "env": dict(os.environ), "folder": os.getcwd(), "nice": os.getpriority(os.PRIO_PROCESS, 0),
    "oom": open("/proc/self/oom_score_adj").read().strip(), "pid": os.getpid(),
    "group": os.getpgid(0), "random": [random.random(), numpy.random.rand()],
    "child": signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL, "ray": "ray" in sys.modules,
}
print(json.dumps(said), flush=True)
print("an error", file=sys.stderr, flush=True)
if "--stay" in sys.argv:
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def before() -> dict[str, str]:
    """The variables of this process, some of which differ from test to test."""
    return dict(os.environ)


@pytest.fixture(scope="module")
def socket(before: dict[str, str]) -> Iterator[str]:
    with template.started(ENV) as made:
        assert made is not None
        yield made.path


@pytest.fixture
def asked(
    tmp_path: Path, socket: str, before: dict[str, str]
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start what a raylet does for a worker."""
    (tmp_path / "setup.py").write_text(SETUP)
    (tmp_path / "default.py").write_text(WORKER)
    processes: list[subprocess.Popen[str]] = []

    def ask(*arguments: str, at: str = socket, env: dict[str, str] = ENV) -> subprocess.Popen[str]:
        command = [sys.executable, "setup.py", "default.py", *arguments]
        processes.append(
            subprocess.Popen(
                [sys.executable, "-S", "-E", FROM_TEMPLATE, at, *command],
                env={**before, **env},
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=lambda: os.nice(3),
            )
        )
        return processes[-1]

    yield ask
    for process in processes:
        process.kill()
        process.communicate()


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def gone(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_worker_is_forked_with_all_that_it_would_have_had(asked, tmp_path, before):
    language = ["--language=PYTHON", "--serialized-runtime-env-context={}"]
    process = asked("--id=7", *language, env={**ENV, "RAY_JOB_ID": "f", "SPT_NOENV": "1"})
    said, errors = told(process), process.communicate()[1]
    assert said["imported"] and not said["ray"] and said["pid"] != process.pid
    assert said["arguments"] == ["--id=7"]  # the others are read by what it does without
    assert (said["name"], said["first"], said["folder"]) == ("__main__", ".", str(tmp_path))
    expected = {**before, **ENV, "RAY_JOB_ID": "f", "SPT_NOENV": "1"}
    assert said["env"] == expected
    assert said["nice"] == os.getpriority(os.PRIO_PROCESS, 0) + 3 and said["child"]
    assert said["group"] == said["pid"]
    assert said["oom"] == Path("/proc/self/oom_score_adj").read_text().strip()
    assert (process.returncode, errors) == (0, "an error\n")


def test_only_its_user_reaches_a_template(socket):
    assert stat.S_IMODE(Path(socket).parent.stat().st_mode) == 0o700


def test_a_file_beside_the_study_is_taken_for_no_module(asked, before, tmp_path, monkeypatch):
    """And a template that dies is done without."""
    (tmp_path / "pandas.py").write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path)
    with template.started({**before, **ENV}) as made:
        assert made is not None and told(asked(at=made.path))["imported"]
        (tmp_path / "pandas.py").unlink()
        made.stop()
        process = asked(at=made.path)
        assert told(process)["pid"] == process.pid


def test_no_two_workers_draw_the_same_random_numbers(asked):
    one, other = (told(asked())["random"] for _ in range(2))
    assert one[0] != other[0] and one[1] != other[1]


def test_a_worker_dies_with_what_asked_for_it(asked):
    """It is the raylet's child, and dies with it."""
    process = asked("--stay")
    pid = told(process)["pid"]
    process.kill()
    wait_for(lambda: gone(pid))


def test_what_asked_for_a_worker_ends_with_it(asked):
    process = asked("--stay")
    os.kill(told(process)["pid"], signal.SIGKILL)
    assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [
        ([], {"env": {**ENV, "OMP_NUM_THREADS": "2"}}),
        ([], {"env": {**ENV, "NEW": "1"}}),
        ([], {"at": "/nowhere/socket"}),
        (['--serialized-runtime-env-context={"env_vars": {"A": "1"}}'], {}),
    ],
    ids=["another variable", "one more", "no template", "a runtime environment"],
)
def test_without_a_template_that_fits_a_worker_starts_by_itself(asked, arguments, changes):
    process = asked(*arguments, **changes)
    said = told(process)
    assert said["pid"] == process.pid and not said["imported"]
    assert said["arguments"] == arguments
    assert process.wait(30) == 0


DRIVER = """
import os, time
from ablate.tune.cluster import template

with template.started(template.worker_env(1)) as made:
    print(made.path, flush=True)
    time.sleep(60)
"""


def test_a_template_dies_with_its_driver(asked):
    driver = subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    path = driver.stdout.readline().strip()
    wait_for(lambda: Path(path).exists())
    children = Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()
    driver.kill()
    driver.communicate()
    assert len(children) == 1
    wait_for(lambda: gone(int(children[0])))


def test_who_went_away_before_it_asked_does_not_end_the_template(asked, socket):
    import socket as sockets

    with sockets.socket(sockets.AF_UNIX) as connection:
        connection.connect(socket)
    assert told(asked())["imported"]


@pytest.mark.parametrize(
    ("options", "scale", "variable", "prepared"),
    [
        ({}, {}, None, {"OMP_NUM_THREADS": "1"}),
        ({}, {"threads": 2}, "local", {"OMP_NUM_THREADS": "2"}),
        ({"local": True}, {}, None, None),
        ({"address": "a:1"}, {}, None, None),
        ({}, {}, "a:1", None),
        ({}, {"gpus": 1}, None, None),
    ],
)
def test_workers_are_prepared_for_a_node_of_our_own(
    monkeypatch, options, scale, variable, prepared
):
    seen: list[Any] = []

    @contextlib.contextmanager
    def started(env: dict[str, str]):
        seen.append(env)
        yield "socket"

    monkeypatch.setattr(template, "started", started)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if variable is not None:
        monkeypatch.setenv("RAY_ADDRESS", variable)
    with drive.workers_prepared(RunOptions(**options), Scale(**scale)) as chosen:
        assert chosen.template == ("socket" if prepared else None)
    assert [{name: env[name] for name in prepared} for env in seen] == ([prepared] * bool(prepared))


@pytest.mark.parametrize(
    ("scale", "then"), [({}, "early"), ({"threads": 2}, "late"), ({"gpus": 1}, None)]
)
def test_workers_that_were_prepared_before_the_study_was_read(monkeypatch, scale, then):
    """They are kept if they fit; otherwise they do not wait, with what they hold, to its end."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    stopped: list[str] = []
    early, late = (
        SimpleNamespace(path=name, stop=lambda name=name: stopped.append(name))
        for name in ("early", "late")
    )
    made = iter([early, late])
    monkeypatch.setattr(template, "started", lambda env: contextlib.nullcontext(next(made)))
    with drive.workers_prepared(RunOptions()) as before:
        assert before.template is early
        with drive.workers_prepared(before, Scale(**scale)) as chosen:
            assert (chosen.template and chosen.template.path) == then
    assert stopped == ([] if then == "early" else ["early"])
