"""How the runs of a study's arms should look, and what charts show of a study: pure functions.

A study's run holds the runs of its arms, and an arm's run those of its trials. All of them have the
study's numbers by finished trials: an arm's run its own, the study's run those of all arms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ablate.config.identity import digest
from ablate.record.runs import STATUSES, StudyStatus, param, tag_key
from ablate.record.tracking import (
    ARM_RUN,
    HOME,
    MARK,
    NOTE,
    PARENT_RUN,
    RUN_NAME,
    MetricValue,
    RunToWrite,
)
from ablate.results.settings import Settings
from ablate.store.course import ArmPoint, Point
from ablate.store.numbers import in_utf8
from ablate.store.study_record import ArmRecord, StudyRecord

MOST_CHARTED = 50  # arms in the charts of a study's run; each arm's own run has its numbers
NAMES = {  # of metrics in an arm's run; in the study's, of sections of charts
    "mean": "mean",
    "difference": "difference",
    "low": "interval_low",
    "high": "interval_high",
    "seeds": "seeds",
}


def arm_runs(
    record: StudyRecord,
    parent_run_id: str,
    status: StudyStatus,
    start: int,
    points: Sequence[Point],
    found: Mapping[str, Mapping[int, Settings]],
) -> list[RunToWrite]:
    """The runs of all arms, as children of the study's.

    The first arm starts last: MLflow shows the newest run first, and so the order of the table.
    """
    starts = range(start + len(record.arms), start, -1)
    return [
        _arm_run(record, arm, parent_run_id, status, at, points, found.get(arm.name, {}))
        for arm, at in zip(record.arms, starts, strict=True)
    ]


def _arm_run(
    record: StudyRecord,
    arm: ArmRecord,
    parent_run_id: str,
    status: StudyStatus,
    start: int,
    points: Sequence[Point],
    found: Mapping[int, Settings],
) -> RunToWrite:
    identity = identity_of(record, arm.name)
    # No tag `arm`: grouping trials by it would count this run among them.
    tags = in_utf8({"ablate.kind": "arm", NOTE: _note(record, arm)})
    params, values = _params(found), _own_values(arm.name, points)
    ended = status != StudyStatus.RUNNING
    last = max([start, *(value.timestamp for value in values)])
    shown = digest([tags, params, [[v.key, v.step, v.value] for v in values]])[:16]
    return RunToWrite(
        identity=identity,
        status=STATUSES[status],
        start=start,
        end=last if ended else None,
        home={
            HOME: record.key,
            RUN_NAME: in_utf8(arm.name),
            PARENT_RUN: parent_run_id,
            ARM_RUN: identity[1],
        },
        tags=tags | {MARK: f"{status}:{shown}"},
        params=params,
        metric_values=values,
    )


def identity_of(record: StudyRecord, arm: str) -> tuple[str, str]:
    """The tag that is an arm's alone on the whole server."""
    return ARM_RUN, in_utf8(f"{record.key}/{arm}")


def study_values(record: StudyRecord, points: Sequence[Point]) -> list[MetricValue]:
    """The metrics of a study's run: one for each number and arm, `mean/DOC`, by finished trials."""
    charted = [arm.name for arm in record.arms][:MOST_CHARTED]
    values = [
        MetricValue(f"{NAMES[number]}/{tag_key(arm)}", value, point.at, point.finished)
        for point in points
        for arm in charted
        if arm in point.by_arm
        for number, value in _numbers(point.by_arm[arm])
        if number != "seeds"
    ]
    decided = (MetricValue("decided", p.decided, p.at, p.finished) for p in points)
    return [*values, *decided]


def _own_values(arm: str, points: Iterable[Point]) -> list[MetricValue]:
    """An arm's numbers where they change, and at the last point."""
    own = [point for point in points if arm in point.by_arm]
    changes = [
        point
        for before, point in zip([None, *own], own, strict=False)
        if before is None or before.by_arm[arm] != point.by_arm[arm] or point is own[-1]
    ]
    return [
        MetricValue(NAMES[number], value, point.at, point.finished)
        for point in changes
        for number, value in _numbers(point.by_arm[arm])
    ]


def _numbers(point: ArmPoint) -> Iterable[tuple[str, float]]:
    numbers = ((name, getattr(point, name)) for name in NAMES)
    return [(name, float(value)) for name, value in numbers if value is not None]


def _params(found: Mapping[int, Settings]) -> dict[str, str]:
    """What an arm's searches found; of several searches, each with its number."""
    several = len(found) > 1
    return {
        tag_key(f"search {number}/{name}" if several else name): param(value)
        for number, settings in found.items()
        for name, value in settings.items()
    }


def _note(record: StudyRecord, arm: ArmRecord) -> str:
    """What the arm changes, in Markdown."""
    if arm.name == record.base_arm:
        return "The base arm: the others are compared with it."
    against = arm.against or record.base_arm
    changes = [f"- `{name}`: {param(value)}" for name, value in arm.changes.items()]
    return "\n".join([f"Compared with **{against}**. It sets:", "", *(changes or ["- nothing"])])
