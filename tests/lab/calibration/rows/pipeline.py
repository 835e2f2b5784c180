"""Does the pipeline make such draws? Studies of tuned arms, run through the real schedule, with a
task that trains nothing; their differences beside those that the row of tuned arms draws."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
from scipy import stats

from ablate.compare.judged import Judged
from ablate.store import journal as journals
from ablate.store.workspace import Workspace, make_folders, open_workspace
from ablate.study.designs import table
from ablate.study.plan import make_plan
from ablate.study.study import Study
from ablate.study.words import Arm, Scale, Search
from ablate.tune import local
from ablate.tune.schedule import Schedule
from ablate.tune.search.arm import open_search
from tests.lab.calibration.row import NUM, Case, Limit, Measured, Row, Simulated, rate
from tests.lab.calibration.rows.tuned import searched
from tests.support.small_studies import BASE, RATE, order_in

STUDIES, REPEATS, TRIED, SEEDS = 100, 3, 2, 2
# The rate is searched, so no arm may set it: what an arm sets is not searched.
ARMS = [Arm(f"arm {i}", {"training.window": 20 + i}) for i in range(2)]
MEMORY = "/dev/shm"  # a file system of Linux
POWER_DRAWS = 1_000
LEVEL = 0.01  # of the KS test


@cache
def differences(num: int) -> np.ndarray:
    """The differences of two equal arms by search, over studies through the real schedule."""
    # In memory, since 300 studies write some 30,000 files, and sync each.
    place = MEMORY if os.path.isdir(MEMORY) else None
    unsynced = mock.patch.object(os, "fsync", lambda _: None)
    with tempfile.TemporaryDirectory(dir=place) as folder, unsynced:
        (Path(folder) / "rate.toml").write_text(RATE)
        workspace = open_workspace(folder)
        make_folders(workspace)
        return np.concatenate([_run(workspace, Path(folder), number) for number in range(num)])


def _run(workspace: Workspace, folder: Path, number: int) -> np.ndarray:
    """One study. Its searches' seeds offer other values than those of other studies, and its clip,
    which nothing reads, makes other draws."""
    search = Search(
        space="rate",
        trials=TRIED,
        sampler="random",
        repeats=REPEATS,
        first_seed=1 + REPEATS * number,
    )
    study = Study(
        question="Is chance called by its name?",
        base={**BASE, "training.clip": 1.0 + number},
        base_arm="arm 0",
        design=table(*ARMS),
        scales={"s": Scale(seeds=SEEDS, search=search)},
        runner="noise",
        name=f"study {number}",
        file=str(folder / "study.py"),
    )
    plan = make_plan(study, "s", data=workspace.data)
    schedule = Schedule(plan, workspace.store, open_search(workspace.searches))
    local.run(schedule, order_in(workspace))
    record = schedule.plan.record
    summary = Judged(record, journals.read_all(workspace.store, record.trial_ids()))
    comparison = summary.arm("arm 1").comparison
    assert comparison is not None
    return np.array(comparison.difference.deltas)


def drawn(generator: np.random.Generator, num: int, alike: bool) -> np.ndarray:
    """As many differences as the row of tuned arms draws them."""
    losses = searched(generator, num, searches=1, tried=TRIED, seeds=SEEDS, alike=alike)
    return (losses[:, 1] - losses[:, 0]).mean((1, 2))


def spread(generator: np.random.Generator, num: int) -> Simulated:
    """The standard deviation of the pipeline's differences, in percent of that of draws."""
    ours = differences(STUDIES * num // NUM)
    draws, twin = (drawn(generator, 20 * NUM, alike).std() for alike in (True, False))
    return Simulated(_ratio(generator, ours, draws), _ratio(generator, ours / draws * twin, draws))


def _ratio(generator: np.random.Generator, ours: np.ndarray, draws: float) -> Measured:
    """A standard deviation in percent of another one, with a bootstrap interval."""
    again = generator.choice(ours, (2_000, len(ours))).std(1)
    low, high = np.quantile(again, [0.025, 0.975]) / draws * 100
    return Measured(100 * ours.std() / draws, low, high, len(ours))


def rejected(generator: np.random.Generator, num: int) -> Simulated:
    """Whether a KS test tells the pipeline's differences from draws, and how often the twin's."""
    ours = differences(STUDIES * num // NUM)
    draws = drawn(generator, 2 * NUM, True)
    found = stats.ks_2samp(ours, draws).pvalue <= LEVEL
    twins = drawn(generator, POWER_DRAWS * len(ours), False).reshape(POWER_DRAWS, -1)
    noticed = [stats.ks_2samp(twin, draws, method="asymp").pvalue <= LEVEL for twin in twins]
    said = 100.0 * found
    return Simulated(Measured(said, said, said, len(ours)), rate(np.array(noticed)))


ROW = Row(
    name="The pipeline makes such draws",
    promise="What the rows above draw is what studies give: plan, searches, confirmation on fresh "
    "seeds, journals, tables.",
    draws=f"{STUDIES} studies of two equal arms, {REPEATS} random searches of {TRIED} trials, "
    f"{SEEDS} seeds each, run by the real schedule in one process; a trial draws its loss instead "
    "of training. The KS test is one test, which says yes (100) or no (0); its twin's rate is the "
    "test's power: how often it would say yes.",
    of="the spread of draws, or of KS tests",
    limit=Limit(),
    twin="arms whose searches are offered different values",
    cases=(
        Case("spread, in percent of that of draws", spread, limit=Limit(least=90, most=110)),
        # The twin's rate is the power of this one test, which must be 90%.
        Case("a KS test at 1% tells the two apart", rejected, limit=Limit(most=90)),
    ),
)
