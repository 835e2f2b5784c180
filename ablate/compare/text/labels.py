"""Short names that can still be told apart, for pictures and live views."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence


def labels(names: Sequence[str], most: int = 34) -> list[str]:
    """Return the names, each of at most `most` characters (4 or more), and different if they were.

    A long name is cut in its middle; names that are alike at both ends, before what tells them
    apart; and if that is too long as well, they are numbered.
    """
    cut = {name: _cut(name, most) for name in names}
    for again in (_cut_before_difference, _numbered):
        for group in _alike(cut):
            long = [name for name in group if len(name) > most]  # a short one stays as it is
            cut |= again(long, most, [*cut.values()])
    return [cut[name] for name in names]


def _alike(cut: Mapping[str, str]) -> list[list[str]]:
    """The names that have one label."""
    groups: dict[str, list[str]] = {}
    for name, label in cut.items():
        groups.setdefault(label, []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _cut(name: str, most: int) -> str:
    """The name without its middle."""
    tail = (most - 1) // 2
    return name if len(name) <= most else f"{name[: most - 1 - tail]}…{name[len(name) - tail :]}"


def _cut_before_difference(group: Sequence[str], most: int, taken: Sequence[str]) -> dict[str, str]:
    columns, head = zip(*group, strict=False), (most - 2) // 3
    shared = sum(1 for _ in itertools.takewhile(lambda chars: len({*chars}) == 1, columns))
    ends = {name: name[max(head, shared - 1) :] for name in group}
    return {name: f"{name[:head]}…{_cut(end, most - head - 1)}" for name, end in ends.items()}


def _numbered(group: Sequence[str], most: int, taken: Sequence[str]) -> dict[str, str]:
    numbered: dict[str, str] = {}
    for name in group:
        made = (f"{name[: most - 1 - len(str(i))]}…{i}" for i in itertools.count(1))
        numbered[name] = next(x for x in made if x not in (*taken, *numbered.values()))
    return numbered
