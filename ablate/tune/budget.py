"""The hours that a study may take, and those that it took so far, saved to survive a restart."""

from __future__ import annotations

from typing import Any

from ablate.errors import DamagedError
from ablate.store.store import Store, damaged

SAVE_SECONDS = 60.0  # the longest time that a killed driver leaves uncounted


class Ledger:
    """The account of one study."""

    def __init__(self, store: Store, key: str, hours: float | None) -> None:
        self.store, self.hours = store, hours
        self._key = f"studies/{key}/ledger.json"
        self.seconds = self._saved()
        self._unsaved = 0.0  # seconds

    def _saved(self) -> float:
        """The seconds that were saved earlier. Without a budget their damage is no error."""
        try:
            return self._read()
        except DamagedError:
            if self.hours is not None:
                raise
            return 0.0

    def _read(self) -> float:
        saved: Any = self.store.read_json(self._key) or {}
        seconds = saved.get("seconds", 0.0) if isinstance(saved, dict) else None
        if not isinstance(seconds, int | float):
            raise damaged(self.store, self._key, "it is not a ledger")
        return seconds

    @property
    def overtime(self) -> str | None:
        """Why running trials should save and stop, and none may start; or None."""
        if self.hours is not None and self.seconds >= self.hours * 3600:
            return f"the budget of {self.hours:g} hours is spent"
        return None

    def passed(self, seconds: float) -> None:
        """Count time in which the driver ran."""
        self.seconds += seconds
        self._unsaved += seconds
        if self.hours is not None and self._unsaved >= SAVE_SECONDS:
            self.write()

    def write(self) -> None:
        """Save the account."""
        self._unsaved = 0.0
        account = {"seconds": self.seconds, "limits": {"hours": self.hours}}
        self.store.write_json(self._key, account)
