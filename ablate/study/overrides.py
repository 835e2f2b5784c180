"""What the command line changes of a study: `--seeds 3 --set training.epochs=2 --arms "MoS*"`.

The changed study is another scale, with a key of its own (`my_study@laptop+1f3a9c`), so it replaces
neither the record nor the table of the study as it is written. A trial's id follows from what the
trial computes, so trials that the changes leave as they are belong to both.
"""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time
from fnmatch import fnmatchcase
from typing import Any

from ablate.config.identity import digest
from ablate.errors import ConfigError, StudyError, unknown
from ablate.store.study_record import CHANGED
from ablate.study.several import renamed
from ablate.study.study import Study
from ablate.study.words import Arm, Scale, Values

DIGITS = 6


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """Changes to a study; without any, the study is run as it is written."""

    seeds: int | None = None
    values: Values = field(default_factory=dict)
    arms: Sequence[str] = ()  # names, or patterns such as `MoS*`

    @property
    def words(self) -> list[str]:
        """The changes as words of a command line."""
        seeds = [] if self.seeds is None else ["--seeds", str(self.seeds)]
        values = [
            word for key, value in self.values.items() for word in ("--set", _pair(key, value))
        ]
        return [*seeds, *values, *(word for arm in self.arms for word in ("--arms", arm))]


def read_values(pairs: Sequence[str]) -> dict[str, Any]:
    """Read `field=value` pairs. A value is written as in TOML; text needs no quotes."""
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip() or not text.strip():
            raise ConfigError(
                f"--set {pair} is not allowed. Expected: FIELD=VALUE, such as training.epochs=2."
            )
        values[key.strip()] = _value(text.strip())
    return values


def overridden(study: Study, scale_name: str | None, changes: Overrides) -> tuple[Study, str]:
    """Return the study with its changed scale, and the name of this scale.

    Changes that change nothing leave the study, and its key, as they are.
    """
    name, scale = study.scale(scale_name)
    seeds = changes.seeds or scale.seeds
    new = replace(
        scale,
        seeds=seeds,
        looks=scale.looks if seeds == scale.seeds else (),  # which were planned for its seeds
        arms=_chosen(study, scale, changes.arms) if changes.arms else scale.arms,
    )
    new = _with_values(study, new, changes.values) if changes.values else new
    if new == scale:
        return study, name
    own, new = renamed(name, new, f"{CHANGED}{digest(changes.words)[:DIGITS]}")
    changed = replace(new, changed=shlex.join(changes.words))
    return replace(study, scales={**study.scales, own: changed}), own


def _pair(key: str, value: Any) -> str:
    return f"{key}={value if isinstance(value, str) else _toml(value)}"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, list | tuple) else repr(value)


def _value(text: str) -> Any:
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return text if isinstance(value, date | time | dict) else value  # which no field has


def _chosen(study: Study, scale: Scale, patterns: Sequence[str]) -> tuple[str, ...]:
    """The scale's arms that match, with those that they are compared with or inherit from."""
    at_scale = {study.base_arm, *scale.arms} if scale.arms is not None else None
    arms = [arm for arm in study.design.arms if at_scale is None or arm.name in at_scale]
    names, wanted = [arm.name for arm in arms], {study.base_arm}
    for pattern in patterns:
        # A name is taken as it is first: it may have brackets.
        matching = [n for n in names if n == pattern] or [
            n for n in names if fnmatchcase(n, pattern)
        ]
        if not matching:
            raise StudyError(unknown("arm", pattern, names, f"{study.file or study.name}: --arms"))
        wanted.update(matching)
    return tuple(name for name in names if name in _with_needed(arms, scale, wanted))


def _with_needed(arms: Sequence[Arm], scale: Scale, wanted: set[str]) -> set[str]:
    sources = {
        heir: word.arm for heir, word in (scale.search.inherit if scale.search else {}).items()
    }
    needs = {arm.name: {arm.against, sources.get(arm.name)} - {None} for arm in arms}
    more = {needed for name in wanted for needed in needs.get(name, ()) if needed}
    return wanted if more <= wanted else _with_needed(arms, scale, wanted | more)


def _with_values(study: Study, scale: Scale, values: Values) -> Scale:
    """The scale with values that win over the base's and the scale's own.

    An arm that sets one of them is refused: it would no longer be what its name says.
    """
    _check_arms(study, scale, values)
    search = scale.search and replace(scale.search, changes=_without(scale.search.changes, values))
    return replace(
        scale,
        changes={**scale.changes, **values},  # a search leaves what a scale sets alone
        adapt=_Adapted(scale.adapt, values),  # and nothing that comes later changes it
        search=search,
    )


def _check_arms(study: Study, scale: Scale, values: Values) -> None:
    chosen = None if scale.arms is None else {study.base_arm, *scale.arms}
    for key in values:
        if scale.ladder is not None and key in scale.ladder.sizes:
            raise StudyError(
                f"{study.file or study.name}: --set {key} would undo the ladder, which sets it on "
                "every rung. Instead: edit the ladder's sizes."
            )
        setting = [
            f"'{arm.name}'"
            for arm in study.design.arms
            if (chosen is None or arm.name in chosen) and key in arm.changes
        ]
        if setting:
            raise StudyError(
                f"{study.file or study.name}: --set {key} would undo what these arms change: "
                f"{', '.join(setting)}. Instead: edit them, or leave them out with --arms."
            )


def _without(values: Values, keys: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in keys}


@dataclass(frozen=True)
class _Adapted:
    """A scale's `adapt`, with values of the command line over what it returns."""

    adapt: Callable[[dict[str, Any]], Values] | None
    values: Values

    @property
    def __name__(self) -> str:
        return getattr(self.adapt, "__name__", "--set")

    def __call__(self, values: dict[str, Any]) -> Values:
        return {**(self.adapt(values) if self.adapt else {}), **self.values}
