"""A command that ends with its parent, with all that it has started: as MLflow's server under
`ablate ui`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ablate.record import attended
from tests.support import lab, places

# As MLflow's server does, it starts another process and waits for it.
SERVER = """
import os, subprocess, sys, time
from pathlib import Path

child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
Path(sys.argv[1]).write_text(f"{os.getpid()} {child.pid}")
child.wait()
"""
PARENT = f"""
import signal, sys
from ablate.record import attended

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
attended.start([sys.executable, "-c", {SERVER!r}, sys.argv[1]]).wait()
"""


def alive(pids: list[int]) -> list[int]:
    """Those that have not ended; one that nobody has waited for has."""
    return [pid for pid in pids if state(pid) not in ("", "Z")]


def state(pid: int) -> str:
    """A process' state, by its letter; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def started(note: Path) -> list[int]:
    lab.wait_for(lambda: note.exists() and len(note.read_text().split()) == 2, "the command", 60)
    return [int(word) for word in note.read_text().split()]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM])
def test_it_ends_with_its_parent(tmp_path, number) -> None:
    words = [sys.executable, "-c", PARENT, str(tmp_path / "pids")]
    parent = subprocess.Popen(words, cwd=places.ROOT)
    pids = started(tmp_path / "pids")
    assert alive(pids) == pids
    os.kill(parent.pid, number)
    assert parent.wait(60) == -number
    lab.wait_for(lambda: not alive(pids), "its end", 30)


def test_it_is_stopped_with_its_children(tmp_path) -> None:
    process = attended.start([sys.executable, "-c", SERVER, str(tmp_path / "pids")])
    pids = started(tmp_path / "pids")
    attended.stop(process)
    lab.wait_for(lambda: not alive(pids), "its end", 30)
