"""Models of one size: an arm is as wide as a number of parameters, or of operations, allows."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ablate.config.resolve import resolve
from ablate.errors import StudyError
from ablate.study.cost import flops_per_token
from ablate.study.words import Values

log = logging.getLogger("ablate.study")
Key = tuple[tuple[str, Any], ...]  # values, in order
MOST = 2**20  # steps of a field: no model is wider
NEAR = 0.02  # how far below its limit a size may be unsaid


def equal(
    *,
    parameters: int | None = None,
    operations: int | None = None,
    vocabulary: int,
    by: Mapping[str, int],
    same: Mapping[str, str] | None = None,
) -> Callable[[dict[str, Any]], Values]:
    """Make a scale's `adapt` that gives all arms one size.

    Args:
        parameters: The number that no arm's model exceeds.
        operations: Instead, the operations for each training token that no arm exceeds, without the
            optimizer, as `ablate plan` estimates them.
        vocabulary: The number of tokens that the corpus of the scale has.
        by: The fields that set an arm's size, each with the step in which it grows:
            `{"backbone.units": 4, "backbone.feed_forward_units": 1}`. The first becomes as large as
            the size allows, then the next. A field that an arm lacks, or that does not change its
            size, is left as it is there. An arm that ends more than 2% below the size is named in a
            warning.
        same: Fields that are always as large as another: `{"embedding.size": "backbone.units"}`.
    """
    if (parameters is None) == (operations is None):
        raise StudyError("equal: expected either parameters= or operations=.")
    if not by or any(step < 1 for step in by.values()):
        raise StudyError(f"equal: by={dict(by)!r} is wrong. Expected: fields, each with a step.")
    size: Callable[[Key, int], float] = _parameters
    limit, what = parameters or 0, "parameters"
    if operations is not None:
        size, limit, what = _operations, operations, "operations for each token"

    def sized(values: dict[str, Any]) -> Values:
        changes: dict[str, Any] = {}
        own = {field: step for field, step in by.items() if _has(values, field)}
        for field, step in own.items():
            given = {**values, **changes}
            fields = [field, *(name for name, of in (same or {}).items() if of == field)]

            def sizes(n: int, v: Values = given, f: list[str] = fields, s: int = step) -> float:
                return size(_key(v, f, n * s), vocabulary)

            if sizes(1) == sizes(2):
                continue
            largest = step * _largest(sizes, limit)
            if not largest:
                raise StudyError(
                    f"equal: a model with {field} = {step} has more than {limit:,} {what}. "
                    "Instead: a larger number, or fewer layers."
                )
            changes |= dict.fromkeys(fields, largest)
        if own and not changes:
            raise StudyError(
                f"equal: none of {', '.join(own)} changes the number of {what} of an arm with "
                f"backbone = {values.get('backbone')!r}. Instead: a field that does."
            )
        if changes:
            found = size(_key({**values, **changes}, [], 0), vocabulary)
            _check_near(found, limit, what, changes)
        return changes

    return sized


def _largest(size: Callable[[int], float], limit: float) -> int:
    """Return the largest n with size(n) <= limit, of a size that grows with n; 0 if there is none.

    A size is nearly a polynomial of n: a straight line between two of them is a good guess.
    """
    low, high = 0, 1
    while high <= MOST and size(high) <= limit:
        low, high = high, 8 * high
    turn = 0
    while high - low > 1:
        turn += 1
        middle = (low + high) // 2
        if low and turn % 3:  # every third guess halves what is left, whatever the curve
            slope = (size(high) - size(low)) / (high - low)
            middle = low + max(1, min(int((limit - size(low)) / slope), high - low - 1))
        low, high = (middle, high) if size(middle) <= limit else (low, middle)
    return low


def _check_near(found: float, limit: float, what: str, changes: Values) -> None:
    """Warn of an arm that is much smaller than the limit."""
    share = 1 - found / limit
    if share > NEAR:
        _warn(
            f"equal: an arm with {', '.join(f'{k} = {v}' for k, v in changes.items())} has "
            f"{share:.0%} fewer {what} than {limit:,}, and the next step more. For a closer "
            "size: smaller steps, or a further field in by=."
        )


@functools.cache
def _warn(message: str) -> None:
    """Warn once: every arm is sized again and again."""
    log.warning("%s", message)


def _has(values: Values, field: str) -> bool:
    slot, _, name = field.partition(".")
    part = resolve(values).parts.get(slot)
    return part is not None and name in {each.name for each in dataclasses.fields(part)}


def _key(values: Values, fields: Sequence[str], number: int) -> Key:
    """The values with these fields, as a key of a cache: every arm is sized again and again."""
    changed = {**values, **dict.fromkeys(fields, number)}
    hashable = {k: tuple(v) if isinstance(v, list) else v for k, v in changed.items()}
    return tuple(sorted(hashable.items()))


@functools.lru_cache(maxsize=10_000)
def _parameters(key: Key, vocabulary: int) -> float:
    config = resolve(dict(key))
    return config.kind.asked.count_parameters(config, vocabulary)


@functools.lru_cache(maxsize=10_000)
def _operations(key: Key, vocabulary: int) -> float:
    return flops_per_token(resolve(dict(key)), vocabulary)
