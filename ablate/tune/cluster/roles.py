"""Ray Tune's roles, played by a schedule: search algorithm and trial scheduler.

Each Tune trial is one of the study's trials, with the same id. Tune finds it an actor, restarts it
when the actor dies and keeps actors warm between trials. The schedule decides everything else: what
runs next, what is pruned, how often a trial's worker may die. Tune saves nothing: all state is in
the study's store.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray.exceptions import RayActorError
from ray.tune.experiment import Experiment
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import SearchAlgorithm

from ablate.config.identity import Trial
from ablate.errors import StoreError, TrialError
from ablate.tune.cluster.ray_private import actor_of
from ablate.tune.schedule import Schedule, take_in

FOR_EVER = -1  # Tune's value for an unlimited number of failures
ASK_AGAIN_SECONDS = 1.0  # if there was no trial to start, and none has ended since


class Drive(FIFOScheduler):
    """Tune's trial scheduler, which asks the schedule after every slice whether a trial continues.

    Holds what the roles share: the schedule, the running trials, the first failure.
    """

    def __init__(
        self, schedule: Schedule, order: Callable[[Trial], Mapping[str, Any]], workers: int = 1
    ) -> None:
        super().__init__()
        self.schedule, self.order, self.workers = schedule, order, workers
        self.live: dict[str, TuneTrial] = {}
        self.check_ray: Callable[[], None] = lambda: None  # raises an error if it has died
        self.learned = False  # whether an epoch has ended since Ray was started
        self._trials: dict[str, Trial] = {}  # those of `live`
        self._again: list[Trial] = []  # those that ran when Ray died
        self.failure: Exception | None = None
        self._nothing_since: float | None = None
        self._saves: dict[str, Any] = {}

    @property
    def stopping(self) -> bool:
        """Return whether no further trial starts."""
        return self.failure is not None or self.schedule.stopping

    @property
    def over(self) -> bool:
        """Return whether no trial will be started any more."""
        if self.stopping:
            return True
        if self._again:
            return False
        if self.schedule.exhausted:
            return True
        nothing = self._nothing_since is not None and not self.live
        return nothing and not self.schedule.elsewhere

    def next(self) -> Trial | None:
        """Return the next trial to start, or None: nothing is due, or no worker is free."""
        if self.over or len(self.live) >= self.workers or self._had_nothing_just_now():
            return None
        trial = self._again.pop(0) if self._again else self.guard(self.schedule.next)
        self._nothing_since = time.monotonic() if trial is None else None
        if trial is not None:
            self._trials[trial.id] = trial
        return trial

    def put_back(self, why: str) -> None:
        """Prepare for another Ray, on which the trials that were running resume first."""
        self._again = [*self._again, *(self._trials[trial_id] for trial_id in self.live)]
        for trial_id in self.live:
            self.guard(self.schedule.retried, trial_id, why)
        self.live, self._saves = {}, {}
        self.learned, self._nothing_since = False, None

    def on_trial_result(
        self, tune_controller: Any, trial: TuneTrial, result: Mapping[str, Any]
    ) -> str:
        """Pass a slice to the schedule; return what Tune should do with the trial now."""
        continues = self.guard(self._report, trial.trial_id, result["slice"][0])
        if continues is False:
            self.ended(trial)
            return TrialScheduler.STOP
        if not self.stopping:
            return TrialScheduler.CONTINUE
        self._saves[trial.trial_id] = actor_of(trial).preserve.remote()
        return TrialScheduler.NOOP

    def died(self, trial: TuneTrial, error: Exception) -> None:
        """Count the death of a trial's actor, and tell Tune whether to restart the trial."""
        self.check_ray()  # if that is why, it does not count
        if getattr(error, "preempted", False):  # Ray drained its host: not the trial's fault
            restart = True
        else:
            restart = self.guard(self.schedule.died, trial.trial_id, cause(error))
        trial.max_failures = FOR_EVER if restart else 0

    def handled_death(self, trial: TuneTrial, error: Exception) -> None:
        """Report whether Tune restarts a trial whose actor died."""
        if trial.status == TuneTrial.PENDING:
            self.guard(self.schedule.retried, trial.trial_id, cause(error))
        elif trial.status == TuneTrial.ERROR:
            self.guard(self.schedule.lost, trial.trial_id, cause(error))
            self.ended(trial)

    def ended(self, trial: TuneTrial) -> None:
        """Forget a trial of Tune's, whose worker is free."""
        self.live.pop(trial.trial_id, None)
        self._trials.pop(trial.trial_id, None)
        self._nothing_since = None

    def halted(self) -> bool:
        """Return whether the schedule is stopping and every running trial has ended its slice and
        written its checkpoint."""
        if not self.stopping:
            return False
        running = [t.trial_id for t in self.live.values() if t.status == TuneTrial.RUNNING]
        if any(trial_id not in self._saves for trial_id in running):
            return False
        refs = [self._saves[trial_id] for trial_id in running]
        # Hardly waits: between two looks Tune's loop takes a step, in which it notices deaths.
        if refs and ray.wait(refs, num_returns=len(refs), timeout=0.05)[1]:
            return False
        for trial_id in running:
            self.guard(self._check_save, trial_id)
        return True

    def raise_failure(self) -> None:
        """Raise the first failure, if there was one."""
        if self.failure is not None:
            raise self.failure

    def guard(self, call: Callable[..., Any], *args: Any) -> Any:
        """Call the schedule. Its first error stops the run: Tune would turn the error into text."""
        try:
            return call(*args)
        except Exception as error:
            self.failure = self.failure or error
            return None

    def _had_nothing_just_now(self) -> bool:
        since = self._nothing_since
        return since is not None and time.monotonic() - since < ASK_AGAIN_SECONDS

    def _check_save(self, trial_id: str) -> None:
        with contextlib.suppress(RayActorError):  # it died: it resumes from its last checkpoint
            failure = ray.get(self._saves[trial_id])
            if failure is not None:
                raise TrialError(f"trial {trial_id} could not be saved: {failure}")

    def _report(self, trial_id: str, slice_: Mapping[str, Any]) -> bool:
        if "no_store" in slice_:  # not the trial's fault: every other trial would fail too
            raise StoreError(slice_["no_store"])
        if "failure" in slice_:
            self.schedule.lost(trial_id, slice_["failure"])
            return False
        self.learned = self.learned or bool(slice_["epoch"])
        return take_in(self.schedule, trial_id, slice_)


class Feed(SearchAlgorithm):
    """Passes the schedule's trials to Tune."""

    def __init__(self, drive: Drive, experiment: Experiment, **trial_options: Any) -> None:
        self._drive, self._experiment, self._options = drive, experiment, trial_options

    def next_trial(self) -> TuneTrial | None:
        trial = self._drive.next()
        if trial is None:
            return None
        tune_trial = TuneTrial(
            str(self._experiment.run_identifier),
            config={"order": dict(self._drive.order(trial))},
            trial_id=trial.id,
            storage=self._experiment.storage,
            **self._options,
        )
        self._drive.live[trial.id] = tune_trial
        return tune_trial

    def is_finished(self) -> bool:
        return self._drive.over


def cause(error: Exception) -> str:
    """Why a worker died, as one line of Ray's long message."""
    text = str(error)
    pid = re.search(r"pid: (\d+)", text)
    host = re.search(r"\bip: (\S+)", text)
    where = f" (pid {pid[1]} on {host[1]})" if pid and host else ""
    last = text.strip().split("\n")[-1].split(" Some common causes")[0]
    if "RAY_memory_usage_threshold" in text:
        last = "Ray killed it because its machine ran out of memory"
    elif "connection error" in last:
        last = "it was killed, from outside or for lack of memory, or it crashed"
    return f"the worker process{where} died: {last}"
