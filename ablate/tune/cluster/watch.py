"""Notices that a part of Ray that this driver needs has died.

Ray 2.60 itself says nothing of a dead raylet, ever, and ends the driver a minute after its GCS is
gone, with a line of C++. Its calls block meanwhile, so a thread watches.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator

from ablate.errors import TrialError
from ablate.tune.cluster.ray_private import own_addresses, own_processes

LOOK_SECONDS = 1.0
CONNECT_SECONDS = 3.0
PATIENCE_SECONDS = 15.0  # with a part of a cluster that does not answer: it may come back
OURS_SECONDS = 2.0  # with one that this driver has started, on this host: it never does
STUCK_SECONDS = 10.0  # for which a call of Ray's may block after a death is noticed
RECONNECT = "RAY_gcs_rpc_server_reconnect_timeout_s"  # how long Ray waits for a GCS to come back


class RayDied(Exception):
    """A part of Ray has died, or was not ready in time. `ours`: this driver had started it."""

    def __init__(self, text: str, ours: bool) -> None:
        super().__init__(text)
        self.ours = ours


class Watch:
    """Looks every second, from a thread, whether Ray is alive.

    If Ray's calls then block the driver, so that it never calls `check`, the process is ended with
    the same message: Ray would end it soon, with a worse one.
    """

    def __init__(self, note: Callable[[str], None], advice: str) -> None:
        """`advice`: what the message says after what died."""
        self._note, self._advice = note, advice
        self._over = threading.Event()
        self._died: RayDied | None = None
        self._silent: str | None = None  # a part of a cluster that does not answer
        self._since, self._noted = 0.0, False

    @contextlib.contextmanager
    def on(self) -> Iterator[Watch]:
        """Watch inside the block, or until `close`."""
        threading.Thread(target=self._look, name="ray-watch", daemon=True).start()
        try:
            yield self
        finally:
            self.close()

    @property
    def has_seen_a_death(self) -> bool:
        """Return whether a part of Ray has died."""
        return self._died is not None

    def close(self) -> None:
        """Look no more: Ray is about to be stopped."""
        self._over.set()

    def check(self) -> None:
        """Raise `RayDied` if a part has died."""
        self._died = self._died or _dead_child()
        if self._died is not None:
            self.close()
            raise self._died

    def _look(self) -> None:
        while self._died is None and not self._over.wait(LOOK_SECONDS):
            self._died = _dead_child() or self._given_up()
        if not self._over.wait(STUCK_SECONDS):
            print(f"ablate: {self._died}. {self._advice}", file=sys.stderr, flush=True)
            os._exit(TrialError.exit_code)

    def _given_up(self) -> RayDied | None:
        """A part that has been silent for too long.

        It may be our own child: a GCS that gets SIGTERM closes its port and does not end.
        """
        what, ours = _silent_part()
        if what != self._silent:
            self._silent, self._since, self._noted = what, time.monotonic(), False
        seconds = time.monotonic() - self._since
        shortest = OURS_SECONDS if ours else PATIENCE_SECONDS
        if what is None or seconds < shortest:
            return None
        longest = shortest if ours else _patience(what)
        if seconds >= longest:
            return RayDied(f"{what} has not answered for {seconds:.0f} s", ours)
        if not self._noted:
            self._noted = True
            self._note(f"{what} does not answer; waiting {longest:.0f} s for it in all")
        return None


def _patience(what: str) -> float:
    """Seconds to wait for a silent part. A GCS may come back, if Ray is set to wait for it."""
    # Less than Ray waits: after that, Ray ends the driver itself.
    longer = float(os.environ.get(RECONNECT, 0)) - 2 * PATIENCE_SECONDS
    return max(PATIENCE_SECONDS, longer if "GCS" in what else 0)


def _dead_child() -> RayDied | None:
    """A part that this process has started, and that has ended."""
    for name, processes in own_processes().items():
        for process in processes:
            status = process.poll()
            if status is not None:
                text = f"Ray's {name} on this machine (pid {process.pid}) died{_how(status)}"
                return RayDied(text, ours=True)
    return None


def _how(status: int) -> str:
    return f" by signal {-status}" if status < 0 else f" with status {status}"


def _silent_part() -> tuple[str | None, bool]:
    """The part that does not answer, raylet or GCS, and whether this driver has started it."""
    addresses = own_addresses()
    if addresses is None:
        return None, False
    (raylet, gcs), ours = addresses, bool(own_processes())
    host, _, port = gcs.rpartition(":")
    if not _answers(socket.AF_UNIX, raylet):
        return f"Ray's raylet on this host ({socket.gethostname()})", ours
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if not _answers(family, (host.strip("[]"), int(port))):
        return f"Ray's GCS at {gcs}", ours
    return None, ours


def _answers(family: int, address: str | tuple[str, int]) -> bool:
    try:
        with socket.socket(family) as probe:
            probe.settimeout(CONNECT_SECONDS)
            probe.connect(address)
    except OSError:
        return False
    return True
