"""TODO: say what this is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ablate.store.workspace import Workspace

OK, WARN, FAIL = "ok", "warn", "FAIL"


@dataclass(frozen=True)
class Finding:
    """What a check found, and the way out where something is amiss."""

    state: str
    found: str
    remedy: str = ""
    exit_code: int = 4  # of the command, where this is the first failure


Check = Callable[[Workspace], Iterable[Finding]]
