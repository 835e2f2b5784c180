"""Golden files: what the code gave when a person last read it.

`make goldens` sets ABLATE_REGENERATE=1 and writes them again; read the diff before committing it.
What the ids of recorded trials depend on (ids.json, and known entries of defaults.json) is written
by ABLATE_REGENERATE=ids alone: if it differs, every trial that users have recorded is another one.
"""

from __future__ import annotations

import difflib
import os
from typing import Literal

from tests.support import places


def regenerating(what: Literal["1", "ids"] = "1") -> bool:
    """Return whether golden files of this kind are to be written."""
    return os.environ.get("ABLATE_REGENERATE") == what


def golden(name: str, text: str, what: Literal["1", "ids"] = "1") -> str:
    """Return the text of a golden file, which is first written if it is being regenerated."""
    path = places.GOLDEN / name
    if regenerating(what):
        path.write_text(text, encoding="utf-8")
    return path.read_text(encoding="utf-8")


def changes(name: str, text: str) -> list[str]:
    """The lines in which a text differs from a golden file (pytest's own diff is slow)."""
    kept = golden(name, text)
    return list(difflib.unified_diff(kept.splitlines(), text.splitlines(), "kept", "now", n=0))
