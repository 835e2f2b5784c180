"""What `ablate plan` says that a study still costs."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ablate.commands._plan_cost import Cost
from ablate.commands.plan import show_plan
from ablate.engine.run import run
from ablate.store import journal as journals
from ablate.store.outcome import Status
from ablate.study import cost
from ablate.study.file import load
from ablate.study.plan import make_plan
from tests.support.small_studies import BASE, RATE

pytestmark = pytest.mark.usefixtures("without_pages", "without_mlflow")
STUDY = f"""
from ablate import Arm, Scale, Stage, Study, table

judged = Stage("judged", {{"evaluator.standard.batch_size": 2}}, kind="evaluate")
study = Study(
    question="What is left?",
    base={BASE!r},
    base_arm="plain",
    design=table(Arm("plain"), Arm("judged", then=(judged,))),
    scales={{"s": Scale(seeds=3)}},
)
"""


@pytest.mark.slow
def test_evaluations_cost_what_they_took_on_other_seeds(tmp_path, workspace, monkeypatch):
    monkeypatch.setattr("ablate.engine.cores.usable_cores", lambda: 1.0)
    file = tmp_path / "asks.py"
    file.write_text(STUDY)
    assert re.search(r"with 1 worker \(.*\), without 3 evaluations\.$", told(file, workspace))
    run(file, "s", workspace=str(workspace.folder), local=True)
    judged = [t for t in make_plan(load(file), "s", data=workspace.data).trials if t.parents]
    for trial, seconds in zip(judged, (100.0, 200.0, None), strict=True):
        journal = journals.read(workspace.store, trial.id)
        assert journal is not None and journal.outcome is not None and journal.outcome.seconds
        outcome = None if seconds is None else replace(journal.outcome, seconds=seconds)
        replace(journal, outcome=outcome).write(workspace.store)
    assert "left: about 2m30s with 1 worker" in told(file, workspace)
    assert "without" not in told(file, workspace)


SEARCHED = f"""
from ablate import Arm, Scale, Search, Study, table

study = Study(
    question="What is left?",
    runner="stand_in",
    base={BASE!r},
    base_arm="plain",
    design=table(Arm("plain")),
    scales={{"s": Scale(seeds=2, search=Search(
        space="rate.toml", trials=4, sampler="random", changes={{"training.epochs": 2}}
    ))}},
)
"""


def test_of_a_search_what_is_done_is_not_left_and_what_failed_is(tmp_path, workspace):
    file = tmp_path / "asks.py"
    file.write_text(SEARCHED)
    (tmp_path / "rate.toml").write_text(RATE)
    counted = "6 trials, with those of searches and what confirms their winners"
    assert f"{counted}: 0 done, up to 6 left; " in told(file, workspace)
    run(file, "s", workspace=str(workspace.folder), local=True)
    assert f"{counted}: 6 done, 0 left; 0.0M training tokens left" in told(file, workspace)
    stored = journals.read_all(workspace.store).values()
    (first, *_), (last, *_) = (
        [j for j in stored if j.trial.stage == stage] for stage in ("search", "train")
    )
    for journal in (first, last):
        outcome = replace(journal.outcome, status=Status.FAILED)  # type: ignore[type-var]
        replace(journal, outcome=outcome).write(workspace.store)
    assert f"{counted}: 4 done, 2 left; " in told(file, workspace)


def told(file, workspace, local=False) -> str:
    """The line of what it costs."""
    lines = show_plan(str(file), "s", workspace, local=local).splitlines()
    return next(line for line in lines if re.match(r"\d+ trials?\b", line))


CHAINED = f"""
from ablate import Arm, Scale, Stage, Study, table

again = Stage("again", {{"training.epochs": 3}})
study = Study(
    question="How long is the longest?",
    base={BASE!r},
    base_arm="plain",
    design=table(Arm("plain"), Arm("longer", then=(again,))),
    scales={{"s": Scale(seeds=2)}},
)
"""


@pytest.mark.parametrize(
    ("asked", "epochs"),
    [
        # two seeds, of an epoch and then three more: four in a row at least, of eight
        (CHAINED, {1: 8, 2: 4, 8: 4}),
        # three seeds on two workers: the third begins when two have ended
        (CHAINED.replace("seeds=2", "seeds=3"), {1: 12, 2: 8, 3: 4}),
        # four trials of two epochs, and then two of one that confirm the best
        (SEARCHED.replace('runner="stand_in",', ""), {1: 10, 2: 5, 3: 5, 8: 3}),
    ],
)
def test_trials_wait_for_others_and_leave_workers_idle(
    asked, epochs, tmp_path, workspace, monkeypatch
):
    monkeypatch.setattr(cost, "seconds_per_token", lambda work, *_: dict.fromkeys(work, 1e-3))
    file = tmp_path / "asks.py"
    file.write_text(asked)
    (tmp_path / "rate.toml").write_text(RATE)
    seconds: dict[int, int] = {}
    for workers in epochs:
        monkeypatch.setattr("ablate.engine.cores.usable_cores", lambda n=workers: n)
        seconds[workers] = in_seconds(re.search(r"about (\S+) with", told(file, workspace))[1])
        local = re.search(r"about (\S+) with 1 worker", told(file, workspace, local=True))
        assert local and in_seconds(local[1]) == seconds[1], "--local uses one core of many"
    each = seconds[1] / epochs[1]
    assert each > 2  # so that the rounding of seconds says nothing
    assert seconds == {workers: pytest.approx(each * num, abs=2) for workers, num in epochs.items()}


def in_seconds(text: str) -> int:
    """The inverse of `duration`, for less than a day."""
    sizes = {"h": 3600, "m": 60, "s": 1}
    return sum(int(number) * sizes[unit] for number, unit in re.findall(r"(\d+)([hms])", text))


@pytest.mark.parametrize(
    ("num_finished", "said"),
    [
        ((3, 2), "from 5 finished trials"),
        ((0, 0), "estimated from this machine's speed"),
        ((3, 0), "from 3 finished trials, and estimated from this machine's speed where none"),
    ],
)
def test_the_time_of_several_parts_says_how_each_is_known(num_finished: tuple[int, int], said: str):
    one, other = (
        Cost(
            trials=4,
            done=num,
            at_most=False,
            tokens=1e6,
            seconds=10.0,
            workers=2,
            num_finished=num,
            num_guessed=0 if num else 1,
            num_unknown=0,
        )
        for num in num_finished
    )
    both = one + other
    assert (both.trials, both.done, both.seconds) == (8, sum(num_finished), 20.0)
    assert both.basis.startswith(said)
    assert (one + replace(other, seconds=None)).seconds is None
