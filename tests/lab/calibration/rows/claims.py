"""A paper's difference that is one more run of each of our arms."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ablate.compare.judged import Judged
from ablate.compare.statistics.claims import claims
from tests.lab.calibration.draws import arms_of, half_width
from tests.lab.calibration.row import Case, Limit, Row, Simulated, rate
from tests.support.studies_by_hand import ByHand

SPREAD = 0.05  # nats, of a difference: a paper's decimal is small beside it


def replicated(generator: np.random.Generator, num: int, *, seeds: int) -> Simulated:
    """Two arms that differ, on our seeds and on the paper's one."""
    losses = arms_of(generator, num, 2, seeds + 1)
    deltas = losses[:, 1] - losses[:, 0]
    ours, theirs = deltas[:, :-1], deltas[:, -1]
    mean = ours.mean(-1)
    in_interval = np.abs(theirs - mean) <= half_width(ours)
    return Simulated(rate(np.array([not _within(table) for table in losses])), rate(~in_interval))


def _within(losses: np.ndarray) -> bool | None:
    """Return whether a table says that its last seed, as published, is within one run of ours."""
    nats = 4 + SPREAD * (losses - [[0.0], [1.0]])
    study = ByHand(dict(zip(("base", "arm"), nats[:, :-1].tolist(), strict=True)))
    study.arm_fields = {
        name: {"published": {"test": round(math.exp(loss), 1)}}
        for name, loss in zip(("base", "arm"), nats[:, -1].tolist(), strict=True)
    }
    (claim,) = claims(Judged(study.record, study.journals))
    return claim.within_one_run


ROW = Row(
    name="Claims",
    promise="Of a paper that has one more run of each of our arms, the table says that its "
    "difference is not within one run of ours in at most 5%.",
    draws="Normal noise; two arms that differ, whose seeds share a part of their noise. The paper "
    "prints one decimal.",
    of="claims that are not within one run of ours",
    limit=Limit(most=5.5),
    twin="the paper's difference lies beyond the interval of our mean",
    cases=tuple(Case(f"{seeds} seeds", partial(replicated, seeds=seeds)) for seeds in (3, 5, 12)),
)
