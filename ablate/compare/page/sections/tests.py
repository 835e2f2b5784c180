"""Every difference with its test."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.compare.judged import Judged
from ablate.compare.page.parts import Grid, Section, small
from ablate.compare.table.full_table import every_test
from ablate.store.store import Store


def sections(judged: Judged, store: Store) -> Iterator[Section]:
    """The tests of arms and of effects, unless nothing is compared yet."""
    table = every_test(judged)
    if table is not None:
        yield Section("Tests in full", [Grid(table), *small(table.notes)])
