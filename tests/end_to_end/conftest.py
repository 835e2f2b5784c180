"""`ablate` commands as a user runs them, each in its own process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support import places

HERE = places.TESTS / "end_to_end"
ROOT = str(places.ROOT)
SETTINGS = {
    "OPENBLAS_NUM_THREADS": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PYTHONPATH": os.pathsep.join(  # where the studies' runners are, and what was there
        filter(None, [str(HERE / "studies"), os.environ.get("PYTHONPATH")])
    ),
}
PATIENCE = 240.0  # seconds for one command, on a busy machine


@dataclass(frozen=True)
class Ended:
    """A command's result: its exit status (-N: signal N), stdout and stderr."""

    status: int
    out: str
    err: str

    def failed(self, status: int, *texts: str) -> None:
        """Check the exit status, and that stderr is one message with these texts, no traceback."""
        assert self.status == status, self
        assert self.err.startswith("ablate: ") and self.err.count("ablate: ") == 1, self
        assert "Traceback" not in self.out + self.err, self
        assert f"{ROOT}/ablate/" not in self.err, self
        for text in texts:
            assert text in self.err, f"{text!r} is not in:\n{self.err}"

    def succeeded(self) -> None:
        assert (self.status, self.err) == (0, ""), self


class Warm:
    """Sends requests to `warm.py`."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._number = folder, 0
        self._ray = tempfile.mkdtemp(prefix="ray-")  # what killed drivers leave, deleted at the end
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "warm.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **SETTINGS, "RAY_TMPDIR": self._ray},
        )
        self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "warm.py ended"
        return json.loads(line)

    def order(self, **order: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def start(self, words: list[str], folder: Path, **more: Any) -> Running:
        """Start a command in a folder."""
        self._number += 1
        out, err = (str(self._folder / f"{self._number}.{name}") for name in ("out", "err"))
        pid = self.order(start=words, cwd=str(folder), out=out, err=err, **{"env": {}, **more})
        return Running(self, pid, out, err)

    def close(self) -> None:
        self._process.communicate()
        shutil.rmtree(self._ray, ignore_errors=True)


class Running:
    """A running command."""

    def __init__(self, warm: Warm, pid: int, out: str, err: str) -> None:
        self._warm, self.pid, self._out, self._err = warm, pid, Path(out), Path(err)

    @property
    def out(self) -> str:
        return self._out.read_text()

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def wait(self, seconds: float = PATIENCE) -> Ended | None:
        """Its exit status; None while it runs."""
        status = self._warm.order(wait=self.pid, seconds=seconds)
        return None if status is None else Ended(status, self.out, self._err.read_text())

    def ended(self) -> Ended:
        found = self.wait()
        if found is None:
            os.killpg(self.pid, signal.SIGKILL)
            found = self.wait()
            raise AssertionError(f"it ran for more than {PATIENCE} s: {found}")
        return found


class Place:
    """A folder with study files, and a workspace that shares the encoded corpus."""

    def __init__(self, folder: Path, warm: Warm, data: str, database: Path) -> None:
        self.folder, self._warm = folder, warm
        self.workspace = folder / "workspace"
        self.workspace.mkdir(parents=True)
        (self.workspace / "data").symlink_to(data)
        shutil.copy(database, self.workspace / "mlflow.db")  # creating one takes a second

    def write(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return name

    def start(
        self, *arguments: str, env: Mapping[str, str] | None = None, memory: int | None = None
    ) -> Running:
        """Start a command in the folder, on the workspace unless it names another."""
        own = [] if "--workspace" in arguments else ["--workspace", str(self.workspace)]
        limit = {} if memory is None else {"memory": memory}
        return self._warm.start([*arguments, *own], self.folder, env=env or {}, **limit)

    def ablate(self, *arguments: str, **options: Any) -> Ended:
        return self.start(*arguments, **options).ended()

    @property
    def store(self):
        from ablate.store.store import Store

        return Store(str(self.workspace / "store"))


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    warm = Warm(tmp_path_factory.mktemp("outputs"))
    yield warm
    warm.close()


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty tracking database."""
    from ablate.record.server import Server

    folder = tmp_path_factory.mktemp("database")
    Server(f"sqlite:///{folder / 'mlflow.db'}", folder / "artifacts")
    return folder / "mlflow.db"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory, warm: Warm, data: str, database: Path):
    """Creates folders with studies, for fixtures that several tests share."""

    def place(*studies: str) -> Place:
        made = Place(tmp_path_factory.mktemp("place"), warm, data, database)
        for study in studies:
            shutil.copy(HERE / "studies" / study, made.folder)
        return made

    return place


@pytest.fixture
def place(places) -> Place:
    return places()


class Reply(NamedTuple):
    """What a cell printed, its error's name and text, and what it displayed: MIME type -> text."""

    printed: str
    error: str
    text: str
    shown: list[dict[str, str]]


@pytest.fixture
def cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Reply]]:
    """Executes cells in a Jupyter kernel."""
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / "jupyter"))
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(cwd=str(tmp_path))

    def execute(code: str) -> Reply:
        printed, shown = list[str](), list[dict[str, str]]()

        def hear(message: Any) -> None:
            content = message["content"]
            if content.get("name") == "stdout":
                printed.append(content["text"])
            if "data" in content:
                shown.append(content["data"])

        reply = client.execute_interactive(code, timeout=PATIENCE, output_hook=hear)["content"]
        return Reply("".join(printed), reply.get("ename", ""), reply.get("evalue", ""), shown)

    yield execute
    client.stop_channels()
    manager.shutdown_kernel(now=True)
