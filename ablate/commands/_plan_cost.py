"""What is left of a plan: trials, training tokens and time, before and while it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ablate.commands._searches_left import SearchLeft
from ablate.config.config import Config
from ablate.config.data_source import source_of
from ablate.config.identity import Role
from ablate.config.merge import merge
from ablate.config.resolve import resolve
from ablate.engine.cores import room_for
from ablate.engine.forecast import Forecast
from ablate.store.journal import Journal
from ablate.store.replication import counted
from ablate.store.workspace import Workspace
from ablate.study import cost
from ablate.study.planned import Plan, PlannedSearch


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The trials that are left, and how long they take. None: unknown."""

    trials: int
    done: int
    at_most: bool  # searches or looks may leave some of the rest out
    tokens: float | None
    seconds: float | None
    workers: int
    num_finished: int  # trials from which the time is known
    num_guessed: int  # corpora or rungs without one: the time is estimated
    num_unknown: int  # evaluations that the time leaves out, since none has been made

    @property
    def basis(self) -> str:
        """How the time is known."""
        known = f"from {counted(self.num_finished, 'finished trial')}"
        guessed = "estimated from this machine's speed"
        if self.num_guessed and self.num_finished:
            return f"{known}, and {guessed} where none has finished"
        return guessed if self.num_guessed else known

    def __add__(self, other: Cost) -> Cost:
        """The cost of two plans, one after the other."""

        def both(a: float | None, b: float | None) -> float | None:
            return None if a is None or b is None else a + b

        return replace(
            self,
            trials=self.trials + other.trials,
            done=self.done + other.done,
            at_most=self.at_most or other.at_most,
            tokens=both(self.tokens, other.tokens),
            seconds=both(self.seconds, other.seconds),
            num_finished=self.num_finished + other.num_finished,
            num_guessed=self.num_guessed + other.num_guessed,
            num_unknown=self.num_unknown + other.num_unknown,
        )


def cost_left(
    plan: Plan,
    searches: Sequence[SearchLeft],
    done: Mapping[str, Journal],
    workspace: Workspace,
    local: bool,
) -> Cost:
    """The trials that are left, and how long they take."""
    asked = {one.planned.arm: _request(one.planned) for one in searches}
    epochs = {arm: config.num_epochs if config else 0 for arm, config in asked.items()}
    tokens, epoch_seconds = _operations(plan, searches, asked, done, workspace)
    forecast = Forecast(epoch_seconds, epochs)  # the same estimate as on the screen of a run
    forecast.take_record(plan.record)
    for journal in done.values():
        forecast.ended(journal)
    # As many workers as `ablate study` starts if it is given no number.
    left = plan.record.trial_ids() - done.keys()
    workers = 1 if local else room_for(plan.scale.threads)
    num = sum(bool(journal.epochs) for journal in done.values())
    looks, to_come = plan.record.every_look, plan.record.to_come.total()
    return Cost(
        trials=plan.record.num_trials(),
        done=len(done),
        at_most=bool(to_come or (looks.are_several and looks.last < looks.pairs)),
        tokens=tokens,
        seconds=forecast.seconds_left({arm.name for arm in plan.record.arms}, left, workers),
        workers=workers,
        num_finished=num,
        num_guessed=0 if num else 1,
        num_unknown=_num_unknown(plan, done),
    )


def _operations(
    plan: Plan,
    searches: Sequence[SearchLeft],
    asked: Mapping[str, Config | None],
    done: Mapping[str, Journal],
    workspace: Workspace,
) -> tuple[float | None, Mapping[str, float]]:
    """Return the training tokens left, and the seconds of an epoch that operations suggest by arm.

    None and empty for a task that counts no operations.
    """
    first = next(iter(plan.configs.values()))  # all arms of a scale read one corpus
    source = source_of(first.data, workspace.data) if first.data else None
    if source is None or not first.kind.slots:  # only a function's trials tell how long they take
        return None, {}
    words, num_train = (*source.vocabulary(), source.sentence()), source.sizes()["train"]
    configs = plan.configs.items()
    work = {arm: cost.flops_per_token(config, *words) for arm, config in configs}
    each = cost.seconds_per_token(work, plan.scale.threads, plan.scale.precision)
    epoch_seconds = {
        arm: each[arm] * cost.training_tokens(config, num_train) / (config.num_epochs or 1)
        for arm, config in configs
    }
    trials = {trial.id: trial for trial in plan.trials if trial.id not in done}
    trials |= {trial.id: trial for search in searches for trial in search.confirming}
    # Evaluations train on no token.
    trained = [trial for trial in trials.values() if not trial.parent_ids(Role.MEMBER)]
    total = sum(cost.training_tokens(trial.config, num_train) for trial in trained)
    for search in searches:
        if config := asked[search.planned.arm]:
            total += search.num_requests * cost.training_tokens(config, num_train)
    return total, epoch_seconds


def _num_unknown(plan: Plan, done: Mapping[str, Journal]) -> int:
    """How many evaluations the time leaves out, since none has been made."""
    judged = [trial.id for trial in plan.trials if trial.parent_ids(Role.MEMBER)]
    return len(judged) if done.keys().isdisjoint(judged) else 0


def _request(search: PlannedSearch) -> Config | None:
    """The settings of a trial that the search may request; None if it evaluates a model."""
    return None if search.parents else resolve(merge(search.values, search.words.changes))
