"""The kind of each recorded trial: only final ones are pairs of `compare --except`.

A trial is final if it counts for a result of a study, at a scale that is not a smoke scale. The
other trials belong to smoke scales, searches, ensembles, or stages that later stages build on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ablate.config.identity import StageName
from ablate.record.mirror.arms import TRIAL_FACTS, listed_trials

FINAL = "final"
SEARCHED = "of searches"
SMOKE = "smoke"
FACTS_OF_KINDS = (*TRIAL_FACTS, "scale")
Row = Mapping[str, Any]


def kinds_of(studies: Mapping[str, Row], trials: Sequence[Row]) -> dict[str, str]:
    """Trial -> its kind, from the studies' records by key, as they were stored, and the mirror's
    rows of trials (`FACTS_OF_KINDS`)."""
    counts = _counts(studies)
    return {row["trial"]: _kind(row, counts.get(row["trial"])) for row in trials}


def _counts(studies: Mapping[str, Row]) -> dict[str, tuple[bool, bool]]:
    """Trial -> whether it is final in some study, and whether all its studies are smoke scales."""
    counts: dict[str, tuple[bool, bool]] = {}
    for key, plain in studies.items():
        # Older records do not say `smoke`.
        smoke = plain.get("smoke") is True or key.endswith(f"@{SMOKE}")
        for trial, _, counted in listed_trials(plain):
            final, only_smoke = counts.get(trial, (False, True))
            counts[trial] = final or bool(counted and not smoke), only_smoke and smoke
    return counts


def _kind(row: Row, counted: tuple[bool, bool] | None) -> str:
    # A trial of no recorded study is judged by its own row alone.
    final, only_smoke = counted or (row["in_cell"] is not False, row["scale"] == SMOKE)
    if counted and final:
        return FINAL
    if only_smoke:
        return "of smoke scales"
    stage = row["stage"] or ""
    if stage == StageName.SEARCH or stage.endswith(f" {StageName.SEARCH}"):
        return SEARCHED
    if stage == StageName.ENSEMBLE:
        return "of ensembles"
    return FINAL if final else "of earlier stages"
