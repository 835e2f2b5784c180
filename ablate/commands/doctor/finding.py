"""The checks of `ablate doctor`, and their findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ablate.errors import AblateError, to_install
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


@dataclass(frozen=True)
class Check:
    """Something that a study needs: its check, and the remedy if the check raises an error."""

    name: str
    run: Callable[[Workspace], Iterable[Finding]]
    way_out: str = "This is a bug in ablate."

    def findings(self, workspace: Workspace) -> list[Finding]:
        """Run the check; an error is a finding, too."""
        try:
            return list(self.run(workspace))
        except AblateError as error:
            return [Finding(FAIL, str(error), exit_code=error.exit_code)]
        except ModuleNotFoundError as error:
            missing = f"the package {error.name} is not installed"
            return [Finding(FAIL, missing, to_install(error.name or ""), 7)]
        except Exception as error:
            cause = first_cause(error)
            found = f"{type(cause).__name__}: {cause}"
            return [Finding(FAIL, found, self.way_out)]


def first_cause(error: BaseException) -> BaseException:
    """The error from which the others followed."""
    cause = error.__cause__ or error.__context__
    return first_cause(cause) if cause else error
