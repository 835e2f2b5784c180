"""One arm's search: Optuna's ask and tell, on a durable storage, with our own order of events.

- A trial that the search stopped early is told as PRUNED, with its intermediate values.
- A trial asked for before a crash is not asked for again: its values are read back and it goes
  on. One that the crash left half asked is told as FAIL and asked again with the same seed.
- The sampler is seeded anew for every question by the search's seed and the question's number,
  so that a synchronous search repeats exactly, however often it was interrupted.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import optuna
from optuna.trial import TrialState

from ablate.config import merge
from ablate.errors import RecordError, SpaceError
from ablate.identity import Trial
from ablate.journal import COMPLETED, PRUNED, Journal
from ablate.plan import Plan, PlannedSearch
from ablate.space import SpaceViolation
from ablate.space_row import Choices, Range, Row
from ablate.streams import derived_seed
from ablate.study import Search

MAX_REFUSALS = 200  # combinations a space's `require` may refuse in a row


def open_storage(url: str) -> optuna.storages.BaseStorage:
    """The database that searches are kept in: SQLite in the workspace, or a shared Postgres."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    options: dict[str, Any] = {}
    if url.startswith("postgresql"):
        options = {"pool_pre_ping": True, "pool_size": 2, "max_overflow": 2}
    try:
        return optuna.storages.RDBStorage(url, engine_kwargs=options)
    except Exception as error:
        raise RecordError(
            f"the search storage {url.split('@')[-1]} does not answer: {error}. "
            "Is the database up? The same command goes on where this one stopped."
        ) from error


def open_searches(url: str) -> Callable[[Plan], list[ArmSearch]]:
    """Gives a plan's searches, taken up where they were left; opens no database for none."""

    def searches(plan: Plan) -> list[ArmSearch]:
        if not plan.searches:
            return []
        storage = open_storage(url)
        return [ArmSearch(planned, plan, storage) for planned in plan.searches]

    return searches


class ArmSearch:
    """Asks for trials until its budget is spent, then names the best on validation."""

    def __init__(
        self, planned: PlannedSearch, plan: Plan, storage: optuna.storages.BaseStorage
    ) -> None:
        self.planned, self.plan = planned, plan
        self.study = optuna.create_study(
            study_name=f"{plan.record.key}/{planned.key}",
            storage=storage,
            sampler=_sampler(planned.words, 0),
            pruner=_pruner(planned.words, plan),
            load_if_exists=True,
        )
        self.trials: dict[str, Trial] = {}  # in the order they were asked for
        self.sampled: dict[str, dict[str, Any]] = {}
        self.tokens = 0
        self._asked: dict[str, optuna.Trial] = {}  # and not told yet
        self._ready: list[Trial] = []
        self._values: dict[str, float] = {}  # validation of the completed ones
        self._take_up()

    def _take_up(self) -> None:
        """What an earlier run asked: finished trials are counted, unfinished ones go on."""
        for frozen in self.study.get_trials(deepcopy=False):
            index = frozen.user_attrs.get("ablate.index")
            if index is None:
                if not frozen.state.is_finished():
                    self.study.tell(frozen.number, state=TrialState.FAIL)
                continue
            sampled = json.loads(frozen.user_attrs["ablate.values"])
            trial = self._issued(sampled, index)
            if frozen.state.is_finished():
                self._count(trial, frozen)
            else:
                self._asked[trial.id] = optuna.Trial(self.study, frozen._trial_id)
                self._ready.append(trial)

    def _issued(self, sampled: dict[str, Any], index: int) -> Trial:
        trial = self.plan.search_trial(self.planned, sampled, index)
        self.trials[trial.id] = trial
        self.sampled[trial.id] = sampled
        return trial

    def _count(self, trial: Trial, frozen: optuna.trial.FrozenTrial) -> None:
        self.tokens += frozen.user_attrs.get("ablate.tokens", 0)
        if frozen.state == TrialState.COMPLETE and frozen.value is not None:
            self._values[trial.id] = frozen.value

    @property
    def over(self) -> bool:
        """Whether everything was asked and told."""
        return self._spent and not self._asked

    @property
    def _spent(self) -> bool:
        words = self.planned.words
        out_of_tokens = words.tokens is not None and self.tokens >= words.tokens
        return len(self.trials) >= words.trials or out_of_tokens

    def ask(self) -> Trial | None:
        """The next trial, or None: the search is over, or waits for its running batch."""
        words = self.planned.words
        if not self._ready and not self._spent:
            if words.synchronous and self._asked:
                return None
            wanted = words.batch if words.synchronous else 1
            for _ in range(min(wanted, words.trials - len(self.trials))):
                self._ready.append(self._ask_one())
        return self._ready.pop(0) if self._ready else None

    def _ask_one(self) -> Trial:
        index, refused = len(self.trials), None
        for attempt in range(MAX_REFUSALS):
            seed = derived_seed("ask", self.planned.seed, index, attempt) % 2**32
            self.study.sampler = _sampler(self.planned.words, seed)
            asked = self.study.ask()
            try:
                sampled = self._sample(asked)
            except SpaceViolation as violation:
                self.study.tell(asked, state=TrialState.FAIL)
                refused = violation
                continue
            asked.set_user_attr("ablate.values", json.dumps(sampled))
            asked.set_user_attr("ablate.index", index)
            trial = self._issued(sampled, index)
            self._asked[trial.id] = asked
            return trial
        raise SpaceError(f"{MAX_REFUSALS} combinations in a row were refused. The last: {refused}")

    def _sample(self, asked: optuna.Trial) -> dict[str, Any]:
        column = self.plan.scale.column or self.plan.scale.corpus
        return self.planned.space.sample(
            lambda row: suggest(asked, row),
            column,
            fixed=self.planned.fixed,
            base=self.planned.values,
        )

    def report(self, trial_id: str, epoch: Mapping[str, Any]) -> bool:
        """Take in an epoch; False where the trial should stop early."""
        asked = self._asked.get(trial_id)
        if asked is None:
            return True
        asked.report(epoch["valid_nll"], epoch["epoch"])
        return not asked.should_prune()

    def tell(self, journal: Journal) -> None:
        """Take in a trial's outcome. One that diverged counts as the worst there is."""
        asked = self._asked.pop(journal.trial.id, None)
        if asked is None:
            return
        tokens = sum(epoch.get("tokens", 0) for epoch in journal.epochs)
        asked.set_user_attr("ablate.tokens", tokens)
        self.tokens += tokens
        if journal.status == COMPLETED:
            value = journal.outcome["metrics"]["valid_nll"] if journal.outcome else None
            self.study.tell(asked, value)
            self._values[journal.trial.id] = value
        else:
            pruned = journal.status == PRUNED or journal.status == "diverged"
            self.study.tell(asked, state=TrialState.PRUNED if pruned else TrialState.FAIL)

    def winner(self) -> tuple[str, dict[str, Any]] | None:
        """The trial with the lowest validation loss and its values; ties go to the earlier one."""
        if not self._values:
            return None
        order = list(self.trials)
        best = min(self._values, key=lambda trial: (self._values[trial], order.index(trial)))
        return best, merge(self.planned.values, self.sampled[best])


def suggest(asked: optuna.Trial, row: Row) -> Any:
    """A row's value from Optuna. A choice is asked for as text, so that lists are choices too."""
    domain = row.domain
    if isinstance(domain, Choices):
        texts = [json.dumps(choice) for choice in domain.values]
        return domain.values[texts.index(asked.suggest_categorical(row.name, texts))]
    if not isinstance(domain, Range):
        raise SpaceError(f"row '{row.name}' leaves nothing to choose.")
    if domain.integer:
        return asked.suggest_int(row.name, int(domain.low), int(domain.high), log=domain.log)
    return asked.suggest_float(row.name, domain.low, domain.high, log=domain.log)


def _sampler(words: Search, seed: int) -> optuna.samplers.BaseSampler:
    if words.sampler == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    with warnings.catch_warnings():  # `group` is marked experimental; conditions need it
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(
            seed=seed, multivariate=True, group=True, constant_liar=True
        )


def _pruner(words: Search, plan: Plan) -> optuna.pruners.BasePruner:
    if words.early_stopping == "asha":
        return optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3)
    if words.early_stopping == "hyperband":
        epochs = max(config.training.epochs for config in plan.configs.values())
        return optuna.pruners.HyperbandPruner(min_resource=1, max_resource=max(epochs, 1))
    return optuna.pruners.NopPruner()
