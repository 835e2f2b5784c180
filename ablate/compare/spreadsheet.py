"""A study's table as CSV: every number on its own and unrounded, a header and rows of one kind.

    arms       a row for an arm and split: `ablate table STUDY --format csv`
    effects    a row for an effect of a factorial: the same with `--effects`

Two tables, so two files; each row names the study, and the hash of the table it belongs to.
Verdicts are those of the table: on the split that decides, and with the holes that it has.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from ablate.compare.effects import Effect
from ablate.compare.rows import SPLITS, ArmSummary, Comparison, Summary

TESTED = (
    *("pairs", "delta_nats", "low_nats", "high_nats", "bootstrap_low_nats", "bootstrap_high_nats"),
    *("p", "p_sign_flip", "p_holm", "effect_size", "verdict", "reason", "more_seeds"),
)
MEASURED = ("unit", "mean", "spread", "seeds", "planned", "nats")
ARM = (
    *("study", "arm", "split", *MEASURED, *TESTED, "best"),
    *("published", "published_verdict", "num_parameters", "holes", "table"),
)
EFFECT = ("study", "effect", "kind", "aliases", "split", *TESTED, "holes", "table")


def arms(summary: Summary, key: str) -> str:
    """Of a split that decides there is a row for every arm, whether anything was found or not."""
    return _written(
        ARM,
        (
            _arm(summary, arm, split, key)
            for arm in summary.arms
            for split in SPLITS
            if split in arm.cells or split == summary.split
        ),
    )


def effects(summary: Summary, key: str) -> str:
    """Main effects and interactions, then those within the interactions that are decided."""
    found = summary.effects
    return _written(
        EFFECT,
        (
            _effect(summary, effect, key)
            for effect in ((*found.effects, *found.simple) if found else ())
        ),
    )


def _arm(summary: Summary, arm: ArmSummary, split: str, key: str) -> list[Any]:
    cell, decides = arm.cells.get(split), split == summary.split
    measured = (cell.mean, cell.spread, cell.num) if cell else (None, None, 0)
    verdict = summary.verdicts.get((arm.name, split))
    return [
        *(summary.record.key, arm.name, split, summary.unit, *measured, arm.counts.planned),
        *(cell and cell.nats, *_tested(arm.comparison if decides else None)),
        *(arm.best and decides, arm.published.get(split), verdict, arm.num_parameters),
        *(_holes([arm]), key),
    ]


def _effect(summary: Summary, effect: Effect, key: str) -> list[Any]:
    return [
        *(summary.record.key, effect.name, effect.kind, " = ".join(effect.aliases)),
        *(summary.split, *_tested(effect), _holes(summary.arms), key),
    ]


def _tested(found: Comparison | Effect | None) -> list[Any]:
    """What the statistics say, under the names of `TESTED`."""
    if found is None:
        return [None] * len(TESTED)
    difference, nothing = found.difference, (None, None)
    return [
        *(difference.num_pairs, difference.mean, *(difference.interval or nothing)),
        *(difference.bootstrap or nothing),
        *(difference.p, difference.p_sign_flip, found.p_holm, difference.effect_size),
        *(found.verdict, found.reason, found.more_seeds),
    ]


def _holes(arms: Iterable[ArmSummary]) -> int:
    return sum(arm.counts.planned - arm.counts.completed for arm in arms)


def _written(names: Sequence[str], rows: Iterable[list[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([["" if value is None else value for value in row] for row in rows])
    return text.getvalue().rstrip("\n")
