"""A ladder's rungs: the names and values of each, and what a ladder cannot be.

What the words mean is said where they stand (`words.py`); `several.py` makes a scale of each rung.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ablate.errors import StudyError, wrong_value
from ablate.study.words import Arm, Ladder, Scale

MIN_RUNGS = 4  # the curve of losses against compute has three numbers
BEYOND = 10.0  # times the largest rung's compute, at which a saving should still be shown


def names_of(ladder: Ladder) -> tuple[str, ...]:
    """Return the rungs' names: the values of the first field."""
    return tuple(map(str, next(iter(ladder.sizes.values()))))


def sizes_on(ladder: Ladder, index: int) -> dict[str, Any]:
    """Return what a rung sets in all arms."""
    return {field: values[index] for field, values in ladder.sizes.items()}


def on_rung(scale: Scale, index: int) -> Scale:
    """Return the scale of one rung."""
    ladder = scale.ladder
    if ladder is None:
        return scale
    changes = {**scale.changes, **sizes_on(ladder, index)}
    return replace(scale, rung=names_of(ladder)[index], changes=changes)


def rung_fields(scale: Scale) -> dict[str, Any]:
    """Return what the record of a rung says of its ladder; nothing if the scale has none."""
    ladder = scale.ladder
    if ladder is None:
        return {}
    names = names_of(ladder)
    sizes = sizes_on(ladder, names.index(scale.rung))
    return {"rungs": names, "sizes": sizes, "rule": ladder.rule, "beyond": BEYOND}


def rung_notes(scale: Scale) -> Iterator[str]:
    """Yield what a reader of one rung must know: its sizes, and the rule of transfer."""
    ladder = scale.ladder
    if ladder is None:
        return
    names = names_of(ladder)
    sizes = sizes_on(ladder, names.index(scale.rung))
    shown = ", ".join(f"{field} = {value}" for field, value in sizes.items())
    rule = f" Transferred from rung to rung: {ladder.rule}." if ladder.rule else ""
    yield f"Rung {scale.rung} of {', '.join(names)}: {shown} in every arm.{rule}"


def check_ladder(scale: Scale, arms: Sequence[Arm], where: str) -> None:
    """Raise for a ladder that does not rise, or that an arm or the scale would take apart."""
    ladder = scale.ladder
    if ladder is None:
        return
    where = f"{where}: Ladder"
    _check_rungs(ladder, where)
    _check_transfer(ladder, scale, where)
    if not scale.one_of:  # the changes of a rung have its sizes
        _check_not_set("the scale's changes set", scale.changes, ladder, where)
    for arm in arms:
        if scale.arms is None or arm.name in scale.arms:
            _check_not_set(f"arm '{arm.name}' sets", arm.changes, ladder, where)


def _check_rungs(ladder: Ladder, where: str) -> None:
    lengths = {field: len(values) for field, values in ladder.sizes.items()}
    num = next(iter(lengths.values()), 0)
    odd = next((field for field, length in lengths.items() if length != num), None)
    if num < MIN_RUNGS:
        expected = f"a field with {MIN_RUNGS} values or more, from small to large"
        raise StudyError(wrong_value("sizes", dict(ladder.sizes), expected, where))
    if odd is not None:
        expected = f"{num} values, one for each rung"
        raise StudyError(wrong_value(odd, tuple(ladder.sizes[odd]), expected, where))
    names = names_of(ladder)
    if len(set(names)) != num or any(map(_is_no_name, names)):
        expected = f"{num} different values without / \\ @ and spaces, which name the rungs"
        raise StudyError(wrong_value(next(iter(lengths)), names, expected, where))


def _check_transfer(ladder: Ladder, scale: Scale, where: str) -> None:
    if bool(ladder.transfer) != bool(ladder.rule.strip()):
        given, other = ("transfer", "rule") if ladder.transfer else ("rule", "transfer")
        raise StudyError(
            f"{where}: {given} is given without {other}. transfer= is a function of an arm's "
            "values that returns what else a rung changes, and rule= says in words what it does. "
            "Instead: give both, or list the values of each rung in sizes."
        )
    if ladder.transfer and scale.search:
        raise StudyError(
            f"{where}: transfer and the scale's search both set what a rung trains with. Instead: "
            "leave out either, or search at another scale and take over its settings "
            "(settings_of=)."
        )


def _is_no_name(name: str) -> bool:
    return not name or any(letter.isspace() or letter in "/\\@" for letter in name)


def _check_not_set(who: str, changes: Mapping[str, Any], ladder: Ladder, where: str) -> None:
    """Check that nothing else sets what the rungs set."""
    twice = next((field for field in changes if field in ladder.sizes), None)
    if twice is not None:
        raise StudyError(
            f"{where}: {who} {twice} = {changes[twice]!r}, which the ladder sets on every "
            "rung. Instead: leave it out there, or change it in the scale's adapt, a function of "
            "an arm's values."
        )
