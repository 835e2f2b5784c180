"""The values of an arm, from its recipe, the scale and the arm itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ablate.config.resolve import merge
from ablate.errors import SpaceError, StudyError
from ablate.space import space as spaces
from ablate.study.inherit import check_rows
from ablate.study.record import arm_location
from ablate.study.words import Arm, Scale, Study
from ablate.trial.user_code import RAISED, raised

Values = Mapping[str, Any]


def arm_values(study: Study, scale: Scale, arm: Arm) -> dict[str, Any]:
    """Merge an arm's flat values: base recipe, scale, arm, then the scale's `adapt`."""
    base = base_values(study, scale, arm.recipe or study.base, arm.rows)
    where = arm_location(study, arm.name)
    values = merge(merge(base, scale_values(scale), where), arm.changes, where)
    return merge(values, _adapted(study, scale, values), where) if scale.adapt else values


def _adapted(study: Study, scale: Scale, values: Values) -> Values:
    """Return the changes of the scale's `adapt`, a function written by the user."""
    adapt = scale.adapt or dict
    what = f"{study.file or study.name}: adapt = {getattr(adapt, '__name__', adapt)}"
    try:
        changes = adapt(dict(values))
    except RAISED as error:
        raise raised(error, what, [study.file]) from None
    if not isinstance(changes, Mapping):
        raise StudyError(f"{what} returned {changes!r}. Expected: a dict of changes.")
    return changes


def scale_values(scale: Scale) -> dict[str, Any]:
    return {"corpus.name": scale.corpus, **scale.changes}


def base_values(
    study: Study, scale: Scale, base: str | Values, rows: Values | None = None
) -> dict[str, Any]:
    """Return a recipe's values for the scale, with the given rows fixed."""
    if not isinstance(base, str):
        return dict(base)
    space = find_space(study, base.partition(":")[0])
    check_rows(space, rows or {})
    return space.values(column_for(scale, base), fixed=rows)


def column_for(scale: Scale, base: str | Values) -> str:
    """Return the column to read of a recipe, and of the search space of its arms."""
    named = base.partition(":")[2] if isinstance(base, str) else ""
    return named or scale.column or scale.corpus


def find_space(study: Study, name: str) -> spaces.Space:
    """Load a recipe or search space named in the study."""
    try:
        return spaces.load(name, near=Path(study.file) if study.file else None)
    except SpaceError as error:
        raise SpaceError(f"{study.file or study.name}: {error}") from None
