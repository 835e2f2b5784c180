"""Trials of one config with several seeds in this process, trained as one batch of models.

Each is a `TrialRun` with its own journal, checkpoints and outcome. One that has ended leaves the
batch, and the others go on. Trials that cannot be one batch run one after another.
"""

from __future__ import annotations

from collections.abc import Iterable

from ablate.trial.run import Progress, TrialRun
from ablate.trial.training.together import Alone, Together
from ablate.trial.training.training import Training


class SeedRuns:
    """The runs, in the order in which they run if they are no batch."""

    def __init__(self, runs: Iterable[TrialRun]) -> None:
        self.runs = {run.trial.id: run for run in runs}
        self.alone: str | None = None  # why they are no batch
        self._together = Together()

    def advance(self, seconds: float) -> list[tuple[str, Progress]]:
        """Work for about `seconds`, or until an epoch ends; return the ids of the trials that were
        worked on, with what came of it."""
        self._train(seconds)
        chosen = list(self.runs.items())
        advanced = [(key, run.advance(seconds)) for key, run in chosen[: 1 if self.alone else None]]
        for key, progress in advanced:
            if progress.done:
                self.drop(key)
        return advanced

    def _train(self, seconds: float) -> None:
        tasks = [run.task for run in self.runs.values()]
        trainings = [task for task in tasks if isinstance(task, Training) and not task.finished]
        if self.alone is not None or len(trainings) < 2:
            return
        try:
            self._together.advance(trainings, seconds)
        except Alone as error:
            self.alone = str(error)

    def drop(self, trial_id: str) -> None:
        """Stop working on a trial."""
        self.runs.pop(trial_id, None)

    def save(self) -> None:
        """Write checkpoints now."""
        for run in self.runs.values():
            run.save()
