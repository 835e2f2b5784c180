"""Rows of results, made into a study's record and its trials' journals, as if ablate had run them.

So an imported study has the table, plots, page and queries of any other, and is marked as imported.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ablate.config.identity import Trial
from ablate.config.metrics import Metric
from ablate.judging.rows import LOST, RUNNING, Row
from ablate.judging.variants import values_of
from ablate.results.sizes import size_on_scale
from ablate.results.spread import mean, spread
from ablate.store.epoch import Epoch
from ablate.store.journal import Journal
from ablate.store.outcome import Outcome, Status
from ablate.store.study_record import ArmRecord, InterimLook, PlannedTrial, StudyRecord

SCALE = "imported"  # in the study's key
RUNNER = "imported"  # of trials that were not run here
SPLIT = "valid"  # the one that imported numbers are kept as; their own name is the metric's
NOTHING: Mapping[str, Any] = {  # of a study of ablate's
    "question": "", "paper": "", "tables": (), "file": "",
    "corpus": "", "corpus_digest": "", "level": "",
}  # fmt: skip
NOTED_RATIO = 1.1  # an arm that costs this many times as much as its base is a caution


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The looks at a study that was run elsewhere, in numbers of pairs."""

    looks: tuple[int, ...] = ()  # planned before the first; empty: one, at the end
    made: tuple[int, ...] = ()  # this one, too; empty: this is the only one
    seen: tuple[str, ...] = ()  # the seeds in the order in which they were seen, as far as known

    @property
    def holds(self) -> bool:
        """Return whether looks were planned, and none was made but these."""
        return bool(self.looks) and set(self.made) <= set(self.looks)


@dataclass(frozen=True)
class Imported:
    """A study that was run elsewhere."""

    record: StudyRecord
    journals: Mapping[str, Journal]


def imported(
    rows: Sequence[Row],
    metric: Metric,
    *,
    base: str,
    source: str,
    command: str = "",
    margin: str | float | None = None,
    plan: Planned = Planned(),
    notes: Sequence[str] = (),
) -> Imported:
    """The study that these rows are of; `base` is the arm that others are compared with."""
    seeds = _in_order({row.seed for row in rows}, plan.seen)
    at = {seed: index for index, seed in enumerate(seeds)}
    trials = [_trial(row, at[row.seed], _key(source), metric) for row in rows]
    names = _base_first(dict.fromkeys(row.arm for row in rows), base)
    record = StudyRecord(
        name=_key(source),
        scale=SCALE,
        command=command,
        num_seeds=plan.looks[-1] if plan.holds else max(pairs_with(rows, base).values()),
        base_arm=base,
        arms=tuple(ArmRecord(name=name) for name in names),
        trials=tuple(
            _planned(trial, at[row.seed]) for trial, row in zip(trials, rows, strict=True)
        ),
        notes=(*notes, *_notes(rows, base)),
        judged_by=metric,
        margin=size_on_scale("margin", margin, metric, source),
        looks=plan.looks,
        made=tuple(InterimLook(num=num) for num in plan.made),
        imported=source,
        **NOTHING,
    )
    pairs = zip(trials, rows, strict=True)
    ended = ((trial, row) for trial, row in pairs if row.state not in RUNNING)
    return Imported(record, {trial.id: _journal(trial, row, metric) for trial, row in ended})


def pairs_with(rows: Sequence[Row], base: str) -> dict[str, int]:
    """Arm -> how many seeds it shares with the base; without the base."""
    seeds = {arm: set(values) for arm, values in values_of(rows).items()}
    return {arm: len(own & seeds[base]) for arm, own in seeds.items() if arm != base}


def _planned(trial: Trial, seed_index: int) -> PlannedTrial:
    return PlannedTrial(
        id=trial.id,
        arm=trial.arm,
        stage=trial.stage,
        seed=trial.seed,
        seed_index=seed_index,
        final=True,
    )


def metric_of(name: str, better: str, scale: str, rows: Sequence[Row]) -> Metric:
    """The metric of a column, with as many decimals as its numbers are good for."""
    by_arm: dict[str, list[float]] = {}
    for row in rows:
        if row.value is not None:
            by_arm.setdefault(row.arm, []).append(row.value)
    spreads = [own for values in by_arm.values() if (own := spread(values))]
    # Two digits of the narrowest spread, as one would round a mean that is given with it.
    digits = 1 - math.floor(math.log10(min(spreads))) if spreads else 2
    return Metric(
        # A dot would make what stands before it an evaluator.
        name.replace(".", "_"),
        better=better,
        scale=scale,
        shown=name,
        digits=max(0, min(9, digits)),
    )


def _key(source: str) -> str:
    """A name for the study, made from the file's, that a folder can have."""
    stem = re.split(r"[\\/]", source.rstrip("/"))[-1].rsplit(".", 1)[0]
    return re.sub(r"[^A-Za-z0-9_-]+", "_", stem).strip("_") or "results"


def _in_order(seeds: Iterable[str], seen: Sequence[str]) -> list[str]:
    """Seeds in the order in which they were seen, the others by number, and then by name."""
    rank = {seed: at for at, seed in enumerate(seen)}

    def order(seed: str) -> tuple[int, bool, int, str]:
        number = _as_number(seed)
        return rank.get(seed, len(rank)), number is None, number or 0, seed

    return sorted(seeds, key=order)


def _as_number(seed: str) -> int | None:
    return int(seed) if re.fullmatch(r"-?\d{1,18}", seed) else None


def _base_first(names: Iterable[str], base: str) -> list[str]:
    return sorted(names, key=lambda name: name != base)


def _trial(row: Row, index: int, key: str, metric: Metric) -> Trial:
    """A trial whose id is a hash of what was imported: the same row is the same trial."""
    known = json.dumps([row.arm, row.seed, metric.name, row.value, row.cost])
    seed = _as_number(row.seed)
    return Trial(
        id=hashlib.sha256(known.encode()).hexdigest()[:16],
        values={},
        seed=index + 1 if seed is None else seed,
        corpus_digest="",
        runner=RUNNER,
        study=key,
        scale=SCALE,
        arm=row.arm,
    )


def _journal(trial: Trial, row: Row, metric: Metric) -> Journal:
    if row.state:
        which = "the worker process" if row.state in LOST else "its run"
        reason = f"{which} {row.state}, as its row says"
        return Journal(trial, outcome=Outcome(status=Status.FAILED, reason=reason))
    if row.value is None:
        reason = "its row has no finite number"
        return Journal(trial, outcome=Outcome(status=Status.DIVERGED, reason=reason))
    metrics, slope = {metric.key(SPLIT): row.value}, metric.slope(row.value)
    deviations = row.deviations and tuple(slope * own for own in row.deviations)
    outcome = Outcome(
        status=Status.COMPLETED,
        metrics=metrics,
        deviations=deviations,
        deviations_of=row.deviations_of,
    )
    return Journal(trial, epochs=[Epoch(1, metrics)], outcome=outcome)


def _notes(rows: Sequence[Row], base: str) -> Iterable[str]:
    """What is unusual about these rows: seeds that have no pair, and what the arms cost."""
    seeds: dict[str, set[str]] = {}
    costs: dict[str, list[float]] = {}
    for row in rows:
        seeds.setdefault(row.arm, set()).add(row.seed)
        if row.cost is not None:
            costs.setdefault(row.arm, []).append(row.cost)
    alone = {arm: own ^ seeds[base] for arm, own in seeds.items() if own ^ seeds[base]}
    if alone:
        listed = "; ".join(
            f"{arm} {len(own & seeds[base])}" for arm, own in seeds.items() if arm in alone
        )
        yield f"Not every seed has a pair with '{base}'; seeds that have one: {listed}."
    yield from _costs({arm: mean(own) for arm, own in costs.items()}, base)


def _costs(costs: Mapping[str, float], base: str) -> Iterable[str]:
    if not costs.get(base):
        return
    times = {arm: cost / costs[base] for arm, cost in costs.items() if arm != base}
    unequal = {arm: t for arm, t in times.items() if not 1 / NOTED_RATIO <= t <= NOTED_RATIO}
    if unequal:
        listed = ", ".join(f"{arm} {times:.2f} times" for arm, times in unequal.items())
        yield (
            f"The arms do not cost the same. Next to '{base}': {listed}. A longer or larger "
            "training may be all that a difference shows."
        )
