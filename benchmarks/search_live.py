"""Two live searches that confirm the replays (`search.py`): trained, not looked up.

    python -m benchmarks.search_live --data .ablate/lm/data [--trials 15] [--seed 1]

First random search without stopping, then TPE with ASHA until as many updates are spent as random
search spent, both as `ablate study --local` runs them, on the slice and in the space of the
recorded curves. Prints every trial that was better than all before it, and the updates spent.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from dataclasses import replace
from pathlib import Path

from ablate.config.identity import Trial
from ablate.config.resolve import resolve
from ablate.store.epoch import Epoch
from ablate.store.journal import Journal
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.study.designs import table
from ablate.study.plan import make_plan
from ablate.study.study import Study
from ablate.study.words import Arm, Scale, Search
from ablate.tune import local
from ablate.tune.listener import Listener
from ablate.tune.schedule import Schedule
from ablate.tune.search.arm import open_search
from benchmarks.search_curves import MODEL, SLICE, SPACE
from benchmarks.search_replay import Replay

HERE = Path(__file__).parent
ENDLESS = 10**6


class Account(Listener):
    """A schedule's listener: counts updates, and ends the search when enough is spent."""

    def __init__(self, *, updates: float = math.inf, trials: float = math.inf) -> None:
        self.done, self._updates, self._trials = Replay(), updates, trials
        self._sizes: dict[str, int] = {}  # tokens an update, by trial
        self.schedule: Schedule | None = None

    def started(self, trial: Trial) -> None:
        self.done.asked += 1
        values = resolve(trial.values).training
        self._sizes[trial.id] = values.batch_size * values.window

    def progress(self, trial_id: str, epoch: Epoch | None, reached: float | None = None) -> None:
        if epoch is not None:
            self.done.updates += math.ceil((epoch.tokens or 0) / self._sizes[trial_id])

    def finished(self, trial_id: str, journal: Journal) -> None:
        loss = min((epoch.metrics["valid_nll"] for epoch in journal.epochs), default=math.inf)
        if journal.status == Status.COMPLETED and loss < self.done.best:
            self.done.found.append((self.done.updates, loss))
            print(f"{self.done.updates:8} {self.done.asked:4} {math.exp(loss):8.2f}", flush=True)
        enough = self.done.updates >= self._updates or self.done.asked >= self._trials
        if enough and self.schedule is not None:  # before the winner is confirmed
            self.schedule.stop_reason = "enough is spent"


def live(words: Search, data: str, seed: int, account: Account) -> Replay:
    """Run one search, one trial at a time."""
    study = Study(
        question="How soon is the best found?",
        base={**SLICE, **MODEL},
        base_arm="lstm",
        design=table(Arm("lstm")),
        scales={"live": Scale(corpus="ptb", search=words)},
        name="search_live",
    )
    plan = make_plan(study, "live", data=data)
    plan = replace(plan, searches=(replace(plan.searches[0], seed=seed),))
    with tempfile.TemporaryDirectory() as folder:
        store = Store(f"{folder}/store")
        schedule = Schedule(plan, store, open_search(f"folder:{folder}"), account)
        account.schedule = schedule
        order = {"store": store.uri, "data": data}
        local.run(schedule, lambda trial: {**order, "trial": trial.to_plain()})
    return account.done


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", default=".ablate/lm/data", help="the folder that has ptb")
    parser.add_argument("--trials", type=int, default=15, help="of random search")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    data, space = options.data, str(SPACE)
    print("random search, no stopping: updates, trials, validation perplexity")
    first = Search(space=space, trials=ENDLESS, sampler="random")
    bar = live(first, data, options.seed, Account(trials=options.trials))
    print("TPE + ASHA")
    second = Search(space=space, trials=ENDLESS, early_stopping="asha")
    ours = live(second, data, options.seed, Account(updates=bar.updates))
    result = {"seed": options.seed, "random": vars(bar), "ours": vars(ours)}
    share = ours.reached(bar.best) / bar.updates
    result["share"] = None if math.isinf(share) else round(share, 4)
    print(f"ours is as good after {result['share']} of random search's {bar.updates} updates")
    (HERE / "search_live.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
