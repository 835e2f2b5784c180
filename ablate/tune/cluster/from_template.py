"""What a raylet starts for a worker: it asks the template for one, and stays while that lives.

Called as `from_template.py SOCKET PYTHON setup_worker.py default_worker.py ...`. Without an answer
it becomes the worker itself, by the command that follows the socket. The raylet's end ends it, and
its end the worker. Python runs this file without `site`, in 30 ms.
"""

import contextlib
import ctypes
import json
import os
import signal
import socket
import sys

CONTEXT = "--serialized-runtime-env-context="  # only `setup_worker.py` reads these two
LANGUAGE = "--language="


def main(path: str, command: list[str]) -> None:
    """Stay with a worker of the template's, or become one."""
    context = next((part for part in command if part.startswith(CONTEXT)), CONTEXT)
    if context in (CONTEXT, CONTEXT + "{}"):  # else `setup_worker.py` has something to set up
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
            set_parent_death_signal = 1  # PR_SET_PDEATHSIG
            ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
            connection.connect(path)
            if _asked(connection, command):
                connection.recv(1)  # until the worker's end
                return
    os.execv(command[0], command)


def _asked(connection: socket.socket, command: list[str]) -> bool:
    """Ask for a worker; return whether one was forked."""
    with open("/proc/self/oom_score_adj") as file:
        oom = file.read().strip()
    wanted = {
        "command": [part for part in command[2:] if not part.startswith((CONTEXT, LANGUAGE))],
        "env": dict(os.environ),
        "folder": os.getcwd(),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "oom": oom,
    }
    text = json.dumps(wanted).encode()
    socket.send_fds(connection, [len(text).to_bytes(8, "big")], [0, 1, 2])
    connection.sendall(text)
    return connection.recv(1) == b"y"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
