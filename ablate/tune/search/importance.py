"""Which hyperparameters mattered in a study's searches: PED-ANOVA and fANOVA, from Optuna.

Only trials that were trained to their end are counted: one that was stopped early has the loss of
a shorter run. PED-ANOVA (Watanabe et al. 2023) finds what sets the best tenth apart, fANOVA
(Hutter et al. 2014) what explains the spread of all; where they disagree, read both.

A hyperparameter that only some trials had (a technique's own) is evaluated over those trials.

A share is an estimate from few trials, and some share falls to any hyperparameter, even to one that
does nothing. So the completed trials are resampled with replacement, each with a random number as a
further hyperparameter: the range of a share over the resamples is printed with it, and the largest
share but one in twenty of the random number is the floor below which a share says nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import optuna
from optuna.distributions import FloatDistribution
from optuna.importance import (
    FanovaImportanceEvaluator,
    PedAnovaImportanceEvaluator,
    get_param_importances,
)

from ablate.compare.text.figures import NONE
from ablate.errors import MissingDependency, TrialError, needs
from ablate.record.quiet import silent_warnings
from ablate.redaction import redacted
from ablate.store.study_record import SearchRecord, StudyRecord
from ablate.tune.search.arm import open_storage

FEWEST = 4  # completed trials; with fewer no importance is reported
ENOUGH = 10  # completed trials; with fewer, resamples are of too few different ones
NUM_RESAMPLES = 20
FEW_TREES = 8  # for a resample: a share of one forest varies less than those of resamples
RANDOM = "(a random number)"
UNIFORM = FloatDistribution(0.0, 1.0)
EVALUATORS = {
    "PED-ANOVA": lambda: PedAnovaImportanceEvaluator(),
    # A forest that is drawn at random: with a seed, the command prints the same shares again.
    "fANOVA": lambda: FanovaImportanceEvaluator(seed=0),
}
OF_RESAMPLES = {
    **EVALUATORS,
    "fANOVA": lambda: FanovaImportanceEvaluator(n_trees=FEW_TREES, seed=0),
}

READING = (
    "Each evaluator's shares sum to 1. PED-ANOVA: what sets the best trials apart. fANOVA: what "
    "explains the spread over all trials. Trials that were stopped early are not counted. "
    "Brackets: the range over 20 resamples of the trials. A share below what a random number gets "
    "(in 19 of 20 resamples) is in parentheses: it says nothing."
)


@dataclass(frozen=True)
class Importance:
    """One search's result: hyperparameter -> share of the importance, by evaluator."""

    arm: str
    repeat: int
    num_completed: int
    num_other: int
    shares: dict[str, dict[str, float]]  # evaluator -> name -> share
    num_with: dict[str, int]  # name -> completed trials that had it
    note: str = ""
    # Evaluator -> name -> the lowest and the highest share over the resamples.
    ranges: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    floors: Mapping[str, float] = field(default_factory=dict)  # evaluator -> what chance gives

    def shown(self, evaluator: str, name: str) -> str:
        """A share with its range; in parentheses where a random number gets as much."""
        share = self.shares[evaluator].get(name)
        if share is None:
            return NONE
        text = f"{share:.3f}"
        if share <= self.floors.get(evaluator, -1.0):
            text = f"({text})"
        ends = self.ranges.get(evaluator, {}).get(name)
        return f"{text} [{ends[0]:.3f}, {ends[1]:.3f}]" if ends else text

    @property
    def ranked(self) -> list[str]:
        """The names, the most important first."""

        def total(name: str) -> float:
            return sum(shares.get(name, 0.0) for shares in self.shares.values())

        return sorted(self.num_with, key=lambda name: (-total(name), name))


def importances(record: StudyRecord, searches: str) -> list[Importance]:
    """The importance of each hyperparameter, for each search of a study."""
    if not record.searches:
        raise TrialError(
            f"{record.key} has no search: its arms are listed. Importances need a design with "
            "a search."
        )
    storage = open_storage(searches, record.key)
    known = [summary.study_name for summary in optuna.get_all_study_summaries(storage)]
    results = []
    for search in record.searches:
        if search.inherits and not search.trials:
            continue  # not started: it waits for another arm's winner
        named = _named(record, search, known)
        if named is None:
            raise TrialError(
                f"{record.key}: the search of {search.arm} is not in {redacted(searches)}. Use "
                "--workspace or --searches to name the storage that the study was run with."
            )
        results.append(_importance(optuna.load_study(study_name=named, storage=storage), search))
    return results


def _named(record: StudyRecord, search: SearchRecord, known: list[str]) -> str | None:
    """The name of a search in the storage.

    Older records do not have it. The last one is taken then: the study's file may have changed.
    """
    if search.key:
        return next((name for name in known if name == f"{record.key}/{search.key}"), None)
    prefix = f"{record.key}/{search.arm}/{search.repeat}/"
    return next((name for name in reversed(known) if name.startswith(prefix)), None)


def _importance(study: optuna.Study, search: SearchRecord) -> Importance:
    trials = study.get_trials(deepcopy=False)
    completed = [t for t in trials if t.state == optuna.trial.TrialState.COMPLETE]
    num_with = dict(Counter(name for trial in completed for name in trial.params))
    counts = (len(completed), len(trials) - len(completed))
    if len(completed) < FEWEST:
        note = f"{len(completed)} completed trials are too few to tell what mattered"
        return Importance(search.arm, search.repeat, *counts, {}, num_with, note)
    shares = {name: _shares(study, completed, make()) for name, make in EVALUATORS.items()}
    found = Importance(search.arm, search.repeat, *counts, shares, num_with)
    if len(completed) < ENOUGH:
        return found
    resampled: dict[str, list[dict[str, float]]] = {name: [] for name in EVALUATORS}
    for some in _resamples(study, completed):
        trials = some.get_trials(deepcopy=False)
        for name, make in OF_RESAMPLES.items():
            resampled[name].append(_shares(some, trials, make()))
    return replace(
        found,
        ranges={name: _ranges(of, shares[name]) for name, of in resampled.items()},
        floors={name: _floor(of) for name, of in resampled.items()},
    )


def _resamples(study: optuna.Study, completed: list[Any]) -> Iterator[optuna.Study]:
    """Studies of trials drawn with replacement, each with a random number of its own."""
    generator = np.random.default_rng(0)
    for _ in range(NUM_RESAMPLES):
        picked = generator.integers(0, len(completed), len(completed))
        trials = [_with_random(completed[i], float(generator.random())) for i in picked]
        if len({trial.value for trial in trials}) > 1:
            yield _only(study, trials)


def _with_random(trial: Any, number: float) -> Any:
    return optuna.trial.create_trial(
        value=trial.value,
        params={**trial.params, RANDOM: number},
        distributions={**trial.distributions, RANDOM: UNIFORM},
    )


def _ranges(
    resampled: list[dict[str, float]], shares: Mapping[str, float]
) -> dict[str, tuple[float, float]]:
    known = {name: [one[name] for one in resampled if name in one] for name in shares}
    return {name: (min(some), max(some)) for name, some in known.items() if some}


def _floor(resampled: list[dict[str, float]]) -> float:
    return float(np.quantile([one[RANDOM] for one in resampled], 0.95)) if resampled else 0.0


def _shares(study: optuna.Study, completed: list[Any], evaluator: Any) -> dict[str, float]:
    """Shares of the hyperparameters that all completed trials had, then of each of the others."""
    common = set.intersection(*(set(trial.params) for trial in completed))
    shares = _evaluated(study, sorted(common), evaluator) if common else {}
    for name in sorted({name for trial in completed for name in trial.params} - common):
        had = [trial for trial in completed if name in trial.params]
        if len(had) >= FEWEST:
            names = [*sorted(common), name]
            shares[name] = _evaluated(_only(study, had), names, evaluator)[name]
    return shares


def _evaluated(study: optuna.Study, names: list[str], evaluator: Any) -> dict[str, float]:
    try:
        with silent_warnings():
            return dict(get_param_importances(study, evaluator=evaluator, params=names))
    except ImportError as error:
        raise MissingDependency(needs("fANOVA needs", "scikit-learn")) from error


def _only(study: optuna.Study, trials: list[Any]) -> optuna.Study:
    """An in-memory study of only these trials."""
    some = optuna.create_study(direction=study.direction)
    some.add_trials(trials)
    return some
