"""What enters an arm's cells: only final trials that completed with a finite value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ablate.config.identity import StageName
from ablate.config.metrics import ARMS, PERPLEXITY, SPLITS, Metric
from ablate.results.arm import ArmResult, Cell, Counts, EnsembleResult, Measured
from ablate.results.result import AT_FLOOR, LOST, MISSING, RAISED, Result
from ablate.results.spread import mean, spread
from ablate.store.outcome import TEXT, Status
from ablate.store.study_record import ArmRecord, PlannedTrial, SearchRecord, StudyRecord

LossesBySplit = Mapping[str, Mapping[int, float]]  # split -> seed index -> loss
ENDED = (Status.COMPLETED, Status.DIVERGED, Status.FAILED, Status.PRUNED)


class Cells:
    """The arms' results, from a study's record and the results of its trials by id."""

    def __init__(self, record: StudyRecord, results: Mapping[str, Result]) -> None:
        self._record, self._results, self._metric = record, results, record.metric
        self._replication = record.replication
        self._finals: dict[str, list[PlannedTrial]] = {}
        for trial in record.trials:
            if trial.final and trial.stage != StageName.ENSEMBLE:
                self._finals.setdefault(trial.arm, []).append(trial)
        measures = (t for t in record.trials if t.stage == StageName.MEASURE)
        self._measures = {trial.parents[0]: trial.id for trial in measures}
        self._parents = {trial.id: trial.parents for trial in record.trials}
        finals = [trial for trials in self._finals.values() for trial in trials]
        # One split for the whole table: arms and seeds are compared on the same text.
        test_was_read = any(
            self._loss(trial.id, "test", self._metric) is not None for trial in finals
        )
        self.split = "test" if test_was_read else "valid"

    def arms(self) -> list[ArmResult]:
        """Every arm, except those that are only ensembles of other arms' trials. All results have
        the same blocks, or none has any."""
        ensembles = {t.arm for t in self._record.trials if t.stage == StageName.ENSEMBLE}
        arms = [
            self._arm(arm)
            for arm in self._record.arms
            if arm.name in self._finals or arm.name not in ensembles
        ]
        sizes = {len(arm.by_block.get(at, ())) for arm in arms for at in arm.values}
        return arms if len(sizes) == 1 else [replace(arm, by_block={}) for arm in arms]

    def ensembles(self) -> list[EnsembleResult]:
        """Return the result of every ensemble of the study."""
        return [self._ensemble(t) for t in self._record.trials if t.stage == StageName.ENSEMBLE]

    def _arm(self, arm: ArmRecord) -> ArmResult:
        finals = self._finals.get(arm.name, [])
        done = [t.id for t in finals if self._own_fate(t.id) == Status.COMPLETED]
        measured = self._measured(arm, self._metric, arm.published)
        lineages = [trial_id for final in done for trial_id in self._lineage(final)]
        fates = self._fates(arm, finals)
        return ArmResult(
            name=arm.name,
            is_base=arm.name == self._record.base_arm,
            num_parameters=self._num_parameters(arm, done),
            counts=_counts(fates.values()),
            measured=measured,
            tokens=round(self._tokens(lineages) / max(1, len(done))),
            seconds=self.seconds(self._record.trial_ids(arm.name)),
            operations=self._operations(lineages, len(done)),
            seconds_a_seed=self.seconds(lineages) / max(1, len(done)),
            trials=tuple(done),
            unmeasured=sum(self._is_unmeasured(trial_id) for trial_id in done),
            values=measured.losses[self.split],
            against=arm.against,
            together=arm.together,
            fates=fates,
            by_block=self._by_block(finals),
            blocks_of=next((self._results[t].deviations_of for t in done), ""),
            stopped_at=arm.stopped_at,
            others=tuple(
                self._measured(arm, metric, arm.published_columns.get(metric.name, {}))
                for metric in self._record.columns
            ),
        )

    def _by_block(self, finals: Iterable[PlannedTrial]) -> dict[int, tuple[float, ...]]:
        known = {t.seed_index: self._results.get(t.id) for t in finals}
        blocks = {at: self._deviations(one) for at, one in known.items() if one is not None}
        return {at: own for at, own in blocks.items() if own}

    def _deviations(self, result: Result) -> tuple[float, ...]:
        """Those of a text are of its nats a token, of which one other metric is a multiple."""
        if result.deviations_of != TEXT:
            return result.deviations
        nats, own = (result.metrics.get(one.key("test")) for one in (PERPLEXITY, self._metric))
        if self.split != "test" or not self._metric.is_of_tokens or not nats or own is None:
            return ()
        return tuple(own / nats * each for each in result.deviations)

    def _measured(self, arm: ArmRecord, metric: Metric, published: Mapping[str, float]) -> Measured:
        by_split = self._differences if metric.of == ARMS else self._by_split
        losses = by_split(arm, metric)
        comparable = self._record.published_scale
        return Measured(
            metric=metric,
            losses=losses,
            cells=self._cells(losses, metric),
            lost=self._lost(arm, metric),
            published={s: v for s, v in published.items() if comparable and s in metric.splits},
        )

    def _lost(self, arm: ArmRecord, metric: Metric) -> dict[str, int]:
        """How many results of the planned trials are missing, by split."""
        finals = [trial.id for trial in self._finals.get(arm.name, [])]
        splits = metric.splits if metric.of != ARMS else ()
        return {split: sum(self._is_lost(t, split, metric) for t in finals) for split in splits}

    def _is_lost(self, trial_id: str, split: str, metric: Metric) -> bool:
        """Return whether a value is missing; a trial that completed without reporting any does not
        measure this metric, and has lost nothing."""
        if self._value(trial_id, split, metric) is not None:
            return False
        sources = [trial_id]
        if metric != self._metric and trial_id in self._measures:
            sources.append(self._measures[trial_id])
        results = [self._results.get(source, Result(status=None)) for source in sources]
        reported = any(metric.key(split) in result.metrics for result in results)
        return reported or any(result.status != Status.COMPLETED for result in results)

    def _ensemble(self, trial: PlannedTrial) -> EnsembleResult:
        values = {split: self._loss(trial.id, split, self._metric) for split in SPLITS}
        return EnsembleResult(
            arm=trial.arm,
            trial=trial.id,
            num_members=len(trial.parents),
            status=self._own_fate(trial.id),
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
        centre, floor = mean(losses), self._record.floor.get(split) if decides else None
        return Cell(
            mean=mean(shown),
            spread=spread(shown),
            num=len(losses),
            loss=centre,
            above_floor=None if floor is None else centre - floor,
            floor_ratio=mean(shown) / metric.show(floor) if floor else None,
        )

    def _fates(self, arm: ArmRecord, finals: list[PlannedTrial]) -> dict[int, str]:
        """What became of each of an arm's results, by seed index.

        A searched arm's final trials are planned only when its search has ended, but their number
        is known before. An arm that a look decided has no results beyond.
        """
        searches = [s for s in self._record.searches if s.arm == arm.name and s.seed_index is None]
        expected = [range(self._record.num_seeds), *(self._confirms(arm, s) for s in searches)]
        if arm.together and not searches:
            expected = [self._joint(0)]
        if self._record.imported:  # every arm's rows are all there is of it: none is waited for
            expected = []
        fates = dict.fromkeys((index for indices in expected for index in indices), MISSING)
        fates |= self._never_planned(arm)
        fates |= {t.seed_index: self._fate_of_value(t.id) for t in finals}
        pair, end = self._replication.pair, arm.stopped_at
        return {index: fates[index] for index in sorted(fates) if end is None or pair(index) < end}

    def _confirms(self, arm: ArmRecord, search: SearchRecord) -> range:
        """The seed indices of the results that confirm the winner of a search of settings."""
        if arm.together:
            return self._joint(search.repeat)
        num = self._record.num_seeds
        return range(search.repeat * num, (search.repeat + 1) * num)

    def _joint(self, repeat: int) -> range:
        """The index of a result over all seeds: after those of the seeds of all searches."""
        repeats = max((s.repeat + 1 for s in self._record.searches), default=1)
        index = repeats * self._record.num_seeds + repeat
        return range(index, index + 1)

    def _never_planned(self, arm: ArmRecord) -> dict[int, str]:
        """What became of the results that a search without a winner leaves unplanned, by seed
        index.

        What they would have built on decides: the finished model, or the search's trials.
        """
        fates: dict[int, str] = {}
        for search in self._record.searches:
            if search.arm == arm.name and search.ended and search.chosen is None:
                of_model = search.seed_index
                tried = [
                    self._own_fate(trial.id)
                    for trial in self._record.trials
                    if of_model is not None
                    and (trial.arm, trial.seed_index) == (arm.name, of_model)
                ]
                tried += map(self._own_fate, search.trials)
                lost = (fate for fate in tried if fate in LOST)
                indices = self._confirms(arm, search) if of_model is None else [of_model]
                fates |= dict.fromkeys(indices, next(lost, Status.FAILED))
        return fates

    def _fate(self, trial_id: str) -> str:
        """What became of a trial; one that failed because its parent was lost is lost."""
        own = self._own_fate(trial_id)
        if own != Status.FAILED:
            return own
        lineage = [self._own_fate(ancestor) for ancestor in self._lineage(trial_id)]
        return next((fate for fate in lineage if fate in LOST), own)

    def _fate_of_value(self, trial_id: str) -> str:
        """What became of the value on the split that decides."""
        value = self._results.get(trial_id, Result(status=None)).metrics.get(
            self._metric.key(self.split)
        )
        fate = self._fate(trial_id)
        at_floor = isinstance(value, int | float) and self._metric.is_at_floor(value)
        return AT_FLOOR if fate == Status.COMPLETED and at_floor else fate

    def _own_fate(self, trial_id: str) -> str:
        result = self._results.get(trial_id)
        return MISSING if result is None else result.fate(self._metric)

    def _loss(self, trial_id: str, split: str, metric: Metric) -> float | None:
        result = self._results.get(trial_id)
        return None if result is None else result.loss(metric, split)

    def _by_split(self, arm: ArmRecord, metric: Metric) -> LossesBySplit:
        finals = self._finals.get(arm.name, [])
        return {split: self._by_seed(finals, split, metric) for split in metric.splits}

    def _differences(self, arm: ArmRecord, metric: Metric) -> LossesBySplit:
        """Return, for each seed, how many more parameters the arm has than the compared arm."""
        other = arm.against or self._record.base_arm
        own = self._sizes(arm.name)
        theirs = next(iter(self._sizes(other).values()), None)
        if theirs is None or other == arm.name:
            return {ARMS: {}}
        return {ARMS: {index: metric.loss(size - theirs) for index, size in own.items()}}

    def _sizes(self, arm: str) -> dict[int, int]:
        """Seed index -> the parameters of a completed trial."""
        sizes = {
            trial.seed_index: self._results[trial.id].num_parameters
            for trial in self._finals.get(arm, [])
            if self._own_fate(trial.id) == Status.COMPLETED
        }
        return {index: size for index, size in sizes.items() if size}

    def _by_seed(self, finals: list[PlannedTrial], split: str, metric: Metric) -> dict[int, float]:
        """Seed index -> loss, in order."""
        values = {t.seed_index: self._value(t.id, split, metric) for t in finals}
        return {index: loss for index, loss in sorted(values.items()) if loss is not None}

    def _value(self, trial_id: str, split: str, metric: Metric) -> float | None:
        """Return a trial's own numbers, or those of the trial that measured its model."""
        own = self._loss(trial_id, split, metric)
        if own is not None or metric == self._metric:
            return own
        return self._loss(self._measures.get(trial_id, ""), split, metric)

    def _is_unmeasured(self, trial_id: str) -> bool:
        measure = self._measures.get(trial_id)
        return measure is not None and self._own_fate(measure) != Status.COMPLETED

    def _num_parameters(self, arm: ArmRecord, done: list[str]) -> int | None:
        counted = [self._results[trial_id].num_parameters for trial_id in done]
        return next((num for num in counted if num is not None), arm.num_parameters)

    def _lineage(self, trial_id: str) -> list[str]:
        """The trial and all those it builds on."""
        lineage = [trial_id]
        for current in lineage:  # grows while it is read
            lineage += [p for p in self._parents.get(current, ()) if p not in lineage]
        return lineage

    def _tokens(self, trial_ids: Iterable[str]) -> float:
        return sum(self._results[t].tokens for t in trial_ids if t in self._results)

    def _operations(self, trial_ids: Iterable[str], num: int) -> float | None:
        """The operations for each of `num` results; None if those of some trial are not known."""
        known = [self._results[t].operations for t in trial_ids if t in self._results]
        counted = [number for number in known if number is not None]
        return sum(counted) / num if num and len(counted) == len(known) else None

    def seconds(self, trial_ids: Iterable[str]) -> float:
        """Return how long the epochs of these trials took."""
        return sum(self._results[t].seconds for t in trial_ids if t in self._results)


def _counts(fates: Iterable[str]) -> Counts:
    number = Counter(fates)
    ended = {name: number[name] for name in ENDED}
    ended[Status.COMPLETED] += number[AT_FLOOR]
    ended[Status.FAILED] += number[RAISED]
    return Counts(
        planned=number.total(),
        missing=number[MISSING],
        raised=number[RAISED],
        at_floor=number[AT_FLOOR],
        **ended,
    )
