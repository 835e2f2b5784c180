"""What a check of `ablate doctor` returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ablate.redaction import redacted
from ablate.store.workspace import Workspace

OK, WARN, FAIL = "ok", "warn", "FAIL"


@dataclass(frozen=True)
class Finding:
    """The result of a check, and a remedy if something is wrong; no text of it has secrets."""

    state: str
    found: str
    remedy: str = ""
    exit_code: int = 4  # of the command, if this is the first failure

    def __post_init__(self) -> None:
        object.__setattr__(self, "found", redacted(self.found))
        object.__setattr__(self, "remedy", redacted(self.remedy))


Check = Callable[[Workspace], Iterable[Finding]]
