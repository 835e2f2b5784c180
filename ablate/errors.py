"""The errors a user can meet. Each names the value, where it is, what is valid, and a remedy.

AblateError                  exit code
├── ConfigError              2   an invalid value, field or technique
│   ├── SpaceError           2   an invalid search-space file
│   ├── StudyError           2   an invalid study file
│   ├── CombinationError     2   techniques that cannot be combined
│   └── StillRunning         2   a query that goes on after its limit
├── CorpusError              3   a corpus that is missing, damaged or not the pinned one
├── StoreError               4   a workspace or store that cannot be read or written
│   ├── DamagedError         4   a file in the store that is not what was written
│   ├── TakenOver            4   a trial that another worker runs now
│   └── HeldError            4   another process is running this study or trial
├── TrialError               5   a trial that cannot run or does not exist
├── RecordError              6   a tracking server that does not accept records
├── MissingDependency        7   a command that needs a package that is not installed
├── TechniqueError           8   an exception raised by the user's own study or technique
└── Interrupted            130   stopped by Ctrl-C; finished work is saved
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable
from importlib import metadata

from ablate.redaction import redacted

MAX_SHOWN = 120  # characters of a wrong value that a message shows


class AblateError(Exception):
    """A failure with a message fit to be the last thing a user reads, which has no secrets."""

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(redacted(str(message)))


class ConfigError(AblateError):
    exit_code = 2


class SpaceError(ConfigError):
    pass


class StudyError(ConfigError):
    pass


class CombinationError(ConfigError):
    pass


class StillRunning(ConfigError):
    """What was asked goes on in a thread that nothing stops but the end of the process."""


class CorpusError(AblateError):
    exit_code = 3


class StoreError(AblateError):
    exit_code = 4


class TakenOver(StoreError):
    pass


class DamagedError(StoreError):
    """The damage, and what to do about it."""

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.args = (*self.args, redacted(remedy))

    @property
    def what(self) -> str:
        """What is damaged."""
        return self.args[0]

    def __str__(self) -> str:
        return " ".join(filter(None, self.args))


class HeldError(StoreError):
    pass


class TrialError(AblateError):
    exit_code = 5


class RecordError(AblateError):
    exit_code = 6


class MissingDependency(AblateError):
    exit_code = 7


class TechniqueError(AblateError):
    exit_code = 8


class Interrupted(AblateError):
    exit_code = 130


def to_install(package: str) -> str:
    """Return the command that installs a package, by the name that it is imported by.

    It names the package, since the `ablate` of an index of packages is not this one.
    """
    name = package.replace("_", "-")
    try:
        required = metadata.requires("ablate") or []
    except metadata.PackageNotFoundError:  # it is run from its folder
        required = []
    wanted = (each.partition(";")[0].replace(" ", "") for each in required)
    found = next((each for each in wanted if re.match(rf"{re.escape(name)}(?![\w.-])", each)), name)
    return f"pip install {shlex.quote(found)}"


def needs(what: str, package: str) -> str:
    """Compose the message that a package is missing; `what` needs it, with its verb."""
    missing = f"{what} the package {package}, which is not installed."
    return f"{missing} Install it with: {to_install(package)}"


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """Return the valid name that `name` is probably a misspelling of."""
    matches = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.5)
    return matches[0] if matches else None


def unknown(kind: str, name: object, valid: Iterable[str], where: str = "") -> str:
    """Compose the message for a name that does not exist, with the closest valid spelling."""
    choices = [str(choice) for choice in valid]
    prefix = f"{where}: " if where else ""
    match = nearest(str(name), choices)
    hint = f" Did you mean '{_shortened(match)}'?" if match else ""
    shown = ", ".join(map(_shortened, choices))
    expected = f"Expected one of: {shown}" if choices else "There are none"
    return f"{prefix}unknown {kind} '{_shortened(str(name))}'.{hint} {expected}."


def wrong_value(field: str, value: object, expected: str, where: str = "") -> str:
    """Compose the message for a value that a field cannot have."""
    prefix = f"{where}: " if where else ""
    return f"{prefix}{field} = {_shortened(_written(value))} is not allowed. Expected: {expected}."


def _written(value: object) -> str:
    try:
        return repr(value)
    except (ValueError, RecursionError):  # Python writes no whole number of over 4,300 digits
        return f"{type(value).__name__} too long to show"


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 4]} ..."
