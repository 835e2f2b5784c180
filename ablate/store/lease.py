"""A lease in the store, so that only one driver runs a study even if drivers are on other hosts.

The holder increments a number in `studies/<key>/lease.json` every `BEAT_SECONDS`. Another driver
watches whether the number changes: no clock of one host is ever compared with another's. A holder
that finds another holder's name there has lost the study, and stops.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from ablate.errors import HeldError, StoreError
from ablate.store.locks import Process, lives, name, this_process
from ablate.store.store import Store

BEAT_SECONDS = 5.0
STALE_SECONDS = 20.0  # without a beat: the holder is gone, or cut off
SETTLE_SECONDS = 1.0  # if two take it at once, the one that wrote last has it
RECENT_SECONDS = 60.0  # a lease this recent is shown as held


class Lease:
    """One driver's lease of a study."""

    def __init__(self, store: Store, key: str) -> None:
        self._store, self._key, self._study = store, f"studies/{key}/lease.json", key
        self._token = secrets.token_hex(8)
        self._own = {"token": self._token, **this_process()}
        self._beats = 0
        self._over = threading.Event()
        self.on_lost: Callable[[str], None] = lambda why: None

    @contextlib.contextmanager
    def held(self) -> Iterator[Lease]:
        """Hold the lease inside the block; raise `HeldError` if another driver has it."""
        self._take()
        thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join(BEAT_SECONDS)
            self._give_back()

    def _take(self) -> None:
        holder = self._read()
        if holder is not None and not _dead_here(holder):
            self._wait_for_silence(holder)
        self._beat()
        time.sleep(SETTLE_SECONDS)
        if successor := self._successor():
            raise held_by(self._study, successor)

    def _wait_for_silence(self, holder: dict[str, Any]) -> None:
        """Watch the beats until the holder must be gone; raise `HeldError` if there is one."""
        end = time.monotonic() + STALE_SECONDS
        while time.monotonic() < end:
            time.sleep(0.5)
            now = self._read()
            if now is None:
                return
            if now != holder:
                raise held_by(self._study, now)

    def _beat(self) -> None:
        self._beats += 1
        self._store.write_json(self._key, {**self._own, "beats": self._beats, "at": time.time()})

    def _renew(self) -> None:
        while not self._over.wait(BEAT_SECONDS):
            # While the store is away, no other driver can take the lease.
            with contextlib.suppress(StoreError):
                if successor := self._successor():
                    self.on_lost(f"{self._study} was taken over by {name(successor)}")
                    return
                self._beat()

    def _give_back(self) -> None:
        with contextlib.suppress(StoreError):
            if (self._read() or {}).get("token") == self._token:
                self._store.delete(self._key)

    def _successor(self) -> dict[str, Any] | None:
        """The lease of a driver that has taken over this one's."""
        stored = self._read()
        return stored if stored and stored["token"] != self._token else None

    def _read(self) -> dict[str, Any] | None:
        stored = self._store.read_json(self._key)
        return stored if stored is not None and "token" in stored else None


def holder(store: Store, key: str) -> str | None:
    """The driver that seems to run the study, without waiting for a beat."""
    stored = store.read_json(f"studies/{key}/lease.json") or {}
    # To show who runs a study, another host's clock is good enough; nothing is decided by it.
    at = stored.get("at")
    if not isinstance(at, int | float) or abs(time.time() - at) > RECENT_SECONDS:
        return None
    return name(stored)


def held_by(study: str, process: Process) -> HeldError:
    """Compose the error that another process is running a study."""
    return HeldError(
        f"{study} is already being run by {name(process)}. Wait for it, or stop it and run the "
        "same command again."
    )


def _dead_here(holder: dict[str, Any]) -> bool:
    """Return whether the holder was a process on this host that has ended."""
    if holder.get("host") != socket.gethostname():
        return False
    with contextlib.suppress(ValueError, TypeError):
        return not lives(int(holder["pid"]))
    return False
