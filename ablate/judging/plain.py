"""JSON that says each thing once, and the parts of it that a cell of a row can have."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

LONGEST = 200  # characters: longer texts name nothing


def loaded(text: str | bytes) -> Any:
    """What JSON says; two keys of one name are refused."""
    return json.loads(text, object_pairs_hook=_object)


def refuse_doubled(names: Iterable[str]) -> None:
    """Refuse two columns of one name: which of them counts is unknown."""
    doubled = [name for name, num in Counter(names).items() if num > 1]
    if doubled:
        listed = ", ".join(f"'{name}'" for name in doubled)
        raise ValueError(f"it has two columns of one name, {listed}. Instead: a name for each")


def scalars(values: Any, before: str) -> dict[str, Any]:
    """Numbers and short texts by their names, with a beginning that says what they are of."""
    known = values.items() if isinstance(values, Mapping) else ()
    return {
        f"{before}{name}": value
        for name, value in known
        if isinstance(value, int | float) or (isinstance(value, str) and len(value) <= LONGEST)
    }


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        refuse_doubled(name for name, _ in pairs)
    return values
