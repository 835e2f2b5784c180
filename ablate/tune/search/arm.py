"""One arm's search: Optuna's ask and tell on a durable storage, repeatable after a crash.

- A trial that the search stopped early is marked as PRUNED, with its intermediate values.
- A trial suggested before a crash is not suggested again: its values are read back and it
  resumes. One that the crash left incomplete is marked as FAIL and drawn again with the same seed.
- A trial that failed is tried again by the next run, as another trial of Optuna's with the same
  values.
- Results count only for the trials that they are of. If the same values make other trials now
  (another version, corpus or precision), or its trials are trained again since their code has
  changed, the search starts from scratch under another name.
- The sampler is reseeded for every trial from the search's seed and the trial's index, so that a
  synchronous search repeats exactly, however often it was interrupted.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Collection, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import StorageInternalError
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy.exc import SQLAlchemyError

from ablate.config.identity import Trial
from ablate.config.merge import merge
from ablate.config.metrics import Metric
from ablate.config.streams import derived_seed
from ablate.errors import RecordError, StudyError, TrialError, wrong_value
from ablate.redaction import redacted
from ablate.store.epoch import Epoch
from ablate.store.journal import Journal
from ablate.store.outcome import Status
from ablate.study.planned import REDUCTION, Plan, PlannedSearch
from ablate.study.searches import plan_search_trial
from ablate.trial.task import validation_of
from ablate.tune.search import sampling
from ablate.tune.search.log import LoggedStorage, damaged
from ablate.tune.search.retrying import RetryingStorage, with_retries

MAX_REPEATS = 3  # repeated combinations; after that they are drawn at random
MAX_DRAWS = 20  # refused repeats; after that one is accepted: a space may be finite


@contextlib.contextmanager
def answering(url: str) -> Iterator[None]:
    """Raise a `RecordError` with the database's address if the database fails or is full."""
    try:
        yield
    except (SQLAlchemyError, StorageInternalError, ImportError) as error:
        why = str(error.__cause__ or error).split("\n")[0]
        raise RecordError(
            f"the search storage {redacted(url)} does not answer: {why}. Is the database "
            "up, and its disk not full? The same command resumes where this one stopped."
        ) from error


def open_storage(url: str, study: str) -> optuna.storages.BaseStorage:
    """The storage of a study's searches: a file in the workspace's folder, or a database."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if url.startswith("folder:"):
        return LoggedStorage(Path(url.removeprefix("folder:")) / f"{study}.log")
    with answering(url):
        if not url.startswith("postgresql"):
            return optuna.storages.RDBStorage(url)
        # Many drivers share a server's connections, and a restart leaves dead ones in the pool.
        small = {"pool_pre_ping": True, "pool_size": 2, "max_overflow": 2}
        return with_retries(lambda: RetryingStorage(url, engine_kwargs=small))


def open_search(
    url: str, again: Collection[str] = ()
) -> Callable[[PlannedSearch, Plan], ArmSearch]:
    """A function that opens or resumes a search; it opens no database before its first call. A
    search starts from scratch if it has a trial that is trained `again`."""
    opened: dict[str, optuna.storages.BaseStorage] = {}

    def search(planned: PlannedSearch, plan: Plan) -> ArmSearch:
        if plan.record.key not in opened:
            opened[plan.record.key] = open_storage(url, plan.record.key)
        with answering(url):
            return ArmSearch(planned, plan, opened[plan.record.key], url, again)

    return search


class ArmSearch:
    """Suggests trials until its budget is spent, then names the best on validation."""

    def __init__(
        self,
        planned: PlannedSearch,
        plan: Plan,
        storage: optuna.storages.BaseStorage,
        url: str = "",
        again: Collection[str] = (),
    ) -> None:
        self.planned, self.plan, self._storage, self._url = planned, plan, storage, url
        self._again = again
        self.metric = plan.record.metric
        self._chosen, self._space = planned.sampler, sampling.distributions(planned)
        self.key, self.study = self._open_study()
        self.trials: dict[str, Trial] = {}  # in the order in which they were suggested
        self.sampled: dict[str, dict[str, Any]] = {}
        self._asked = 0  # suggestions, with those of a trial that was suggested before
        self._open: dict[str, optuna.Trial] = {}  # without a result yet
        self._ready: list[Trial] = []
        self._abandoned = False
        self._values: dict[str, float] = {}  # validation loss of completed trials
        self._stopped: dict[str, int] = {}  # last epochs of earlier trials
        self._reported: set[tuple[str, int]] = set()  # (trial, epoch)
        self._load_earlier()

    def _open_study(self) -> tuple[str, optuna.Study]:
        """Optuna's study under the first name that has no results of other trials."""
        for number in itertools.count(1):
            key = self.planned.key if number == 1 else f"{self.planned.key}/{number}"
            study = optuna.create_study(
                study_name=f"{self.plan.record.key}/{key}",
                storage=self._storage,
                sampler=self._sampler(0),
                pruner=_pruner(self.planned, self.plan),
                load_if_exists=True,
            )
            if self._is_to_resume(study):
                break
        # A sampler of finitely many values calls it after the last; Optuna would raise an error.
        study.stop = self.abandon  # type: ignore[method-assign]
        return key, study

    def _is_to_resume(self, study: optuna.Study) -> bool:
        """Return whether what the search has learnt holds for the trials that it would have now."""
        tried = study.get_trials(deepcopy=False)
        if any(frozen.user_attrs.get("ablate.trial") in self._again for frozen in tried):
            study.set_user_attr("ablate.left", True)  # also for drivers that come after this one
        return "ablate.left" not in study.user_attrs and all(map(self._is_of_its_trial, tried))

    def _is_of_its_trial(self, frozen: FrozenTrial) -> bool:
        """Return whether its values still make the trial that they made.

        Older logs do not say, nor does a suggestion that a crash left incomplete.
        """
        if not {"ablate.trial", "ablate.index"} <= frozen.user_attrs.keys():
            return True
        trial = plan_search_trial(self.plan, self.planned, *_suggested(frozen))
        return trial.id == frozen.user_attrs["ablate.trial"]

    def _load_earlier(self) -> None:
        """Load the trials of an earlier run: finished ones are counted, failed ones are tried
        again, the others resume."""
        failed: dict[int, FrozenTrial] = {}  # by index
        for frozen in self.study.get_trials(deepcopy=False):
            if "ablate.index" in frozen.user_attrs:
                self._load(frozen)
                failed.pop(frozen.user_attrs["ablate.index"], None)
                if frozen.user_attrs.get("ablate.status") == Status.FAILED:
                    failed[frozen.user_attrs["ablate.index"]] = frozen
            elif frozen.state == TrialState.RUNNING:
                self.study.tell(frozen.number, state=TrialState.FAIL)
        for frozen in failed.values():
            self._load(self._reopened(frozen))
        if self._ready and self.planned.words.synchronous:
            self._fill_batch()

    def _reopened(self, failed: FrozenTrial) -> FrozenTrial:
        """A suggestion of the same values, without a result. Optuna changes no result."""
        kept = {k: value for k, value in failed.user_attrs.items() if k != "ablate.status"}
        how = {"params": failed.params, "distributions": failed.distributions}
        with self._durable():
            self.study.add_trial(create_trial(state=TrialState.RUNNING, user_attrs=kept, **how))
        return self.study.get_trials(deepcopy=False)[-1]

    def _load(self, frozen: FrozenTrial) -> None:
        trial = self._issued(*_suggested(frozen))
        if frozen.state.is_finished():
            self._count(trial, frozen)
        elif trial.id in self._open:  # a repeat, which a crash kept from being closed
            self.study.tell(frozen.number, state=TrialState.FAIL)
        else:
            # Not its number: ids are unique in a storage, numbers in a study.
            self._open[trial.id] = optuna.Trial(self.study, frozen._trial_id)
            self._ready.append(trial)
            if "ablate.stop" in frozen.user_attrs:
                self._stopped[trial.id] = frozen.user_attrs["ablate.stop"]
            self._reported |= {(trial.id, step) for step in frozen.intermediate_values}

    def _fill_batch(self) -> None:
        """Ask for the rest of a batch before any result of it is known, as without a crash."""
        words = self.planned.words
        while self._asked % words.batch and self._asked < words.trials and not self._abandoned:
            self._ask_more()

    def _issued(self, sampled: dict[str, Any], index: int) -> Trial:
        trial = plan_search_trial(self.plan, self.planned, sampled, index)
        self.trials[trial.id] = trial
        self.sampled[trial.id] = sampled
        self._asked = max(self._asked, index + 1)
        return trial

    def _count(self, trial: Trial, frozen: FrozenTrial) -> None:
        if frozen.state == TrialState.COMPLETE and frozen.value is not None:
            self._values[trial.id] = frozen.value
        if frozen.user_attrs.get("ablate.status") == Status.PRUNED:
            self._stopped[trial.id] = max(frozen.intermediate_values, default=0)

    def check_whole(self, num_known: int) -> None:
        """Refuse a file that was cut short: the study's record lists `num_known` of its trials.

        A synchronous search suggests the same again, and a file that was moved away has none.
        """
        cut = 0 < len(self.trials) < num_known and not self.planned.words.synchronous
        if cut and isinstance(self._storage, LoggedStorage):
            why = f"only {len(self.trials)} of {num_known} trials of {self.planned.arm} are left"
            raise damaged(self._storage.path, why)

    @property
    def ended(self) -> list[str]:
        """The trials whose result the search knows."""
        return [trial_id for trial_id in self.trials if trial_id not in self._open]

    @property
    def over(self) -> bool:
        """Return whether every trial was suggested and has its result."""
        return self._spent and not self._open

    def abandon(self) -> None:
        """Suggest no more trials: their parents will not be trained, or no values are left."""
        self._abandoned = True

    @property
    def _spent(self) -> bool:
        return self._abandoned or self._asked >= self.planned.words.trials

    def ask(self) -> Trial | None:
        """The next trial, or None if the search is over or waits for its running batch."""
        waits = self.planned.words.synchronous and self._open
        while not self._ready and not self._spent and not waits:
            with self._durable():
                self._ask_more()
                if self.planned.words.synchronous:
                    self._fill_batch()
        return self._ready.pop(0) if self._ready else None

    def _ask_more(self) -> None:
        trial = self._ask_one()
        if trial is not None:
            self._ready.append(trial)

    @contextlib.contextmanager
    def _durable(self) -> Iterator[None]:
        """Make Optuna's changes inside the block durable at its end."""
        with answering(self._url):
            yield
            if isinstance(self._storage, LoggedStorage):
                self._storage.sync()

    def _ask_one(self) -> Trial | None:
        """Ask Optuna until no earlier trial has the same values.

        None if the sampler has no more values, or a finite space gives a trial that the search
        already has.
        """
        index = self._asked
        suggestion, sampled = self._drawn(index)
        if self._abandoned:
            return None
        num_before = len(self.trials)
        trial = self._issued(sampled, index)
        suggestion.set_user_attr("ablate.values", json.dumps(sampled))
        suggestion.set_user_attr("ablate.trial", trial.id)
        suggestion.set_user_attr("ablate.index", index)  # the last: with it, all is there
        if len(self.trials) == num_before:
            self.study.tell(suggestion, state=TrialState.FAIL)
            return None
        self._open[trial.id] = suggestion
        return trial

    def _drawn(self, index: int) -> tuple[optuna.Trial, dict[str, Any]]:
        repeats = 0
        while True:
            # Optuna seeds numpy's old generator, which takes 32 bits.
            seed = derived_seed("ask", self.planned.seed, index, repeats) % 2**32
            self.study.sampler = self._sampler(seed, at_random=repeats > MAX_REPEATS)
            if self.planned.words.listed_first and not index and not repeats:
                self._list_first()
            with sampling.guarded(self._chosen):
                suggestion = self.study.ask()
                sampled = self._sample(suggestion)
            if repeats == MAX_DRAWS or sampled not in self.sampled.values():
                return suggestion, sampled
            self.study.tell(suggestion, state=TrialState.FAIL)
            if self._abandoned:
                return suggestion, sampled
            repeats += 1

    def _list_first(self) -> None:
        """Make Optuna suggest the arm's listed settings next."""
        # One that waits is from a driver that was killed before it asked for it.
        if not self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
            arm = self.plan.configs[self.planned.arm].flat
            self.study.enqueue_trial(sampling.listed(self.planned, {**arm, **self.planned.values}))

    def _sampler(self, seed: int, *, at_random: bool = False) -> optuna.samplers.BaseSampler:
        chosen = sampling.AT_RANDOM if at_random else self._chosen
        return sampling.sampler(chosen, seed, self._space)

    def _sample(self, suggestion: optuna.Trial) -> dict[str, Any]:
        return self.planned.space.sample(
            lambda row: sampling.suggest(suggestion, row),
            self.planned.column,
            fixed=self.planned.fixed,
            base={**self._defaults, **self.planned.values},
        )

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        """The arm's fields, for conditions; not those of a technique that a row chooses."""
        chosen = {row.field for row in self.planned.space.rows}
        flat = self.plan.configs[self.planned.arm].flat
        return {name: value for name, value in flat.items() if name.split(".")[0] not in chosen}

    def report(self, trial_id: str, epoch: Epoch) -> bool:
        """Take in an epoch; return False if the trial should stop early.

        A trial that is run again because its files were lost stops where it stopped before.
        """
        suggestion, step = self._open.get(trial_id), epoch.number
        if trial_id in self._stopped:  # decided before a crash: the same epoch ends it again
            return step < self._stopped[trial_id]
        if suggestion is None or self.planned.words.early_stopping is None:
            return True  # without early stopping, reported values are not used
        with self._durable():
            if (trial_id, step) not in self._reported:  # else the epoch was repeated after a crash
                runner = self.trials[trial_id].runner
                suggestion.report(validation_of(epoch.metrics, self.metric, runner), step)
                self._reported.add((trial_id, step))
            stops = suggestion.should_prune()
            if stops:  # asked again after a crash, some pruners answer for a later epoch
                suggestion.set_user_attr("ablate.stop", step)
            return not stops

    def tell(self, journal: Journal) -> None:
        """Take in a trial's outcome. One that diverged counts as worse than any other."""
        suggestion = self._open.pop(journal.trial.id, None)
        if suggestion is None:
            return
        with self._durable():
            self._tell(suggestion, journal)

    def _tell(self, suggestion: optuna.Trial, journal: Journal) -> None:
        if journal.status == Status.COMPLETED:
            value = _chosen_by(journal, self.metric)
            self.study.tell(suggestion, value)
            self._values[journal.trial.id] = value
        else:
            pruned = journal.status in (Status.PRUNED, Status.DIVERGED)
            suggestion.set_user_attr("ablate.status", journal.status)
            self.study.tell(suggestion, state=TrialState.PRUNED if pruned else TrialState.FAIL)

    def winner(self) -> tuple[str, dict[str, Any]] | None:
        """The trial with the lowest validation loss and its values; ties go to the earlier one."""
        if not self._values:
            return None
        best = min(
            (trial for trial in self.trials if trial in self._values), key=self._values.__getitem__
        )
        return best, merge(self.planned.values, self.sampled[best])


def _suggested(frozen: FrozenTrial) -> tuple[dict[str, Any], int]:
    """The values of a suggestion, and its index among those of its search."""
    return json.loads(frozen.user_attrs["ablate.values"]), frozen.user_attrs["ablate.index"]


def _chosen_by(journal: Journal, metric: Metric) -> float:
    """The loss that the search minimizes. Trials of older versions may lack it."""
    key, trial = metric.key("valid"), journal.trial
    if key not in journal.metrics:
        raise TrialError(
            f"trial {trial.id} of the runner {trial.runner} completed without '{key}', which "
            f"its search optimizes. Return it from `conclude`, and delete trials/{trial.id}."
        )
    return metric.loss(journal.metrics[key])


def _pruner(planned: PlannedSearch, plan: Plan) -> optuna.pruners.BasePruner:
    words = planned.words
    if words.early_stopping == "asha":
        return optuna.pruners.SuccessiveHalvingPruner(
            min_resource=words.min_epochs, reduction_factor=REDUCTION
        )
    if words.early_stopping == "hyperband":
        most = plan_search_trial(plan, planned, {}, 0).config.num_epochs
        if most is None:
            raise StudyError(
                "hyperband needs to know how many epochs a trial has. Instead: give the task's "
                'config a field `epochs`, or use early_stopping="asha".'
            )
        if words.min_epochs > most:
            expected = f"no more than the {most} epochs that a trial has"
            raise StudyError(wrong_value("min_epochs", words.min_epochs, expected, "Search"))
        return optuna.pruners.HyperbandPruner(
            min_resource=words.min_epochs, max_resource=most, reduction_factor=REDUCTION
        )
    return optuna.pruners.NopPruner()
