"""What of the user's code the trials of a study run: functions of tasks, and techniques."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ablate.config.registry import Technique, of_users
from ablate.config.resolve import Config, merge
from ablate.config.tasks import Kind
from ablate.space.space import Space
from ablate.study.arms import find_space, resolve_arm
from ablate.study.record import arm_stages, measure_values
from ablate.study.study import Study
from ablate.study.words import Arm, Scale, Values


def used_code(
    study: Study,
    scale: Scale,
    arms: Sequence[Arm],
    values: Mapping[str, Values],
    configs: Mapping[str, Config],
) -> list[Kind | Technique]:
    """Return the user's tasks that the arms are of, and the techniques of trials in any stage."""
    kinds = {c.kind.name: c.kind for c in configs.values() if c.kind.function}
    own = of_users()
    if not own:  # as in most studies: their stages need not be resolved for this
        return [*kinds.values()]
    used = [t for arm in arms for t in _of_stages(study, scale, arm, values[arm.name])]
    spaces = [*_spaces(study, scale, arms)]
    return [*kinds.values(), *(t for t in own if t in used or any(_has(s, t) for s in spaces))]


def _of_stages(study: Study, scale: Scale, arm: Arm, values: Values) -> Iterator[Technique]:
    """Yield the techniques of an arm's trials, from training to the measuring of its model."""
    config = resolve_arm(study, arm.name, values)
    yield from config.techniques
    if not config.kind.assembles:
        return
    for stage in arm_stages(scale, arm):
        values = merge(values, stage.changes)
        yield from resolve_arm(study, arm.name, values).techniques
    measured = measure_values(study, scale, arm, values)
    yield from resolve_arm(study, arm.name, measured).techniques if measured else ()


def _spaces(study: Study, scale: Scale, arms: Sequence[Arm]) -> Iterator[Space]:
    stages = (*scale.stages, *(stage for arm in arms for stage in arm.then))
    for search in (scale.search, *(stage.search for stage in stages)):
        if search is not None:
            yield find_space(study, search.space)


def _has(space: Space, technique: Technique) -> bool:
    """Return whether a row of the space chooses the technique, or sets a field of it."""
    slot, name = technique.slot, technique.name
    return any(
        (row.field or "").startswith(f"{slot}.{name}.")
        or (row.field == slot and any(name in domain.ends for domain in row.domains))
        for row in space.rows
    )


def with_own_file(study: Study, code: Sequence[Kind | Technique]) -> Study:
    """Return the study; if no file of its techniques has all its code, workers execute its own.

    They get the modules that it imports in this way, too.
    """
    known = {str(Path(file).resolve()) for file in study.techniques}
    own = str(Path(study.file).resolve())
    if not study.file or own in known or all(each.file in known for each in code):
        return study
    return replace(study, techniques=(*study.techniques, own))
