"""A lease in the store, so that only one driver runs a study even if drivers are on other hosts.

The holder increments a number in `studies/<key>/lease.json` every `BEAT_SECONDS`. Another driver
watches whether the number changes: no clock of one host is ever compared with another's. A holder
that finds another holder's name there has lost the study, and stops.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from ablate.errors import HeldError, StoreError
from ablate.store.store import Store

BEAT_SECONDS = 5.0
STALE_SECONDS = 20.0  # without a beat: the holder is gone, or cut off
SETTLE_SECONDS = 1.0  # if two take it at once, the one that wrote last has it
RECENT_SECONDS = 60.0  # a lease this recent is shown as held


class Lease:
    """One driver's lease of a study."""

    def __init__(self, store: Store, key: str) -> None:
        self._store, self._key, self._study = store, f"studies/{key}/lease.json", key
        self._mine = {
            "token": secrets.token_hex(8),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "since": time.strftime("%H:%M:%S"),
        }
        self._beats = 0
        self._over = threading.Event()
        self.on_lost: Callable[[str], None] = lambda why: None

    @contextlib.contextmanager
    def held(self) -> Iterator[Lease]:
        """Hold the lease inside the block; raise `HeldError` if another driver has it."""
        self._take()
        thread = threading.Thread(target=self._keep, name="lease", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join(BEAT_SECONDS)
            self._give_back()

    def _take(self) -> None:
        found = self._read()
        if found is not None and not _dead_here(found):
            self._wait_for_silence(found)
        self._beat()
        time.sleep(SETTLE_SECONDS)
        found = self._read()
        if found is not None and found["token"] != self._mine["token"]:
            raise HeldError(self._refusal(found))

    def _wait_for_silence(self, found: dict[str, Any]) -> None:
        """Watch the beats until the holder must be gone; raise `HeldError` if there is one."""
        end = time.monotonic() + STALE_SECONDS
        while time.monotonic() < end:
            time.sleep(0.5)
            now = self._read()
            if now is None:
                return
            if now != found:
                raise HeldError(self._refusal(now))

    def _refusal(self, holder: dict[str, Any]) -> str:
        return (
            f"{self._study} is already being run by {name(holder)}. Wait for it, or stop it "
            "and run the same command again."
        )

    def _beat(self) -> None:
        self._beats += 1
        now = {**self._mine, "beats": self._beats, "at": time.time()}
        self._store.write_json(self._key, now)

    def _keep(self) -> None:
        while not self._over.wait(BEAT_SECONDS):
            with contextlib.suppress(
                StoreError
            ):  # while the store is away, nobody else can take it
                found = self._read()
                if found is not None and found["token"] != self._mine["token"]:
                    self.on_lost(f"{self._study} was taken over by {name(found)}")
                    return
                self._beat()

    def _give_back(self) -> None:
        with contextlib.suppress(StoreError):
            found = self._read()
            if found is not None and found["token"] == self._mine["token"]:
                self._store.delete(self._key)

    def _read(self) -> dict[str, Any] | None:
        found = self._store.read_json(self._key)
        return found if isinstance(found, dict) and "token" in found else None


def holder(store: Store, key: str) -> str | None:
    """The driver that seems to run the study, without waiting for a beat."""
    found = store.read_json(f"studies/{key}/lease.json")
    if not isinstance(found, dict) or abs(time.time() - found.get("at", 0)) > RECENT_SECONDS:
        return None
    return name(found)


def name(found: dict[str, Any]) -> str:
    return f"process {found.get('pid')} on {found.get('host')} since {found.get('since')}"


def _dead_here(found: dict[str, Any]) -> bool:
    """Return whether the holder was a process on this host that has ended."""
    if found.get("host") != socket.gethostname():
        return False
    try:
        os.kill(int(found["pid"]), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, ValueError, TypeError):
        pass
    return False
