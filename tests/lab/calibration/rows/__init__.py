"""A file for each promise."""

from __future__ import annotations

from tests.lab.calibration.row import Row
from tests.lab.calibration.rows import (
    advice,
    any_time,
    changed,
    claims,
    clusters,
    factorials,
    items,
    ladder_equivalent,
    ladder_trend,
    ladder_words,
    ledger,
    listed,
    looks,
    lost,
    pipeline,
    planned,
    published,
    same,
    shapes,
    tokens,
    tuned,
    two_noises,
)

ROWS: dict[str, Row] = {
    module.__name__.rpartition(".")[2]: module.ROW
    for module in (
        listed,
        tuned,
        pipeline,
        looks,
        any_time,
        changed,
        ledger,
        same,
        clusters,
        lost,
        ladder_trend,
        ladder_equivalent,
        ladder_words,
        advice,
        planned,
        factorials,
        published,
        claims,
        tokens,
        two_noises,
        items,
        shapes,
    )
}
