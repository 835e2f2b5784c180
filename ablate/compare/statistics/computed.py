"""Pairs of trials that were computed in two ways (by kernels and by torch, compiled and not, in a
batch of seeds or by several processes and not): allowed, but never silently.

The two round differently, and training amplifies the difference, which can move a trial by more
than a perplexity point. Sharing a seed does not help.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

from ablate.compare.table.rows import ArmSummary
from ablate.store.journal import COMPILED, KERNELS, TORCH, UNKNOWN, Journal, computed_alike
from ablate.store.study_record import StudyRecord

COMPILING = (
    "Compiled code and torch's own round differently, which training amplifies. For pairs computed "
    'alike, compile all of them, or none (compile="off").'
)
SUMMING = (
    "Earlier versions could train seeds as one batch, and a trial by several processes: sums are "
    "then taken in another order, which training amplifies. For pairs computed alike, forget these "
    "studies and run them again."
)
ADVICE = (
    "Kernels and torch round differently, which training amplifies: that alone can move a trial by "
    "more than a perplexity point. For pairs computed alike, run all of them with kernels, or all "
    "with ABLATE_NATIVE=off."
)


def note(
    record: StudyRecord, arms: Iterable[ArmSummary], journals: Mapping[str, Journal]
) -> Iterator[str]:
    """The arms and seeds whose pairs were not computed alike; nothing if all were."""
    shown = {arm.name: arm.values for arm in arms}
    by_seed: dict[int, dict[str, frozenset[str]]] = {}
    for trial in record.trials:
        if trial.final and trial.seed_index in shown.get(trial.arm, ()):
            ways = computed_by(trial.id, journals)
            by_seed.setdefault(trial.seed, {})[trial.arm] = ways
    odd = {seed: by_arm for seed, by_arm in by_seed.items() if _differ(by_arm.values())}
    if not odd:
        return
    named = "; ".join(text for arm in shown if (text := _unlike(arm, odd)))
    ways_of_all = frozenset().union(*itertools.chain(*(by_arm.values() for by_arm in odd.values())))
    yield (
        f"Pairs not computed alike: {named}; the other arms at these seeds {_others(ways_of_all)}. "
        f"{_advice(ways_of_all)}"
    )


def of_trials(journals: Mapping[str, Journal]) -> str | None:
    """The note on a few trials of any studies, by id; None if all were computed alike."""
    by_trial = {trial: computed_by(trial, journals) for trial in journals}
    if not _differ(by_trial.values()):
        return None
    named = ", ".join(f"{trial[:8]} by {_text(ways)}" for trial, ways in by_trial.items() if ways)
    return f"Not computed alike: {named}. {_advice(frozenset().union(*by_trial.values()))}"


def _advice(ways: frozenset[str]) -> str:
    """What to do about pairs that are computed in these ways."""
    advice = (
        (ADVICE, {KERNELS, TORCH} <= ways),
        (COMPILING, COMPILED in ways),
        (SUMMING, ways - {KERNELS, TORCH, COMPILED, UNKNOWN}),
    )
    return " ".join(text for text, applies in advice if applies)


def _others(ways: frozenset[str]) -> str:
    """How the arms that are not named were computed, of all that were computed in these ways."""
    if {KERNELS, TORCH} <= ways:
        return "by kernels"
    return "not compiled" if ways - {KERNELS, UNKNOWN} == {COMPILED} else "otherwise"


def computed_by(trial_id: str, journals: Mapping[str, Journal]) -> frozenset[str]:
    """`Journal.computed_by` of a trial and of all that it builds on."""
    journal = journals.get(trial_id)
    if journal is None:
        return frozenset()
    parents = (computed_by(parent, journals) for parent in journal.trial.parent_ids())
    return journal.computed_by.union(*parents)


def _differ(ways: Iterable[frozenset[str]]) -> bool:
    # A set: thousands of trials were computed in a handful of ways.
    return not all(itertools.starmap(computed_alike, itertools.combinations(set(ways), 2)))


def _unlike(arm: str, odd: Mapping[int, Mapping[str, frozenset[str]]]) -> str:
    """How an arm was computed, other than by kernels alone, at the seeds where arms differ."""
    seeds: dict[frozenset[str], list[str]] = {}
    for seed, by_arm in sorted(odd.items()):
        if by_arm.get(arm, frozenset()) - {KERNELS, UNKNOWN}:
            seeds.setdefault(by_arm[arm], []).append(str(seed))
    parts = (
        f"{'seed' if len(numbers) == 1 else 'seeds'} {', '.join(numbers)} by {_text(ways)}"
        for ways, numbers in seeds.items()
    )
    return f"{arm}, {', '.join(parts)}" if seeds else ""


def _text(ways: frozenset[str]) -> str:
    return " and ".join(sorted(ways))
