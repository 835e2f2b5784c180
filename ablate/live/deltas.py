"""What of a figure is new since a client drew it: points at the ends of its lines, or whole lines.

A figure is plotly's own plain data, `{"data": [...], "layout": {...}}`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

MOST_VERSIONS = 6  # of a figure, for clients that look now and then
POINTS = ("x", "y", "text", "hovertext", "customdata")  # a value for each point


class Versions:
    """The latest versions of one figure, by position."""

    def __init__(self) -> None:
        self._known: deque[tuple[int, Mapping[str, Any]]] = deque(maxlen=MOST_VERSIONS)
        self._described: Any = None

    def add(self, position: int, described: T, plain: Callable[[T], Mapping[str, Any]]) -> None:
        """Add the figure as it is now; one that has not changed keeps its position."""
        if described is self._described:  # written already
            return
        self._described, figure = described, plain(described)
        if not self._known or self._known[-1][1] != figure:
            self._known.append((position, figure))

    def since(self, position: int) -> dict[str, Any]:
        """What a client needs that drew the version of a position: nothing, a delta, or all."""
        at, latest = self._known[-1]
        if position >= at:
            return {"position": at}
        before = next((figure for when, figure in self._known if when == position), None)
        change = None if before is None else delta(before, latest)
        return {"position": at, **({"whole": latest} if change is None else {"delta": change})}


def delta(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any] | None:
    """What turns one figure into the other; None if their lines are not the same ones."""
    old, new = before["data"], after["data"]
    if [line.get("name") for line in old] != [line.get("name") for line in new]:
        return None
    extended, replaced = {}, {}
    for index, (one, other) in enumerate(zip(old, new, strict=True)):
        if one == other:
            continue
        added = _added(one, other)
        (replaced if added is None else extended)[index] = other if added is None else added
    layout = after["layout"] if before["layout"] != after["layout"] else None
    return {"extended": extended, "replaced": replaced, "layout": layout}


def _added(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[Any]] | None:
    """The points at a line's end that are new; None if anything else of it has changed."""
    if before.keys() != after.keys():
        return None
    added = {}
    for part, old in before.items():
        new = after[part]
        if part in POINTS and isinstance(old, list) and isinstance(new, list):
            if new[: len(old)] != old:
                return None
            added[part] = new[len(old) :]
        elif old != new:
            return None
    return added
