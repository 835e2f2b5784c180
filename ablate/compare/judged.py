"""A study's record and journals, and every number of its table that follows from them. Pure;
`table/study_table.py` lays them out.

`results/cells.py` says what enters a cell, `against.py` what is called better or worse, and
`paired.py` by which test. Arms are compared on the test split where it was read, otherwise
on validation: one split and one family of comparisons a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ablate.compare.statistics import computed, settling
from ablate.compare.statistics.against import Judge, compared
from ablate.compare.statistics.design import Design, design_of
from ablate.compare.statistics.effects import effects, family_of
from ablate.compare.statistics.family import Family
from ablate.compare.statistics.settling import Unsettled
from ablate.compare.statistics.verdicts import verdicts
from ablate.compare.table.rows import ArmSummary, Effects
from ablate.compare.table.settings import also_different
from ablate.config.metrics import Metric
from ablate.results.arm import ArmResult, EnsembleResult
from ablate.results.cells import Cells
from ablate.results.result import results_of
from ablate.results.settings import Found, winning_settings
from ablate.store.journal import Journal, kept_outside, not_compiled
from ablate.store.looks import Looks
from ablate.store.outcome import TEXT
from ablate.store.replication import MIN_SEARCHES, Replication, plural
from ablate.store.study_record import SearchRecord, StudyRecord

ALPHA = 0.05  # of the whole table
LONG_NAME = 24  # characters


@dataclass(frozen=True)
class Blocks:
    """What every run was measured on: items, clusters of them, or runs of tokens of a text.
    Intervals hold for new ones, too."""

    unit: str  # item, cluster, or TEXT
    num: int
    alone: bool  # of one training each: only they repeat a difference

    def __str__(self) -> str:
        return self.unit if self.unit == TEXT else plural(self.unit)


@dataclass(frozen=True, eq=False, repr=False)
class Judged:
    """A study as far as its journals go: a trial without one is missing. What follows from them is
    derived once, when it is first asked for.

    `copied`: the record of the scale whose winners' settings this one lists (`results/copied.py`).
    """

    record: StudyRecord
    journals: Mapping[str, Journal]
    alpha: float = ALPHA
    copied: StudyRecord | None = None
    rungs: Sequence[Judged] = ()  # of a ladder, if it is opened as a whole

    @cached_property
    def _tuned(self) -> StudyRecord:
        """The record; with copied settings there is one winner an arm, however many searches there
        were."""
        return self.record if self.copied is None else replace(self.record, num_searches=1)

    @property
    def replication(self) -> Replication:
        """What repeats an arm's result."""
        return self._tuned.replication

    @property
    def looks(self) -> Looks:
        """The looks that were planned and made."""
        return self._tuned.every_look

    @cached_property
    def judge(self) -> Judge:
        """How the table decides."""
        kept = self.record.kept_plan
        return Judge(
            self.record.metric,
            self.alpha,
            self.replication,
            self.looks,
            None if kept and kept.new_margin else self.record.margin,
            self.record.tested_elsewhere,
            bool(self.record.imported),
        )

    @cached_property
    def _cells(self) -> Cells:
        return Cells(self.record, results_of(self.journals))

    @cached_property
    def _results(self) -> list[ArmResult]:
        return self._cells.arms()

    @cached_property
    def design(self) -> Design | None:
        """The factors of a factorial; None for any other study."""
        return design_of(self.record, [arm.name for arm in self._results])

    @cached_property
    def _family(self) -> Family:
        return family_of(self.record, self.design, self._results, self.judge)

    @cached_property
    def arms(self) -> tuple[ArmSummary, ...]:
        """The table's rows."""
        return tuple(compared(self._results, self.judge, self._family))

    @cached_property
    def effects(self) -> Effects | None:
        """The effects of a factorial's factors."""
        return effects(self.record, self.design, self.arms, self.judge, self._family)

    @cached_property
    def ensembles(self) -> tuple[EnsembleResult, ...]:
        """The results of ensembles of trials."""
        return tuple(self._cells.ensembles())

    @cached_property
    def found(self) -> Found:
        """What the searches found that are over."""
        return winning_settings(self.record, self.journals, active=True)

    @cached_property
    def found_so_far(self) -> Found:
        """The same with the best trials of the searches that are not over, and with the fields of
        rows that were inactive."""
        return winning_settings(self.record, self.journals, so_far=True)

    @cached_property
    def verdicts(self) -> Mapping[tuple[str, str, str], str]:
        """(arm, metric, split) -> the verdict on the published number."""
        return verdicts(self.record, self.arms, self.journals, self.judge)

    @cached_property
    def unsettled(self) -> tuple[Unsettled, ...]:
        """The compared arms whose training had not settled."""
        return tuple(settling.unsettled(self.arms, self.journals, self.metric))

    @cached_property
    def not_alike(self) -> str:
        """The pairs that were not computed alike; empty if all were."""
        return "".join(computed.note(self.record, self.arms, self.journals))

    @cached_property
    def seconds(self) -> float:
        """How long the epochs of every trial took; one that arms share counts once."""
        return self._cells.seconds(self.record.trial_ids())

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know about this very table."""
        return tuple(_notes(self))

    @cached_property
    def blocks(self) -> Blocks | None:
        """What every run was measured on, if all were on the same, and if it enters intervals."""
        by_block = next((arm for arm in self._results if arm.by_block), None)
        alone = all(arm.counts.planned == 1 for arm in self._results)
        if by_block is None or (alone and not (self.looks.is_one and by_block.is_alone)):
            return None
        num = len(next(iter(by_block.by_block.values())))
        return Blocks(by_block.blocks_of, num, alone=alone)

    @property
    def metric(self) -> Metric:
        """The metric that decides."""
        return self.record.metric

    @property
    def split(self) -> str:
        """The split that decides."""
        return self._cells.split

    @property
    def floor(self) -> Mapping[str, float]:
        """Split -> the best possible, in the table's unit."""
        return {split: self.metric.show(loss) for split, loss in self.record.floor.items()}

    @property
    def unit(self) -> str:
        """What the table shows: `perplexity`."""
        return self.metric.shown

    @property
    def shown_split(self) -> str:
        """What the column of the deciding numbers is of; imported ones have no split."""
        return self.metric.shown if self.record.imported else self.split

    @property
    def tuned_by(self) -> str:
        """Who found the arms' settings: searches of this scale, or those of another."""
        record, searches = self.record, self.replication.searches
        if self.copied is not None:
            return f"the settings are those that a search of {self.copied.key} found"
        if record.num_searches is not None and not record.settings_of:
            return "the settings were found by a search that is not on record"
        if record.settings_of:
            return f"the settings were found by {searches} of {record.settings_of}"
        return f"each was tuned by {searches}"

    @property
    def whole(self) -> bool:
        """Return whether every arm has every planned result."""
        return all(arm.whole for arm in self.arms)

    @property
    def num_comparisons(self) -> int:
        """How many arms are compared, or will be when they have results; with those that a ledger
        knows."""
        tested = sum(arm.is_tested for arm in self.arms) + self.record.tested_elsewhere
        return tested if any(arm.is_base for arm in self.arms) else 0

    @property
    def family(self) -> int:
        """How many tests are corrected together: of arms, and of main effects and interactions."""
        return self.num_comparisons + len(self.effects.effects if self.effects else ())

    @property
    def elsewhere(self) -> dict[str, str]:
        """The arms that are compared with another arm than the base arm, and with which."""
        return {
            arm.name: arm.against
            for arm in self.arms
            if arm.comparison and arm.against not in (None, self.record.base_arm)
        }

    @property
    def without_effect(self) -> dict[str, list[str]]:
        """The settings that change nothing, and the arms that have them."""
        arms: dict[str, list[str]] = {}
        for trial in self.record.trials:
            journal = self.journals.get(trial.id)
            for setting in journal.without_effect if journal else ():
                if trial.arm not in arms.setdefault(setting, []):
                    arms[setting].append(trial.arm)
        return arms

    def about_base(self) -> Iterator[str]:
        """Why nothing is compared, if there is no base to compare with."""
        base = next((arm for arm in self.arms if arm.is_base), None)
        if base is None:
            name = self.record.base_arm
            yield f"The base arm '{name}' is not in this table: nothing to compare with."
        elif not base.values:
            yet = " yet" if base.counts.missing else ""
            yield f"The base arm '{base.name}' has no result{yet}: nothing to compare with."

    def below_floor(self) -> Iterator[str]:
        """The arms that are better than anything can be."""
        for arm in self.arms:
            above = {split: cell.above_floor for split, cell in arm.cells.items()}
            below = [split for split, by in above.items() if by is not None and by < 0]
            if below:
                yield (
                    f"{arm.name} is below the best possible on {' and '.join(below)}: "
                    "look for a leak before believing it."
                )

    def called(self, name: str) -> str:
        """An arm's name in a sentence or a heading: a long one of the base arm is `the base`."""
        is_long = name == self.record.base_arm and len(name) > LONG_NAME
        return "the base" if is_long else name

    def arm(self, name: str) -> ArmSummary:
        """Return the arm of this name, which must exist."""
        return next(arm for arm in self.arms if arm.name == name)


def _notes(judged: Judged) -> Iterable[str]:
    """What is unusual about this table."""
    record, journals = judged.record, judged.journals
    yield from record.notes
    if record.kept_plan is not None:
        yield str(record.kept_plan)
    yield from _without_effect(judged)
    yield from also_different(record, journals, judged.found_so_far)
    known = [journals[t.id] for t in record.trials if t.id in journals]
    yield from kept_outside(known)
    yield from not_compiled(known)
    yield from filter(None, [judged.not_alike])
    yield from judged.about_base()
    if judged.replication.untestable:
        yield (
            f"No verdict on any arm, and none is marked best: {judged.tuned_by}, which does not "
            "show how much searches vary. Intervals are of the settings found, over seeds. With "
            f"repeats={MIN_SEARCHES} or more in the study's Search, a pair is a search, and there "
            "are verdicts."
        )
    yield from settling.note(judged.unsettled, judged.metric)
    yield from _inherited(record)
    yield from judged.below_floor()


def _without_effect(judged: Judged) -> Iterable[str]:
    """Name the settings that change nothing; an arm with no other change equals the base arm."""
    every = len({trial.arm for trial in judged.record.trials})
    named = [
        f"{setting} ({'every arm' if len(of) == every else ', '.join(of)})"
        for setting, of in judged.without_effect.items()
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
