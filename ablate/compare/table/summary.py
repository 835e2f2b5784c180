"""A study's records, made into the numbers of its table. Pure; `study_table.py` lays them out.

`cells.py` says what enters a cell, `against.py` what is called better or worse, and `paired.py` by
which test. Arms are compared on the test split where it was read, otherwise
on validation: one split and one family of comparisons a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ablate.compare.statistics import computed, settling
from ablate.compare.statistics.against import Judge, compared
from ablate.compare.statistics.effects import effects, family_of
from ablate.compare.statistics.further import with_further
from ablate.compare.statistics.verdicts import verdicts
from ablate.compare.table.rows import ArmSummary, Summary
from ablate.compare.table.settings import also_different
from ablate.results.cells import Cells
from ablate.results.looks import looks_of
from ablate.results.replication import MIN_SEARCHES, Replication, replication_of
from ablate.results.result import results_of
from ablate.results.settings import winning_settings
from ablate.store.journal import Journal, kept_outside, not_compiled
from ablate.store.study_record import SearchRecord, StudyRecord

ALPHA = 0.05  # of the whole table


def summarise(
    record: StudyRecord,
    journals: Mapping[str, Journal],
    *,
    alpha: float = ALPHA,
    copied: StudyRecord | None = None,
) -> Summary:
    """The table's numbers from what is stored. A trial without a journal is missing.

    `copied`: the record of the scale whose winners' settings this one lists (`results/copied.py`).
    """
    replication = replication_of(record)
    if copied is not None:  # one winner an arm, however many searches there were
        replication = replace(replication, num_searches=1)
    judge = Judge(
        record.metric,
        alpha,
        replication,
        looks_of(record, replication),
        record.margin,
        record.judged_before,
        bool(record.imported),
    )
    cells = Cells(record, results_of(journals))
    results = cells.arms()
    family = family_of(record, results, judge)
    arms = with_further(compared(results, judge, family), record.base_arm, cells.split, judge)
    return Summary(
        record=record,
        replication=replication,
        looks=judge.looks,
        metric=judge.metric,
        split=cells.split,
        alpha=alpha,
        floor={split: judge.metric.show(loss) for split, loss in record.floor.items()},
        arms=tuple(arms),
        seconds=cells.seconds(record.trial_ids()),
        ensembles=tuple(cells.ensembles()),
        notes=tuple(_notes(record, replication, arms, journals, copied)),
        effects=effects(record, arms, judge, family),
        found=winning_settings(record, journals, active=True),
        verdicts=verdicts(record, arms, journals, judge),
    )


def _notes(
    record: StudyRecord,
    replication: Replication,
    arms: list[ArmSummary],
    journals: Mapping[str, Journal],
    copied: StudyRecord | None,
) -> Iterable[str]:
    """What is unusual about this table."""
    yield from record.notes
    yield from _without_effect(record, journals)
    yield from also_different(record, journals)
    known = [journals[t.id] for t in record.trials if t.id in journals]
    yield from kept_outside(known)
    yield from not_compiled(known)
    not_alike = computed.note(record, arms, journals)
    if not_alike is not None:
        yield not_alike
    base = next((arm for arm in arms if arm.is_base), None)
    if base is None:
        yield f"The base arm '{record.base_arm}' is not in this table: nothing to compare with."
    elif not base.values:
        yet = " yet" if base.counts.missing else ""
        yield f"The base arm '{base.name}' has no result{yet}: nothing to compare with."
    if replication.of_settings_found:
        tuned = _tuned_by(record, replication, copied)
        yield (
            f"No verdict on any arm, and none is marked best: {tuned}, which does not show "
            "how much searches vary. Intervals are of the settings found, over seeds. With "
            f"repeats={MIN_SEARCHES} or more in the study's Search, a pair is a search, and there "
            "are verdicts."
        )
    yield from settling.note(record, arms, journals)
    yield from _inherited(record)
    for arm in arms:
        below = [s for s, c in arm.cells.items() if c.above_floor is not None and c.above_floor < 0]
        if below:
            yield (
                f"{arm.name} is below the best possible on {' and '.join(below)}: "
                "look for a leak before believing it."
            )


def _tuned_by(record: StudyRecord, replication: Replication, copied: StudyRecord | None) -> str:
    """Who found the settings: searches of this scale, or those of another."""
    if copied is not None:
        return f"its settings are those that a search of {copied.key} found"
    if record.num_searches is not None and not record.settings_of:
        return "its settings were found by a search that is not on record"
    if record.settings_of:
        return f"its settings were found by {replication.searches} of {record.settings_of}"
    return f"each was tuned by {replication.searches}"


def _without_effect(record: StudyRecord, journals: Mapping[str, Journal]) -> Iterable[str]:
    """Name the settings that change nothing; an arm with no other change equals the base arm."""
    arms: dict[str, list[str]] = {}
    for trial in record.trials:
        for setting in journals[trial.id].without_effect if trial.id in journals else ():
            if trial.arm not in arms.setdefault(setting, []):
                arms[setting].append(trial.arm)
    every = len({trial.arm for trial in record.trials})
    named = [
        f"{setting} ({'every arm' if len(of) == every else ', '.join(of)})"
        for setting, of in arms.items()
    ]
    if named:
        yield f"Without effect, as the models have nothing for it to act on: {'; '.join(named)}."


def _inherited(record: StudyRecord) -> Iterable[str]:
    """Which arms were not tuned from scratch, and the trials that their settings cost."""
    num_trials: Counter[str] = Counter()
    heirs: dict[str, SearchRecord] = {}
    for search in record.searches:
        if search.seed_index is None:
            num_trials[search.arm] += len(search.trials)
            heirs |= {search.arm: search} if search.inherits else {}
    for arm, search in heirs.items():
        before, ancestor = 0, search.inherits
        while ancestor is not None:
            before += num_trials[ancestor]
            ancestor = heirs[ancestor].inherits if ancestor in heirs else None
        rows = ", ".join(f"'{row}'" for row in search.over)
        if num_trials[arm]:  # else its search has not started: nothing was inherited yet
            yield (
                f"{arm} inherited the best settings of {search.inherits} and searched only {rows}, "
                f"in {num_trials[arm]} trials of its own; {num_trials[arm] + before} trials are "
                f"behind its settings, {before} behind those of {search.inherits}."
            )
