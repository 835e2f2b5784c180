"""The time that a study still takes: the one estimate, of `ablate plan` and of the screen.

1. A running trial takes its own pace for the epochs left, and after the last one what others took.
2. A trial that waits takes the mean of its kind (its arm and stage): of those that this driver saw,
   else of earlier ones, times how much slower other kinds are here than they were then.
3. Without any of its kind, the mean of those of other kinds, in proportion to their work: epochs,
   or the seconds that operations suggest. What trains says nothing of what only evaluates.
4. Before anything has ended, operations alone say it, if they are given.
5. Workers take the trials in turn: one that builds on others waits until these have ended.
"""

from __future__ import annotations

import heapq
import math
import statistics
from collections import deque
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from ablate.config.identity import StageName, Trial
from ablate.config.metrics import Metric
from ablate.store.epoch import Epoch
from ablate.store.journal import Journal
from ablate.store.outcome import Status
from ablate.store.study_record import SearchRecord, StudyRecord, starting_order

LATEST = 10  # trials or epochs that count: the load of a machine changes
TELLING_SHARE = 0.02  # of an epoch, from which on it says how long the whole takes
Kind = tuple[str, str]  # what trials of about the same length share: the arm and the stage
Took = tuple[float, float]  # the seconds of a trial, and its work; 0: it trains nothing
Known = Mapping[Kind, Sequence[Took]]


@dataclass(frozen=True)
class Job:
    """Something to be done, for example a trial, that starts when those in `after` have ended."""

    id: Hashable
    seconds: float  # NaN if unknown
    after: Collection[Hashable] = ()


@dataclass
class Running:
    """A running trial and its progress."""

    trial: Trial
    start: float
    num_epochs: int | None = None
    epoch: int = 0
    loss: float | None = None
    tokens_a_second: float | None = None
    seconds: float | None = None  # the trial's own clock at its last epoch
    reached: float = 0.0  # epochs done, with the share of the one under way
    latest: float | None = None  # when it reached that
    first: tuple[float, float] | None = None  # what it had reached when first seen, and when
    whole: bool | None = None  # whether it was seen from its first epoch on, none of them twice
    epochs: deque[float] = field(default_factory=lambda: deque(maxlen=LATEST))  # their seconds

    def update(self, epoch: Epoch, metric: Metric, now: float) -> None:
        """Update from an epoch that has ended."""
        if epoch.number <= self.epoch:
            self._restart()
        if self.whole is None and epoch.number == 1:
            self.whole = True
        before = self.seconds if self.epoch else (0.0 if epoch.number == 1 else None)
        self.epoch, self.seconds = epoch.number, epoch.seconds
        self.loss = metric.loss_of(epoch.metrics, "valid")
        self.reached, self.latest = float(self.epoch), now
        took = None if before is None or self.seconds is None else self.seconds - before
        if took is not None:
            self.epochs.append(took)
        self.tokens_a_second = epoch.tokens / took if epoch.tokens and took and took > 0 else None

    def reach(self, epochs: float, now: float) -> None:
        """Update from how many epochs are done, with the share of the one under way."""
        if epochs < self.reached:
            self._restart()
        self.first = self.first or (epochs, now)
        if epochs > self.reached:
            self.reached, self.latest = epochs, now

    def _restart(self) -> None:
        """Forget the trial's epochs: it was cut, and repeats those that were not saved."""
        self.epoch, self.seconds, self.reached = 0, None, 0.0
        self.first = self.latest = None
        self.whole = False
        self.epochs.clear()

    @property
    def pace(self) -> float | None:
        """The seconds of an epoch: by the latest ones seen, else by the share seen of one, else by
        all; None before that."""
        if self.epochs:
            return statistics.fmean(self.epochs)
        if self.first and self.latest and self.reached - self.first[0] >= TELLING_SHARE:
            return (self.latest - self.first[1]) / (self.reached - self.first[0])
        return self.seconds / self.epoch if self.epoch and self.seconds else None

    def left(self, now: float, usual: float, closing: float) -> float:
        """Return the estimated seconds left: by its own epochs, else by `usual`.

        `closing`: what follows the last epoch. What takes longer than expected is expected to
        take as much longer again.
        """
        if self.pace is None or self.num_epochs is None or self.latest is None:
            return abs(usual - (now - self.start))
        num_left, since = self.num_epochs - self.reached, now - self.latest
        if num_left <= 0:
            return abs(closing - since)
        return abs(self.pace * num_left + closing - min(since, self.pace))


class Forecast:
    """Predicts what a study's trials will take from what its ended and running trials took.

    `epoch_seconds`: of each arm, as its operations suggest. `searched_epochs`: of each trial that
    the search of an arm requests. Both are optional; the record of the study comes first.
    """

    def __init__(
        self,
        epoch_seconds: Mapping[str, float] | None = None,
        searched_epochs: Mapping[str, int | None] | None = None,
    ) -> None:
        self.running: dict[str, Running] = {}
        self._kinds: dict[str, Kind] = {}
        self._here: dict[Kind, deque[Took]] = {}
        self._before: dict[Kind, deque[Took]] = {}
        self._closing: deque[float] = deque(maxlen=LATEST)
        self._epoch_seconds = epoch_seconds or {}
        self._searched_epochs = searched_epochs or {}

    def take_record(self, record: StudyRecord) -> None:
        """Update the plan, which grows as searches request trials."""
        self._epochs: dict[Kind, float | None] = {
            (arm, StageName.SEARCH): num for arm, num in self._searched_epochs.items()
        }
        epochs: dict[Kind, list[int]] = {}
        self._models: dict[tuple[str, int | None], list[str]] = {}
        for trial in reversed(record.trials):  # arms share some: the first one's kind counts
            kind = self._kinds[trial.id] = (trial.arm, trial.stage)
            self._models.setdefault((trial.arm, trial.seed_index), []).append(trial.id)
            if trial.epochs is not None:
                epochs.setdefault(kind, []).append(trial.epochs)
        for search in record.searches:
            self._kinds |= dict.fromkeys(search.trials, (search.arm, StageName.SEARCH))
        self._searches = record.searches
        # What is planned counts more than what a caller expects of a search's trials.
        self._epochs |= {kind: statistics.fmean(each) for kind, each in epochs.items()}
        self._parents = {trial.id: trial.parents for trial in record.trials}
        self._places = {one: place for place, one in enumerate(starting_order(record.trials))}

    def started(self, trial: Trial, now: float) -> None:
        """Take in that a trial runs."""
        self.running[trial.id] = Running(trial, now, _num_epochs(trial))
        self._kind(trial)

    def ended(self, journal: Journal, now: float = 0.0) -> Running | None:
        """Learn what an ended trial took. Return its progress here; None if it ran elsewhere.

        A trial that was not seen from start to end took what its own clock says.
        """
        running = self.running.pop(journal.trial.id, None)
        if journal.status not in (Status.COMPLETED, Status.PRUNED):
            return running
        if running is not None and running.latest is not None:
            self._closing.append(now - running.latest)  # evaluation, and saving
        seconds = _own_seconds(journal, self.closing)
        if running is not None and (running.whole or seconds is None):
            seconds = now - running.start
        if seconds is not None:
            kind, known = self._kind(journal.trial), self._here if running else self._before
            took = (seconds, self._work(kind[0], len(journal.epochs)) or 0.0)
            known.setdefault(kind, deque(maxlen=LATEST)).append(took)
        return running

    @property
    def closing(self) -> float:
        """Mean seconds from a trial's last epoch to its end; 0 while unknown."""
        return statistics.fmean(self._closing) if self._closing else 0.0

    def seconds_left(
        self, arms: Collection[str], unfinished: Collection[str], workers: int, now: float = 0.0
    ) -> float | None:
        """Return the seconds left for these arms, whose planned trials that have not ended are
        `unfinished`; None while unknown."""
        expected = self._expected()
        kinds = {one: self._kinds.get(one, ("", "")) for one in unfinished}
        usual = {kind: self._usual(kind, expected) for kind in set(kinds.values())}
        running: dict[Hashable, float] = {
            one: self.running[one].left(now, usual[kind], self.closing)
            for one, kind in kinds.items()
            if one in self.running
        }
        waiting = sorted(
            kinds.keys() - running, key=lambda one: self._places.get(one, len(self._places))
        )
        jobs = [Job(one, usual[kinds[one]], self._parents.get(one, ())) for one in waiting]
        for search in self._searches:
            if search.arm in arms:
                jobs += self._of_search(search, expected)
        seconds = seconds_until_done(jobs, workers, running)
        return None if math.isnan(seconds) else seconds

    def _of_search(self, search: SearchRecord, expected: Known) -> list[Job]:
        """The jobs of a search: its trials to come, its end, and what then confirms its winner.

        It waits for the model whose evaluation it searches, and for the search from which it
        inherits.
        """
        num = 0 if search.shared else search.unrequested  # another search asks for shared ones
        if not (num or search.confirming):
            return []
        before: list[Hashable] = [*self._models.get((search.arm, search.seed_index), ())]
        if search.inherits is not None:
            before.append((search.inherits, search.repeat, None))
        end = (search.arm, search.repeat, search.seed_index)
        seconds = self._usual((search.arm, StageName.SEARCH), expected) if num else 0.0
        jobs = [Job((end, "asks", at), seconds, before) for at in range(num)]
        # Takes no time: what confirms the winner starts when the last of these has ended.
        jobs.append(Job(end, 0.0, [*before, *search.trials, *(job.id for job in jobs)]))
        after = search.confirming_after or ((),) * len(search.confirming)
        for at, (epochs, parents) in enumerate(zip(search.confirming, after, strict=True)):
            each = self._of_others(self._work(search.arm, epochs), expected)
            jobs.append(Job((end, at), each, [end, *((end, one) for one in parents)]))
        return jobs

    def _kind(self, trial: Trial) -> Kind:
        return self._kinds.setdefault(trial.id, (trial.arm, trial.stage))

    def _work(self, arm: str, epochs: float | None) -> float | None:
        return None if epochs is None else epochs * self._epoch_seconds.get(arm, 1.0)

    def _usual(self, kind: Kind, expected: Known) -> float:
        """Mean seconds of a trial of this kind; NaN if unknown. `expected`: what runs."""
        if kind in self._here:
            return _mean(self._here[kind])
        if before := self._before.get(kind):
            return _mean(before) * self._slower({**expected, **self._here}, trains=_trains(before))
        return self._of_others(self._work(kind[0], self._epochs.get(kind)), expected)

    def _slower(self, now: Known, *, trains: bool) -> float:
        """How many times as long as under earlier drivers a trial takes now; 1 if no kind of trial
        ran under both.

        Trials that train are compared with trials that train, and the others with the others, if
        there are any: a processor may be slow at the products of training in half precision, and
        fast at those of evaluation.
        """
        both = now.keys() & self._before.keys()
        both = {kind for kind in both if _trains(self._before[kind]) == trains} or both
        if not (before := sum(_mean(self._before[kind]) for kind in both)):
            return 1.0
        return sum(_mean(now[kind]) for kind in both) / before

    def _of_others(self, work: float | None, expected: Known) -> float:
        """The seconds of a trial of this work, from trials of any kind; else from operations.

        Without any that only evaluated, an evaluation takes what follows a last epoch.
        """
        for known in (self._here, expected, self._before):
            took = [one for each in known.values() for one in each]
            if same := [one for one in took if work is None or (one[1] > 0) == (work > 0)]:
                return _mean(same) * (work / statistics.fmean(w for _, w in same) if work else 1.0)
        if work == 0:
            return self.closing
        return work if work and self._epoch_seconds else math.nan

    def _expected(self) -> dict[Kind, list[Took]]:
        """The seconds that running trials are expected to take, and their work, by kind."""
        expected: dict[Kind, list[Took]] = {}
        for one in self.running.values():
            if one.pace and one.num_epochs:
                work = self._work(one.trial.arm, one.num_epochs) or 0.0
                took = (one.pace * one.num_epochs, work)
                expected.setdefault(self._kind(one.trial), []).append(took)
        return expected


def seconds_until_done(
    jobs: Sequence[Job], workers: int, running: Mapping[Hashable, float] | None = None
) -> float:
    """Return the seconds until the last job ends, if a free worker takes the first that may start.

    `running`: jobs under way, and the seconds left of each. An id in `after` that is in neither
    `running` nor `jobs` counts as ended. The result is NaN if the seconds of any job are.
    """
    running = running or {}
    if any(map(math.isnan, (*running.values(), *(job.seconds for job in jobs)))):
        return math.nan
    unfinished = {job.id for job in jobs} | running.keys()
    waits_for = [unfinished.intersection(job.after) for job in jobs]
    followers: dict[Hashable, list[int]] = {}
    for number, others in enumerate(waits_for):
        for other in others:
            followers.setdefault(other, []).append(number)
    ready = [number for number, others in enumerate(waits_for) if not others]  # sorted: a heap
    # Numbered, since a heap would compare ids of equal ends, and these have several types.
    ends = [(seconds, -1 - at, one) for at, (one, seconds) in enumerate(running.items())]
    heapq.heapify(ends)
    now = 0.0
    while ends or ready:
        while ready and len(ends) < max(1, workers):
            number = heapq.heappop(ready)
            heapq.heappush(ends, (now + jobs[number].seconds, number, jobs[number].id))
        now, _, ended = heapq.heappop(ends)
        for number in followers.pop(ended, ()):
            waits_for[number].discard(ended)
            if not waits_for[number]:
                heapq.heappush(ready, number)
    return now


def _own_seconds(journal: Journal, closing: float) -> float | None:
    """The seconds of a trial by its own clock, which stops at the last epoch."""
    if journal.epochs:
        own = journal.epochs[-1].seconds
        return None if own is None else own + closing
    return journal.outcome.seconds if journal.outcome else None


def _num_epochs(trial: Trial) -> int | None:
    """The epochs planned. A language model's are always among its values."""
    if "task" in trial.values:
        return trial.config.num_epochs
    epochs = trial.values.get("training.epochs")
    return epochs if isinstance(epochs, int) and epochs > 0 else None


def _trains(took: Sequence[Took]) -> bool:
    return any(work > 0 for _, work in took)


def _mean(took: Sequence[Took]) -> float:
    return statistics.fmean(seconds for seconds, _ in took)
