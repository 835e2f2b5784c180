"""The fields that an arm's search leaves alone, because the study asks about them.

A field that some arm sets tells arms apart. An arm that does not set it keeps its own value, and
its search skips the space's row for it; otherwise a control could adopt the treatment. The same
holds for the technique of a slot in which arms differ, for example by their recipes.

An exception: numbers that arms only set to 0 are searched in the arms that do not, which have the
technique on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ablate.config.config import Config
from ablate.config.registry import single_slots
from ablate.space.row import Choices, Fixed, Range, Row, same
from ablate.space.space import Space
from ablate.study.words import Values

SHOWN = 3  # arms that a note names


@dataclass(frozen=True, kw_only=True)
class TunedArm:
    """An arm before its search."""

    space: Space  # with the values of the arm's column
    own: Values  # what the arm sets
    fixed: Values  # what the scale sets too: never searched
    config: Config

    def sets(self, field: str) -> bool:
        """Return whether the arm sets the field, or a choice around it."""
        return any(_whole(name) == _whole(field) for name in self.own)

    def changes(self, row: Row, fixed: Values) -> bool:
        """Return whether a search of this arm may change the row's field."""
        flat = self.config.flat
        if {row.name, row.field} & fixed.keys() or self.space.excludes(row, fixed, flat):
            return False
        if isinstance(row.domain, Fixed):
            return not same(row.domain.value, flat.get(str(row.field)))
        return isinstance(row.domain, Choices | Range)

    def searches(self, field: str, left: Values) -> bool:
        """Return whether the arm's search varies the field, with these values left alone."""
        rows = [row for row in self.space.rows if row.field == field]
        fixed = {**self.fixed, **left}
        return any(not isinstance(r.domain, Fixed) and self.changes(r, fixed) for r in rows)


def left_alone(arms: Mapping[str, TunedArm]) -> dict[str, dict[str, Any]]:
    """Return the fields that an arm does not set and its search must not change, by arm.

    Each has its value, or None if the arm has no such field.
    """
    differing = _differing(arms)
    left: dict[str, dict[str, Any]] = {}
    for name, arm in arms.items():
        unsearched = left[name] = {}
        for row in arm.space.order:
            field = row.field or ""
            studied = _whole(field) in differing and not arm.sets(field)
            # Rows before this one count, since its condition may depend on them.
            if studied and arm.changes(row, {**arm.fixed, **unsearched}):
                unsearched[field] = arm.config.flat.get(field)
    return left


def notes(arms: Mapping[str, TunedArm], left: Mapping[str, Values]) -> list[str]:
    """Return notes on the fields that some arms set and the space has a row for."""
    lines = []
    rows = (row for arm in arms.values() for row in arm.space.rows if row.field)
    for field in dict.fromkeys(str(row.field) for row in rows):
        keeping = [_keeps(name, values[field]) for name, values in left.items() if field in values]
        setting = [f"'{name}'" for name, arm in arms.items() if arm.sets(field)]
        searching = [f"'{n}'" for n, arm in arms.items() if arm.searches(field, left[n])]
        if keeping:
            lines.append(f"{field} tells arms apart, and is not searched in {_listed(keeping)}.")
        if setting and searching:
            lines.append(
                f"{field} is set by {_listed(setting)}, and searched in {_listed(searching)}."
            )
    return lines


def _differing(arms: Mapping[str, TunedArm]) -> set[str]:
    """Return the fields and slots that tell arms apart."""
    set_by_arms: dict[str, list[Any]] = {}
    for arm in arms.values():
        for field, value in arm.own.items():
            set_by_arms.setdefault(_whole(field), []).append(value)
    # A number that arms only set to 0 is searched where the technique is on.
    differing = {field for field, values in set_by_arms.items() if not all(map(_off, values))}
    neural = [arm.config for arm in arms.values() if arm.config.kind.assembles]
    for slot in single_slots():
        if len({c[slot].name for c in neural if slot in c.slots}) > 1:
            differing.add(slot)
    return differing


def _whole(field: str) -> str:
    """Return `backbone.units` for `backbone.units[0]`."""
    return field.partition("[")[0]


def _off(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and value == 0)


def _keeps(arm: str, value: Any) -> str:
    return f"'{arm}'" if value is None else f"'{arm}' ({json.dumps(value)})"


def _listed(arms: Sequence[str]) -> str:
    more = f" and {len(arms) - SHOWN} more" if len(arms) > SHOWN else ""
    return ", ".join(arms[:SHOWN]) + more
