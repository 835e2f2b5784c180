"""The errors a user can meet. Each names the value, the place, what is allowed, and the way out.

AblateError                  exit code
├── ConfigError              2   a value, a field or a technique that cannot be
│   ├── SpaceError           2   a search-space file that cannot be read as one
│   ├── StudyError           2   a study file that cannot be read as one
│   └── CombinationError     2   techniques that make no sense together
├── CorpusError              3   a corpus that is missing, damaged or not the pinned one
├── StoreError               4   a workspace or store that cannot be read or written
│   └── HeldError            4   somebody else is running this study
├── TrialError               5   a trial that cannot run, or is not there
├── RecordError              6   a tracking server that does not take records
├── MissingDependency        7   a command that needs a package that is not installed
├── TechniqueError           8   an exception raised by the user's own study or technique
└── Interrupted            130   stopped by Ctrl-C; everything done is kept
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST = 120  # characters of a wrong value that a message shows


class AblateError(Exception):
    """A failure with a message fit to be the last thing a user reads."""

    exit_code = 1


class ConfigError(AblateError):
    exit_code = 2


class SpaceError(ConfigError):
    pass


class StudyError(ConfigError):
    pass


class CombinationError(ConfigError):
    pass


class CorpusError(AblateError):
    exit_code = 3


class StoreError(AblateError):
    exit_code = 4


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


def nearest(found: str, valid: Iterable[str]) -> str | None:
    """The valid spelling that `found` was probably meant to be."""
    matches = difflib.get_close_matches(found, list(valid), n=1, cutoff=0.5)
    return matches[0] if matches else None


def unknown(kind: str, found: object, valid: Iterable[str], place: str = "") -> str:
    """The text for a name that does not exist: the place, the name, the choices, the nearest."""
    choices = [str(name) for name in valid]
    where = f"{place}: " if place else ""
    hint = nearest(str(found), choices)
    meant = f" Did you mean '{hint}'?" if hint else ""
    allowed = ", ".join(choices) if choices else "there are none"
    return f"{where}unknown {kind} '{found}'.{meant} Allowed: {allowed}."


def wrong_value(field: str, found: object, allowed: str, place: str = "") -> str:
    """The text for a value that a field cannot take."""
    where = f"{place}: " if place else ""
    return f"{where}{field} = {_short(repr(found))} is not allowed. Allowed: {allowed}."


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."
