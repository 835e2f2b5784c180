"""What a user wants done with recorded trials of earlier code; see `earlier.py`."""

from __future__ import annotations

from enum import StrEnum

from ablate.errors import StudyError


class Choice(StrEnum):
    """What to do with trials of earlier code."""

    ASK = "ask"
    KEEP = "keep"
    AGAIN = "again"


def choice(*, keep: bool, again: bool) -> Choice:
    """What a user has chosen: one of the two, or neither."""
    if keep and again:
        raise StudyError(
            "keep and again: trials of earlier code are either kept or trained again. Leave out "
            "one of the two."
        )
    return Choice.KEEP if keep else Choice.AGAIN if again else Choice.ASK
