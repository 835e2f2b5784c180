"""Run a command that ends with its parent, however the parent ends.

    python -m ablate.record.attended COMMAND...     stdin: a pipe that only the parent holds open

A parent that is killed cannot end its children, and MLflow's server has children that would keep
its port. This process leads their group, and ends all of it when the pipe is closed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from typing import Any

GRACE_SECONDS = 5.0  # from SIGTERM to SIGKILL


def start(command: list[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a command that ends with this process, in a group of its own."""
    words = [sys.executable, "-m", __name__, *command]
    # Our end of the pipe is closed by the system if this process is killed.
    return subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True, **options)


def stop(process: subprocess.Popen[Any]) -> None:
    """End a command that `start` has started, and everything that it has started."""
    if process.stdin is not None:
        process.stdin.close()
    process.wait()


def main(command: list[str]) -> None:
    """Run a command until it ends or standard input closes, then end its whole group."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # the pipe is for this process
    # `sys.exit` would end only the thread. A command that a signal ended has a status below 0.
    threading.Thread(target=lambda: os._exit(process.wait() % 256), daemon=True).start()
    while os.read(sys.stdin.fileno(), 1):
        pass
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # this process is of the group, too
    os.killpg(0, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_SECONDS)
    os.killpg(0, signal.SIGKILL)  # ends this process as well


if __name__ == "__main__":
    main(sys.argv[1:])
