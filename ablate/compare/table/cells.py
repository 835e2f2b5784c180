"""What enters a table's cells: only final trials that completed with a finite value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ablate.compare.statistics import paired as statistics
from ablate.compare.table.rows import ArmSummary, Cell, Counts, EnsembleSummary, Measured
from ablate.config.identity import StageName
from ablate.config.metrics import ARMS, SPLITS, Metric, is_usable
from ablate.store.journal import Journal
from ablate.store.numbers import finite
from ablate.store.outcome import Status
from ablate.store.study_record import ArmRecord, PlannedTrial, StudyRecord

LossesBySplit = Mapping[str, Mapping[int, float]]  # split -> seed index -> loss
MISSING = "missing"
ENDED = (Status.COMPLETED, Status.DIVERGED, Status.FAILED, Status.PRUNED)


class Cells:
    """Rows from a study's record and the journals of its trials."""

    def __init__(self, record: StudyRecord, journals: Mapping[str, Journal]) -> None:
        self._record, self._journals, self._metric = record, journals, record.metric
        self._finals: dict[str, list[PlannedTrial]] = {}
        for trial in record.trials:
            if trial.final and trial.stage != StageName.ENSEMBLE:
                self._finals.setdefault(trial.arm, []).append(trial)
        measures = (t for t in record.trials if t.stage == StageName.MEASURE)
        self._measures = {trial.parents[0]: trial.id for trial in measures}
        self._parents = {trial.id: trial.parents for trial in record.trials}
        finals = [trial for trials in self._finals.values() for trial in trials]
        test_was_read = any(
            value(journals.get(trial.id), "test", self._metric) is not None for trial in finals
        )
        self.split = "test" if test_was_read else "valid"

    def arms(self) -> list[ArmSummary]:
        """A row for each arm, except those that are only ensembles of other arms' trials."""
        ensembles = {t.arm for t in self._record.trials if t.stage == StageName.ENSEMBLE}
        return [
            self._arm(arm)
            for arm in self._record.arms
            if arm.name in self._finals or arm.name not in ensembles
        ]

    def ensembles(self) -> list[EnsembleSummary]:
        return [self._ensemble(t) for t in self._record.trials if t.stage == StageName.ENSEMBLE]

    def _arm(self, arm: ArmRecord) -> ArmSummary:
        finals = self._finals.get(arm.name, [])
        done = [t.id for t in finals if self._own_fate(t.id) == Status.COMPLETED]
        measured = self._measured(arm, self._metric, arm.published)
        lineages = [trial_id for final in done for trial_id in self._lineage(final)]
        return ArmSummary(
            name=arm.name,
            is_base=arm.name == self._record.base_arm,
            num_parameters=self._num_parameters(arm, done),
            counts=self._counts(arm, finals),
            measured=measured,
            tokens=round(self._tokens(lineages) / max(1, len(done))),
            seconds=self.seconds(self._record.trial_ids(arm.name)),
            trials=tuple(done),
            unmeasured=sum(self._is_unmeasured(trial_id) for trial_id in done),
            values=measured.losses[self.split],
            against=arm.against,
            together=arm.together,
            others=tuple(
                self._measured(arm, metric, arm.published_columns.get(metric.name, {}))
                for metric in self._record.columns
            ),
        )

    def _measured(self, arm: ArmRecord, metric: Metric, published: Mapping[str, float]) -> Measured:
        by_split = self._differences if metric.of == ARMS else self._by_split
        losses = by_split(arm, metric)
        comparable = self._record.published_scale
        return Measured(
            metric=metric,
            losses=losses,
            cells=self._cells(losses, metric),
            published={s: v for s, v in published.items() if comparable and s in metric.splits},
        )

    def _ensemble(self, trial: PlannedTrial) -> EnsembleSummary:
        journal = self._journals.get(trial.id)
        values = {split: value(journal, split, self._metric) for split in SPLITS}
        return EnsembleSummary(
            arm=trial.arm,
            trial=trial.id,
            num_members=len(trial.parents),
            status=fate(journal, self._metric),
            cells=self._cells(
                {s: {0: v} for s, v in values.items() if v is not None}, self._metric
            ),
        )

    def _cells(self, losses: LossesBySplit, metric: Metric) -> dict[str, Cell]:
        return {
            split: self._cell(split, [*by_seed.values()], metric)
            for split, by_seed in losses.items()
            if by_seed
        }

    def _cell(self, split: str, losses: list[float], metric: Metric) -> Cell:
        shown = [metric.show(loss) for loss in losses]
        decides = metric == self._metric
        centre, floor = statistics.mean(losses), self._record.floor.get(split) if decides else None
        return Cell(
            mean=statistics.mean(shown),
            spread=statistics.spread(shown),
            num=len(losses),
            loss=centre,
            above_floor=None if floor is None else centre - floor,
            floor_ratio=statistics.mean(shown) / metric.show(floor) if floor else None,
        )

    def _counts(self, arm: ArmRecord, finals: list[PlannedTrial]) -> Counts:
        """Final trials of a searched arm are planned when its search is over; N is known before."""
        searches = (s for s in self._record.searches if s.seed_index is None)
        repeats = {search.repeat for search in searches if search.arm == arm.name}
        results = 1 if arm.together else self._record.num_seeds
        planned = max(len(finals), results * max(1, len(repeats)))
        fates = [self._fate(trial.id) for trial in finals]
        fates += self._never_planned(arm.name, results)
        ended = {name: fates.count(name) for name in ENDED}
        return Counts(planned=planned, missing=planned - sum(ended.values()), **ended)

    def _never_planned(self, arm: str, results: int) -> list[str]:
        """What became of the results that a search without a winner leaves unplanned.

        `results`: how many confirm the winner of a search of settings. What they would have built
        on decides: the finished model, or the search's trials.
        """
        fates: list[str] = []
        for search in self._record.searches:
            if search.arm == arm and search.ended and search.chosen is None:
                of_model = search.seed_index is not None
                tried = [
                    self._own_fate(trial.id)
                    for trial in self._record.trials
                    if of_model and (trial.arm, trial.seed_index) == (arm, search.seed_index)
                ]
                tried += map(self._own_fate, search.trials)
                selected = (f for f in tried if f in (Status.DIVERGED, Status.PRUNED))
                fates += [next(selected, Status.FAILED)] * (1 if of_model else results)
        return fates

    def _fate(self, trial_id: str) -> str:
        """What became of a trial; one that failed because its parent diverged has diverged."""
        own = self._own_fate(trial_id)
        if own != Status.FAILED:
            return own
        lineage = [self._own_fate(ancestor) for ancestor in self._lineage(trial_id)]
        return next((f for f in lineage if f in (Status.DIVERGED, Status.PRUNED)), own)

    def _own_fate(self, trial_id: str) -> str:
        return fate(self._journals.get(trial_id), self._metric)

    def _by_split(self, arm: ArmRecord, metric: Metric) -> LossesBySplit:
        finals = self._finals.get(arm.name, [])
        return {split: self._by_seed(finals, split, metric) for split in metric.splits}

    def _differences(self, arm: ArmRecord, metric: Metric) -> LossesBySplit:
        """How many more parameters the arm has than the one it is compared with, for each seed."""
        other = arm.against or self._record.base_arm
        own = self._sizes(arm.name)
        theirs = next(iter(self._sizes(other).values()), None)
        if theirs is None or other == arm.name:
            return {ARMS: {}}
        return {ARMS: {index: metric.loss(size - theirs) for index, size in own.items()}}

    def _sizes(self, arm: str) -> dict[int, int]:
        """Seed index -> the parameters of a completed trial."""
        outcomes = {
            trial.seed_index: self._journals[trial.id].outcome
            for trial in self._finals.get(arm, [])
            if self._own_fate(trial.id) == Status.COMPLETED
        }
        return {i: o.num_parameters for i, o in outcomes.items() if o and o.num_parameters}

    def _by_seed(self, finals: list[PlannedTrial], split: str, metric: Metric) -> dict[int, float]:
        """Seed index -> loss, in order."""
        values = {t.seed_index: self._value(t.id, split, metric) for t in finals}
        return {index: loss for index, loss in sorted(values.items()) if loss is not None}

    def _value(self, trial_id: str, split: str, metric: Metric) -> float | None:
        """What a trial reports, or what measured its model does."""
        own = value(self._journals.get(trial_id), split, metric)
        if own is not None or metric == self._metric:
            return own
        return value(self._journals.get(self._measures.get(trial_id, "")), split, metric)

    def _is_unmeasured(self, trial_id: str) -> bool:
        measure = self._measures.get(trial_id)
        return measure is not None and self._own_fate(measure) != Status.COMPLETED

    def _num_parameters(self, arm: ArmRecord, done: list[str]) -> int | None:
        counted = [o.num_parameters for t in done if (o := self._journals[t].outcome)]
        return next((num for num in counted if num is not None), arm.num_parameters)

    def _lineage(self, trial_id: str) -> list[str]:
        """The trial and all those it builds on."""
        lineage = [trial_id]
        for current in lineage:  # grows while it is read
            lineage += [p for p in self._parents.get(current, ()) if p not in lineage]
        return lineage

    def _tokens(self, trial_ids: Iterable[str]) -> float:
        journals = [self._journals[t] for t in trial_ids if t in self._journals]
        return sum(finite(epoch.get("tokens")) or 0 for j in journals for epoch in j.epochs)

    def seconds(self, trial_ids: Iterable[str]) -> float:
        """The last reading of each trial's clock, which runs on from epoch to epoch."""
        journals = [self._journals[t] for t in trial_ids if t in self._journals]
        clocks = ([finite(e.get("seconds")) or 0.0 for e in j.epochs] for j in journals)
        return sum(max(clock, default=0.0) for clock in clocks)


def value(journal: Journal | None, split: str, metric: Metric) -> float | None:
    """A completed trial's loss on a split; None for any other trial."""
    if journal is None or journal.status != Status.COMPLETED:
        return None
    return metric.loss_of(journal.metrics, split)


def fate(journal: Journal | None, metric: Metric) -> str:
    """What a trial counts as. One that completed with a metric that is no number has diverged."""
    if journal is None or journal.status is None:
        return MISSING
    values = [journal.metrics.get(metric.key(split)) for split in SPLITS]
    numbers = [finite(given) for given in values if given is not None]
    no_number = any(number is None or not is_usable(number) for number in numbers)
    return Status.DIVERGED if journal.status == Status.COMPLETED and no_number else journal.status
