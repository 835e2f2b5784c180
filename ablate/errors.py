"""The errors a user can meet. Each names the value, where it is, what is valid, and a remedy.

AblateError                  exit code
├── ConfigError              2
│   ├── SpaceError           2
│   ├── StudyError           2
│   ├── CombinationError     2
│   └── StillRunning         2
├── CorpusError              3
├── StoreError               4
│   ├── DamagedError         4
│   ├── TakenOver            4
│   └── HeldError            4
├── TrialError               5
├── RecordError              6
├── MissingDependency        7
├── TechniqueError           8
└── Interrupted            130
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable
from importlib import metadata
from typing import NamedTuple

from ablate.redaction import redacted

DISTRIBUTION = "ablate-studies"  # the name that pip knows: its `ablate` is another project
OF_DEVELOPERS = ("dev", "docs")  # extras of a checkout
MAX_SHOWN = 120  # characters of a wrong value that a message shows


class AblateError(Exception):
    """A failure with a message fit to be the last thing a user reads, which has no secrets."""

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(redacted(str(message)))


class ConfigError(AblateError):
    """An invalid value, field or technique."""

    exit_code = 2


class SpaceError(ConfigError):
    """An invalid file of a search space."""


class StudyError(ConfigError):
    """An invalid study file."""


class CombinationError(ConfigError):
    """Techniques that cannot be combined."""


class StillRunning(ConfigError):
    """A query that goes on after its limit, in a thread that only ends with the process."""


class CorpusError(AblateError):
    """A corpus that is missing, damaged or not the pinned one."""

    exit_code = 3


class StoreError(AblateError):
    """A workspace or store that cannot be read or written."""

    exit_code = 4


class TakenOver(StoreError):
    """A trial that another worker runs now."""


class DamagedError(StoreError):
    """A damaged file in the store, and the remedy."""

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
    """Another process is running this study or trial."""


class TrialError(AblateError):
    """A trial that cannot run or does not exist."""

    exit_code = 5


class RecordError(AblateError):
    """A tracking server that does not accept records."""

    exit_code = 6


class MissingDependency(AblateError):
    """A command needs a package that is not installed."""

    exit_code = 7


class TechniqueError(AblateError):
    """An exception raised by the user's own study or technique."""

    exit_code = 8


class Interrupted(AblateError):
    """Stopped by Ctrl-C; finished work is saved."""

    exit_code = 130


def to_install(package: str) -> str:
    """Return the command that installs a package, by the name that it is imported by: that of the
    extra which has it, if one of ours has."""
    name = re.escape(package.replace("_", "-"))
    found = [each for each in required() if re.match(rf"{name}(?![\w.-])", each.package)]
    extra = next((each.extra for each in found if each.extra not in OF_DEVELOPERS), None)
    wanted = next((each.package for each in found), package.replace("_", "-"))
    return f"pip install {shlex.quote(f'{DISTRIBUTION}[{extra}]' if extra else wanted)}"


class Required(NamedTuple):
    """What this distribution requires, and for which extra; "" if always."""

    package: str  # `ray[tune]>=2.50`
    extra: str


def required() -> list[Required]:
    """Return every requirement, in the order of pyproject.toml."""
    try:
        texts = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # it is run from its folder
        return []
    pairs = (text.partition(";") for text in texts)
    return [Required(p.replace(" ", ""), _extra(condition)) for p, _, condition in pairs]


def _extra(condition: str) -> str:
    named = re.search(r"extra == ['\"]([\w-]+)", condition)
    return named[1] if named else ""


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
