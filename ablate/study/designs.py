"""Designs: functions that make the arms of a study."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ablate.config import fields
from ablate.errors import StudyError, unknown, wrong_value
from ablate.study.words import Arm, Design, Factors, Values

MAX_ARMS = 10_000


def table(*arms: Arm) -> Design:
    """Compare the arms as listed.

    Args:
        arms: The arms, in the order of the table's rows.
    """
    return Design("table", arms)


def one_at_a_time(factors: Factors, *, base: str = "base") -> Design:
    """Compare the base with each level of each factor, one at a time.

    The arms are called `base`, and then `factor: level`.

    Args:
        factors: The levels of each factor, with the values that a level sets:
            `{"dropout": {"0.2": {"regularizer.dropout.output": 0.2}}}`.
        base: The name of the arm without changes.
    """
    fields.check_value(factors, Factors, "factors", StudyError, "one_at_a_time")
    changed = [
        Arm(f"{factor}: {level}", changes, levels={factor: level})
        for factor, levels in factors.items()
        for level, changes in levels.items()
    ]
    return Design("one_at_a_time", (Arm(base), *changed))


def leave_one_out(removed: Mapping[str, Values], *, full: str = "everything") -> Design:
    """Compare everything switched on with everything except one part, for each part.

    The arms are called `everything`, and then `without NAME`.

    Args:
        removed: For each part, the values that switch it off:
            `{"dropout": {"regularizer.dropout.output": 0.0}}`.
        full: The name of the arm without changes.
    """
    fields.check_value(removed, Mapping[str, Values], "removed", StudyError, "leave_one_out")
    arms = [
        Arm(f"without {name}", changes, levels={name: "off"}) for name, changes in removed.items()
    ]
    return Design("leave_one_out", (Arm(full), *arms))


def factorial(factors: Factors) -> Design:
    """Compare every combination of the factors' levels.

    The arms are called `factor level, factor level, ...`, in the factors' order.

    Args:
        factors: The levels of each factor, with the values that a level sets:
            `{"dropout": {"off": {"regularizer.dropout.output": 0.0}, "on": {...}}}`. No two factors
            may set the same field.
    """
    fields.check_value(factors, Factors, "factors", StudyError, "factorial")
    _check_apart(factors)
    check_num_arms(math.prod(map(len, factors.values())), "factorial")
    crossed = itertools.product(*factors.values())
    chosen = (dict(zip(factors, levels, strict=True)) for levels in crossed)
    return Design("factorial", tuple(_combination(factors, levels) for levels in chosen))


def _combination(factors: Factors, levels: Mapping[str, str]) -> Arm:
    changes: dict[str, Any] = {}
    for factor, level in levels.items():
        changes |= factors[factor][level]
    return Arm(", ".join(f"{k} {v}" for k, v in levels.items()), changes, levels=levels)


def fractional_factorial(factors: Factors, generators: Mapping[str, Sequence[str]]) -> Design:
    """Compare a fraction of a two-level factorial.

    The arms are called as those of `factorial`. The effects that the design cannot tell apart (its
    aliases) are printed below its table.

    Args:
        factors: The two levels of each factor, with the values that a level sets.
        generators: How the levels of further factors follow: `{"D": ("A", "B")}` sets the level of
            D to the product of A's and B's, where a first level is −1 and a second level is +1.
    """
    what = "fractional_factorial"
    fields.check_value(factors, Factors, "factors", StudyError, what)
    fields.check_value(generators, Mapping[str, Sequence[str]], "generators", StudyError, what)
    _check_apart(factors)
    free = [factor for factor in factors if factor not in generators]
    for made, by in generators.items():
        for name, valid in ((made, factors), *((name, free) for name in by)):
            if name not in valid:
                raise StudyError(unknown("factor", name, valid, what))
    for factor, levels in factors.items():
        if len(levels) != 2:
            raise StudyError(wrong_value("levels", list(levels), "two levels", f"{what}: {factor}"))
    check_num_arms(2 ** len(free), what)
    combined = f"combinations of {len(generators)} generators"
    check_num_arms(2 ** len(generators), what, combined)  # `_aliases` goes through all
    signs = (
        dict(zip(free, row, strict=True)) for row in itertools.product((-1, 1), repeat=len(free))
    )
    arms = []
    for row in signs:
        row |= {made: math.prod(row[factor] for factor in by) for made, by in generators.items()}
        arms.append(_combination(factors, {f: [*factors[f]][row[f] > 0] for f in factors}))
    return Design(what, tuple(arms), _aliases(list(factors), generators))


def _aliases(factors: list[str], generators: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """List the main effects and two-factor interactions that are the same number in the design."""
    words = [frozenset({made, *by}) for made, by in generators.items()]
    # All products of words. A factor times itself is 1, so it drops out: hence `^`.
    group = {frozenset()}
    for word in words:
        group |= {word ^ other for other in group}
    effects = [frozenset(e) for n in (1, 2) for e in itertools.combinations(factors, n)]
    classes: dict[frozenset, list[str]] = {}
    for effect in effects:
        key = frozenset(effect ^ word for word in group)  # the same for all that are aliased
        classes.setdefault(key, []).append(" x ".join(sorted(effect, key=factors.index)))
    return tuple(f"aliased: {' = '.join(names)}" for names in classes.values() if len(names) > 1)


def path(steps: Mapping[str, Values], *, start: str = "start") -> Design:
    """Go from the base to another configuration step by step.

    The arms are called `start`, and then `+ STEP`. Each arm has the values of all steps before it,
    and is compared with the arm before it: the gain of that step.

    Args:
        steps: The values that each step sets, in the order of the steps.
        start: The name of the arm without changes.
    """
    fields.check_value(steps, Mapping[str, Values], "steps", StudyError, "path")
    arms, changes = [Arm(start)], {}
    for step, change in steps.items():
        changes = {**changes, **change}
        arms.append(Arm(f"+ {step}", changes, levels={"step": step}, against=arms[-1].name))
    return Design("path", tuple(arms))


def _check_apart(factors: Factors) -> None:
    """Check that no two factors change the same field: one would undo the other."""
    changed: dict[str, str] = {}
    for factor, levels in factors.items():
        for key in {key for changes in levels.values() for key in changes}:
            other = changed.setdefault(key, factor)
            if other != factor:
                raise StudyError(
                    f"factorial: the factors '{other}' and '{factor}' both change {key}. "
                    "Instead: use factors that change different fields."
                )


def check_num_arms(num: int, where: str, what: str = "arms") -> None:
    """Check how many arms a design has, before they are made."""
    if num > MAX_ARMS:
        # A product of levels may have more digits than Python writes.
        shown = f"{num:,}" if num < 10**15 else "more than 10**15"
        raise StudyError(
            f"{where}: {shown} {what} are too many for one study. The limit is {MAX_ARMS:,}. "
            "Instead: fewer factors or levels, or a search over a space."
        )
