"""Draws as studies: records and journals by hand, through the code that makes tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from ablate.compare.judged import Judged
from ablate.store.study_record import SearchRecord
from tests.support.studies_by_hand import ByHand

NAMES = [f"arm {i}" for i in range(32)]
SMALL = 0.01  # nats: a spread of 1 as that of a study, far from any metric's rounding


def table_of(
    losses: np.ndarray, design: Any = None, deviations: np.ndarray | None = None, **fields: Any
) -> Judged:
    """The table of losses [arm, seed]; the first arm is the base arm.

    Of a design, arms are in its order. `deviations`: [arm, seed, block], of a text.
    """
    names = NAMES[: len(losses)] if design is None else [arm.name for arm in design.arms]
    values = [(5 + SMALL * arm).tolist() for arm in losses]
    blocks = [] if deviations is None else (SMALL * deviations).tolist()
    study = ByHand(
        dict(zip(names, values, strict=True)),
        base_arm=names[0],
        deviations=dict(zip(names, blocks, strict=False)),
    )
    if design is not None:
        study.arm_fields = {arm.name: {"levels": dict(arm.levels)} for arm in design.arms}
        fields = {"design": design.kind, **fields}
    study.record_fields = fields
    return Judged(study.record, study.journals)


def tuned_table(losses: np.ndarray) -> Judged:
    """The table of losses [arm, search, seed]."""
    num_arms, num_searches, num_seeds = losses.shape
    searches = tuple(
        SearchRecord(arm=arm, repeat=repeat, num_trials=2)
        for repeat in range(num_searches)
        for arm in NAMES[:num_arms]
    )
    return table_of(losses.reshape(num_arms, -1), num_seeds=num_seeds, searches=searches)


def words(summary: Judged) -> list[str]:
    """The verdict on each arm other than the base arm."""
    return [str(arm.comparison.verdict) for arm in summary.arms if arm.comparison is not None]


def decides(summary: Judged) -> bool:
    """Return whether the table calls some arm better or worse."""
    return any(arm.comparison.verdict.decided for arm in summary.arms if arm.comparison)


def page_decides(summary: Judged) -> bool:
    """Return whether the page calls some arm or effect better or worse."""
    effects = summary.effects
    shown = () if effects is None else (*effects.effects, *effects.simple)
    return decides(summary) or any(effect.verdict.decided for effect in shown)
