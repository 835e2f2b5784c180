"""How many trials a study has, is done with and has left: the board, `status` and `plan` agree."""

from __future__ import annotations

import re

import pytest

from ablate.commands.plan import show_plan
from ablate.commands.status import show_status
from ablate.engine.board import Board
from ablate.store import journal as journals
from ablate.store.epoch import Epoch
from ablate.store.outcome import Outcome, Status
from ablate.study.file import load
from ablate.study.plan import make_plan
from ablate.tune.listener import Listener
from ablate.tune.schedule import Schedule
from ablate.tune.search.arm import open_search
from tests.support.small_studies import BASE, RATE_AND_WINDOW

# Two searches of six trials an arm, each confirmed on two seeds: 32 trials.
STUDY = f"""
from ablate import Arm, Inherit, Scale, Search, Study, table

study = Study(
    name="q",
    question="How much is left?",
    runner="noise",
    base={BASE!r},
    base_arm="plain",
    design=table(Arm("plain"), Arm("dual", {{"bridge": "dual"}})),
    scales={{"s": Scale(seeds=2, search=Search(
        space="rates.toml", trials=6, repeats=2, sampler="random", batch=2, synchronous=True,
    ))}},
)
"""
HEIR = STUDY.replace("batch=2", 'batch=2, inherit={"dual": Inherit("plain", over=("Window",))}')


class Shown(Listener):
    """The board of a screen."""

    def __init__(self, record) -> None:
        self.board = Board(record, 0.0)

    def planned(self, record) -> None:
        self.board.take_record(record)

    def finished(self, trial_id, journal) -> None:
        self.board.finished(trial_id, journal, 0.0)


def run(file, workspace, num_trials: int) -> Board:
    """Run the study until so many trials are done, and then stop; return the board."""
    plan = make_plan(load(file), "s", data=workspace.data)
    shown = Shown(plan.record)
    schedule = Schedule(plan, workspace.store, open_search(workspace.searches), shown)
    for number in range(num_trials):
        trial = schedule.next()
        assert trial is not None
        metrics = {"valid_nll": 4.0 + number % 5}
        outcome = Outcome(status=Status.COMPLETED, metrics=metrics)
        epochs = [Epoch(1, metrics, tokens=10)]
        journals.Journal(trial, epochs=epochs, outcome=outcome).write(workspace.store)
        schedule.finished(trial.id)
    return shown.board


def told_by_status(text: str) -> dict[str, tuple[int, int, int]]:
    """Row -> the trials done, left and in all."""
    rows = {}
    for line in text.splitlines():
        if found := re.match(r"(\S.*?)  +(\d+) of (\d+)(?:  +(\d+))?$", line):
            rows[found[1]] = (int(found[2]), int(found[4] or 0), int(found[3]))
    return rows


@pytest.mark.parametrize("asked", [STUDY, HEIR])
@pytest.mark.parametrize("num_done", [1, 14, 25])
def test_a_search_that_is_stopped_half_way_is_counted_alike_everywhere(
    workspace, tmp_path, asked, num_done
):
    file = tmp_path / "q.py"
    file.write_text(asked)
    (tmp_path / "rates.toml").write_text(RATE_AND_WINDOW)
    board = run(file, workspace, num_done)
    left = 32 - num_done
    assert (len(board.ended), board.total) == (num_done, 32)
    rows = told_by_status(show_status(workspace, "q"))
    assert rows.pop("all arms") == (num_done, left, 32)
    of_arms = {arm.name: (len(arm.done), arm.left, arm.total) for arm in board.arms.values()}
    assert rows == of_arms
    assert told_by_status(show_status(workspace, None)) == {"q@s": (num_done, left, 32)}
    plan = show_plan(str(file), "s", workspace)
    assert re.search(rf": {num_done} done, (up to )?{left} left; ", plan)
    for name, (done, _, every) in of_arms.items():
        assert re.search(rf"^{name} .* {done} of {every}$", plan, re.M)
