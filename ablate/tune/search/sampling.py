"""Optuna's part of a search: the distributions of a space's rows, and a sampler over them.

A sampler is made anew for each suggestion, with a seed of its own, so that a search that is
resumed suggests what it would have suggested. What a sampler must remember belongs into Optuna's
study, where Optuna's own keep it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.exceptions import StorageInternalError
from sqlalchemy.exc import SQLAlchemyError

from ablate.config.config import Choice
from ablate.config.registry import SAMPLER
from ablate.config.resolve import choice
from ablate.errors import AblateError, SpaceError, StudyError
from ablate.record.quiet import silent_warnings
from ablate.space.conditions import same
from ablate.space.row import Choices, Domain, Range, Row
from ablate.study.planned import PlannedSearch
from ablate.trial.user.user_code import raised

Distributions = Mapping[str, BaseDistribution]
AT_RANDOM = choice(SAMPLER, "random", {}, "")


def distributions(planned: PlannedSearch) -> Distributions:
    """The rows that the search varies, by name, as its suggestions have them."""
    rows = planned.space.open_rows(planned.column if planned.space.corpora else None)
    return {row.name: _distribution(row) for row in rows if not planned.fixed.keys() & {*row.keys}}


def suggest(suggestion: optuna.Trial, row: Row) -> Any:
    """A row's value from Optuna."""
    of, name = _distribution(row), row.name
    if isinstance(of, CategoricalDistribution):
        chosen = suggestion.suggest_categorical(name, of.choices)
        return row.domain.ends[of.choices.index(chosen)]  # type: ignore[union-attr]
    if isinstance(of, IntDistribution):
        return suggestion.suggest_int(name, of.low, of.high, log=of.log)
    return suggestion.suggest_float(name, of.low, of.high, log=of.log)


def listed(planned: PlannedSearch, values: Mapping[str, Any]) -> dict[str, Any]:
    """The rows that the search varies, with the values that an arm lists, as Optuna has them; a row
    without one, or whose value the space does not have, is left out."""
    first = {}
    for row in planned.space.open_rows(planned.column if planned.space.corpora else None):
        tied = [other.field for other in planned.space.rows if other.same_as == row.name]
        field = next((one for one in (row.field, *tied) if one in values), None)
        if field is not None and row.domain is not None and row.domain.admits(values[field]):
            first[row.name] = _as_suggested(row.domain, values[field])
    return {name: first[name] for name in distributions(planned) if name in first}


def _as_suggested(domain: Domain, value: Any) -> Any:
    if isinstance(domain, Range):
        return int(value) if domain.integer else float(value)
    return next(json.dumps(choice) for choice in domain.ends if same(choice, value))


def _distribution(row: Row) -> CategoricalDistribution | IntDistribution | FloatDistribution:
    """The row's values. Choices are JSON text, so that they can be lists."""
    domain = row.domain
    if isinstance(domain, Choices):
        return CategoricalDistribution([json.dumps(each) for each in domain.values])
    if not isinstance(domain, Range):
        raise SpaceError(f"row '{row.name}' has no values to choose from.")
    if domain.integer:
        return IntDistribution(int(domain.low), int(domain.high), log=domain.log)
    return FloatDistribution(domain.low, domain.high, log=domain.log)


def sampler(chosen: Choice, seed: int, space: Distributions) -> optuna.samplers.BaseSampler:
    """The sampler that a search has chosen; it may be a user's."""
    with guarded(chosen), silent_warnings():  # Optuna calls some options experimental
        made = chosen.technique.build(chosen.config, seed, space)
    if not isinstance(made, optuna.samplers.BaseSampler):
        raise StudyError(
            f"sampler '{chosen.name}' returned {made!r}. Expected: one of optuna.samplers."
        )
    return made


@contextlib.contextmanager
def guarded(chosen: Choice) -> Iterator[None]:
    """Name the sampler in errors of its code. Those of the search's storage pass through."""
    try:
        yield
    except (AblateError, SQLAlchemyError, StorageInternalError):
        raise
    except Exception as error:
        raise raised(error, f"sampler '{chosen.name}'") from None
