"""Seeds of one arm, trained as one batch of models in this process: `Scale(fuse="seeds")`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ablate.config.identity import Trial
from ablate.config.tasks import TRAINING
from ablate.trial.run import TrialRun
from ablate.trial.seed_runs import SeedRuns
from ablate.tune.schedule import Schedule, take_in
from ablate.tune.worker import SLICE_SECONDS, opened, plain


def seeds_beside(schedule: Schedule, trial: Trial) -> list[Trial]:
    """The other seeds of a trial that can start now, and are trained with it."""
    found: list[Trial] = []
    if schedule.plan.scale.fuse == "seeds" and trial.runner == TRAINING:
        while (other := schedule.next(like=trial)) is not None:
            found.append(other)
    return found


def run_seeds(
    schedule: Schedule, trials: Sequence[Trial], order: Callable[[Trial], Mapping[str, Any]]
) -> None:
    """Run trials to their end, or until the schedule is stopping."""
    seeds, is_told = SeedRuns(TrialRun(*opened(order(trial))) for trial in trials), False
    while seeds.runs:
        for trial_id, progress in seeds.advance(SLICE_SECONDS):
            if not take_in(schedule, trial_id, plain(progress)):
                seeds.drop(trial_id)
        if seeds.alone and not is_told:
            schedule.note(f"{trials[0].arm}: its seeds are trained one by one, since {seeds.alone}")
            is_told = True
        if schedule.stopping:
            seeds.save()
            return


def note_unfused(schedule: Schedule) -> None:
    """Note, for a study over Ray, that each seed is trained by itself."""
    if schedule.plan.scale.fuse == "seeds":
        schedule.note(
            'fuse="seeds" trains the seeds of an arm one by one over Ray. As one batch: --local'
        )
