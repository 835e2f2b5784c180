"""What decides a trial's pairs: its own setting, and those of all that it builds on. Pure."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from ablate.store import journal

Setting = tuple[str, str]  # a field and its value
# What is named of a trial, and then of what it builds on.
Variant = tuple[tuple[Setting, ...], ...]
NOTHING: Variant = ((),)
# Columns of a row that are no facts: a hash of what is not named, and values.
OWN, UNNAMED, NAMED = "own setting", "unnamed values", "named values"


class Unnamed(NamedTuple):
    """The values of a regularizer's unnamed fields, where other fields of it are named."""

    present: bool
    inert: bool  # without the named fields it would do nothing
    values: tuple[str | None, ...]

    def agrees(self, other: Unnamed) -> bool:
        """Return whether these fields allow two trials to be a pair."""
        if self.present and other.present:
            return self.values == other.values
        return self.present == other.present or (self if self.present else other).inert


class Lineage(NamedTuple):
    """The values of a trial and of its ancestors."""

    setting: str  # hash of everything but the seeds, the variant and `unnamed`
    unnamed: tuple[Unnamed, ...] = ()
    variant: Variant = NOTHING
    computed_by: frozenset[str] = frozenset()
    seeds: tuple[int | None, ...] = ()  # of all that it builds on

    def agrees(self, other: Lineage) -> bool:
        """Return whether all unnamed fields allow a pair."""
        pairs = zip(self.unnamed, other.unnamed, strict=True)
        return all(ours.agrees(theirs) for ours, theirs in pairs)


def texts(variant: Variant) -> list[list[str]]:
    """The settings of a variant, such as `head=mos`, for each stage."""
    return [[f"{name}={value}" for name, value in stage] for stage in variant]


def lineages(
    rows: Mapping[str, Mapping[str, Any]], named: Sequence[str]
) -> Callable[[str], Lineage]:
    """The lineage of a trial, by its id; `named` are the fields of which rows have the values."""

    @cache
    def lineage_of(trial: str) -> Lineage:
        if trial not in rows:  # never recorded: such a trial equals only itself
            return Lineage(trial)
        row = rows[trial]
        ways = _ways(row["computed_by"], row["processes"])
        unnamed = [Unnamed(there, inert, tuple(values)) for there, inert, values in row[UNNAMED]]
        own = tuple((n, v) for n, v in zip(named, row[NAMED], strict=True) if v is not None)
        if not row["parents"]:
            return Lineage(row[OWN], tuple(unnamed), (own,), ways)
        variants: list[Variant] = [(own,)]
        content, seeds = [row[OWN]], []
        for parent in row["parents"].split(", "):
            role, _, parent_id = parent.partition(":")
            before = lineage_of(parent_id)
            seeds += [rows[parent_id]["seed"] if parent_id in rows else None, *before.seeds]
            content.append(f"{role}:{before.setting}")
            unnamed += before.unnamed
            variants.append(before.variant)
            ways |= before.computed_by
        # Only a key; systems in FIPS mode refuse md5 for anything that has to be secure.
        setting = hashlib.md5(json.dumps(content).encode(), usedforsecurity=False).hexdigest()
        # A variant that stages share is named once.
        variant = tuple(itertools.chain.from_iterable(dict.fromkeys(variants)))
        return Lineage(setting, tuple(unnamed), variant, ways, tuple(seeds))

    return lineage_of


@cache
def _ways(computed_by: str | None, processes: int | None) -> frozenset[str]:
    entries = [journal.UNKNOWN] if computed_by is None else computed_by.split("; ")
    return journal.ways(entries, processes)
