"""Flat values over others: an arm's over a recipe's, a sampler's over an arm's. Later ones win."""

from __future__ import annotations

from typing import Any

from ablate.config import fields, registry
from ablate.config.resolve import NONE, Values, can_read, kind_of
from ablate.config.tasks import Kind


def merge(base: Values, changes: Values, where: str = "changes") -> dict[str, Any]:
    """Apply `changes` to `base`. If a slot's technique changes, fields that both have remain."""
    merged = _without_cleared(base, changes)
    for slot in registry.single_slots():
        if slot in changes and changes[slot] != base.get(slot):
            config_type = registry.get(slot, str(changes[slot]), where).config
            valid = {info.name for info in fields.describe(config_type)}
            for key in [k for k in merged if k.startswith(f"{slot}.")]:
                if key.split(".", 1)[1].split("[")[0] not in valid:
                    del merged[key]
    for key in changes:  # a whole list replaces single elements set before
        if "[" not in key:
            merged = {k: v for k, v in merged.items() if not k.startswith(f"{key}[")}
    return {**merged, **changes}


def _without_cleared(base: Values, changes: Values) -> dict[str, Any]:
    """Drop what the changes clear.

    `"regularizer": "none"` clears the whole list; another kind of task clears what it has not.
    """
    remaining = dict(base)
    for slot in registry.listed_slots():
        if changes.get(slot) == NONE:
            remaining = {k: v for k, v in remaining.items() if k.partition(".")[0] != slot}
    if "model" in changes or "task" in changes:
        kind = kind_of({**base, **changes})
        used = (*kind.sections, *kind.slots)
        remaining = {k: v for k, v in remaining.items() if k.partition(".")[0] in used}
        if "evaluator" in used:
            remaining = {k: v for k, v in remaining.items() if _is_readable(k, v, kind)}
    return remaining


def _is_readable(key: str, value: Any, kind: Kind) -> bool:
    """Return whether a value is of an evaluator that such trials can have, or of none at all."""
    slot, _, rest = key.partition(".")
    name = rest.partition(".")[0] or str(value)
    return slot != "evaluator" or name not in registry.names(slot) or can_read(name, kind)
