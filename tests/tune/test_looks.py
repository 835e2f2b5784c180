"""Planned looks: which arms train on, what a killed run repeats, and what stands on record."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from ablate.compare.study_summary import open_study
from ablate.config.identity import Trial
from ablate.engine.board import Board
from ablate.errors import StudyError
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.epoch import Epoch
from ablate.store.outcome import Outcome, Status
from ablate.study.designs import factorial, table
from ablate.study.looked import with_history
from ablate.study.plan import make_plan
from ablate.study.replicate import replicated
from ablate.study.study import Study, check
from ablate.study.words import Arm, Inherit, Scale, Search, Stage
from ablate.tune import local
from ablate.tune.listener import Listener
from ablate.tune.schedule import Schedule
from ablate.tune.search.arm import open_search
from tests.support.small_studies import BASE, RATE, order_in

pytestmark = pytest.mark.usefixtures("without_pages", "without_mlflow")

KEY = "q@s"
LOOKS = (5, 8, 12)
EFFECTS = {"base": 0.0, "much": -0.3, "same": 0.001, "against": 0.05}


def study_of(arms=("much", "same"), against: str | None = None, **scale: Any) -> Study:
    changes = {name: {"training.clip": 1.0 + at} for at, name in enumerate(EFFECTS)}
    listed = [
        Arm(name, changes[name], against=against if name == "same" else None)
        for name in ("base", *arms)
    ]
    return Study(
        question="Does it stop?",
        base=BASE,
        base_arm="base",
        design=table(*listed),
        scales={"s": Scale(**{"seeds": 12, "looks": LOOKS, **scale})},
        runner="stand_in",
        name="q",
    )


def loss_of(trial: Trial) -> float:
    """The same for a trial whenever it is run."""
    own = random.Random(f"{trial.arm} {trial.seed}").gauss(0, 0.01)
    return 4 + EFFECTS[trial.arm] + own


def scheduled(study: Study, workspace, listener: Listener | None = None) -> Schedule:
    check(study)
    plan = make_plan(study, next(iter(study.scales)), data=workspace.data)
    return Schedule(plan, workspace.store, open_search(workspace.searches), listener)


def run(
    study: Study, workspace, most: int = 10_000, loss=loss_of, listener: Listener | None = None
) -> list[Trial]:
    """Run a study's trials, at most so many; return those that ran."""
    schedule, ran = scheduled(study, workspace, listener), []
    while len(ran) < most and (trial := schedule.next()) is not None:
        value = loss(trial)
        status = Status.COMPLETED if value is not None else Status.FAILED
        metrics = {"valid_nll": value} if value else {}
        outcome = Outcome(status=status, metrics=metrics, reason=None if value else "out of memory")
        journals.Journal(trial, epochs=[Epoch(1)], outcome=outcome).write(workspace.store)
        schedule.finished(trial.id)
        ran.append(trial)
    if schedule.complete:
        schedule.looked("0123")
    schedule.close()
    return ran


def seeds_of(ran: list[Trial], arm: str) -> list[int]:
    return sorted(trial.seed for trial in ran if trial.arm == arm)


def looks_made(workspace) -> list[int]:
    return [look.num for look in study_record.read(workspace.store, KEY).made]


def test_an_arm_that_is_decided_trains_no_more_and_the_base_does(workspace):
    ran = run(study_of(), workspace)
    assert seeds_of(ran, "much") == [1, 2, 3, 4, 5]
    assert seeds_of(ran, "same") == seeds_of(ran, "base") == [*range(1, 13)]
    assert looks_made(workspace) == [*LOOKS]
    judged = open_study(workspace.store, "q")
    assert judged.whole
    assert judged.record.arm("much").stopped_at == 5
    assert judged.arm("much").comparison.verdict == "better"
    assert all(look.time and look.table for look in judged.record.made)


def test_the_base_stops_when_every_arm_is_decided(workspace):
    ran = run(study_of(arms=("much",)), workspace)
    assert len(ran) == 10
    assert looks_made(workspace) == [5]
    assert scheduled(study_of(arms=("much",)), workspace).complete


def test_an_arm_that_another_is_compared_with_trains_on(workspace):
    ran = run(study_of(against="much"), workspace, loss=lambda t: 4 + random.Random(t.id).random())
    assert len(seeds_of(ran, "much")) == 12


def test_the_screen_counts_no_trial_that_is_not_needed(workspace):
    class Screen(Listener):
        def planned(self, record):
            self.board = Board(record, 0.0) if self.board is None else self.board
            self.board.take_record(record)

        def finished(self, trial_id, journal):
            self.board.finished(trial_id, journal, 1.0)

        board = None

    screen = Screen()
    run(study_of(), workspace, listener=screen)
    assert screen.board.total == len(screen.board.ended) == 29
    assert [arm.total for arm in screen.board.arms.values()] == [12, 5, 12]


def test_plans_and_seeds_of_later_looks_wait(workspace):
    plan = make_plan(study_of(), "s", data=workspace.data)
    assert plan.record.looks == LOOKS
    assert len(plan.trials) == 36
    ran = run(study_of(), workspace)
    assert max(trial.seed for trial in ran[:15]) == 5  # all of the first look, before any other


@pytest.mark.parametrize("killed_after", [15, 30])
def test_a_killed_run_resumes_to_the_same_table(workspace, tmp_path, data, killed_after):
    from tests.support.small_studies import new_workspace

    other = new_workspace(tmp_path / "other", data)
    whole = run(study_of(), other)
    first = run(study_of(), workspace, most=killed_after)
    rest = run(study_of(), workspace)
    assert {trial.id for trial in first + rest} == {trial.id for trial in whole}
    assert len(first) + len(rest) == len(whole)
    ours, theirs = (open_study(each.store, "q") for each in (workspace, other))
    assert ours.arms == theirs.arms
    made = [[(look.num, look.table) for look in each.record.made] for each in (ours, theirs)]
    assert made[0] == made[1]
    assert run(study_of(), workspace) == []


def test_the_local_driver_makes_looks_too(workspace):
    """Its trials are all of one loss: nothing is decided, and every seed is trained."""
    schedule = scheduled(study_of(seeds=5, looks=(3, 5)), workspace)
    local.run(schedule, order_in(workspace))
    assert schedule.complete
    assert looks_made(workspace) == [3, 5]


def test_a_failed_seed_costs_a_pair_and_a_retry_is_another_look(workspace):
    failed = run(study_of(), workspace, loss=lambda t: None if t.seed == 2 else loss_of(t))
    assert seeds_of(failed, "much") == [1, 2, 3, 4, 5]
    again = run(study_of(), workspace)
    assert {trial.seed for trial in again} == {2}
    assert looks_made(workspace) == [5, 8, 12, 5, 8, 12]


def test_raised_seeds_are_judged_at_any_time(workspace):
    run(study_of(seeds=3, looks=()), workspace)
    assert str(open_study(workspace.store, "q").looks) == ""
    run(study_of(seeds=5, looks=()), workspace)
    run(study_of(seeds=12, looks=()), workspace)
    summary = open_study(workspace.store, "q")
    assert str(summary.looks) == "looked at 3, 5, 12 seeds; 3 were planned"
    assert summary.arm("much").comparison.verdict == "better"
    run(study_of(seeds=12, looks=()), workspace)  # running it again hides nothing
    again = open_study(workspace.store, "q")
    assert (str(again.looks), again.arms) == (str(summary.looks), summary.arms)


def test_a_plan_that_is_made_after_a_look_is_none(workspace):
    run(study_of(seeds=12, looks=(5, 12)), workspace, most=18)  # beyond the first look
    run(study_of(seeds=12, looks=(5, 8, 12)), workspace)
    record = study_record.read(workspace.store, KEY)
    assert record.looks == (5, 12)
    run(study_of(seeds=14, looks=(5, 8, 14)), workspace)
    looks = open_study(workspace.store, "q").looks
    assert str(looks) == "looked at 5, 12, 14 seeds; 5, 12 were planned"


def test_before_the_first_look_the_plan_may_change(workspace):
    run(study_of(seeds=5, looks=()), workspace, most=4)
    run(study_of(seeds=8, looks=()), workspace)
    assert str(open_study(workspace.store, "q").looks) == ""


def test_an_old_record_was_looked_at_when_it_was_whole(workspace):
    run(study_of(seeds=5, looks=()), workspace)
    record = study_record.read(workspace.store, KEY)
    study_record.write(workspace.store, replace(record, made=()))
    plan = make_plan(study_of(seeds=8, looks=()), "s", data=workspace.data)
    record = with_history(plan, workspace.store).record
    assert (record.looks, [look.num for look in record.made]) == ((5,), [5])


def test_looks_at_other_seeds_are_kept_for_the_reader(workspace):
    run(study_of(seeds=5, looks=()), workspace)
    run(study_of(seeds=5, looks=(), first_seed=20), workspace)
    record = study_record.read(workspace.store, KEY)
    assert [(look.num, look.first_seed) for look in record.made] == [(5, 1), (5, 20)]
    assert str(open_study(workspace.store, "q").looks) == ""


def test_in_a_factorial_all_arms_train_until_every_effect_is_decided(workspace):
    levels = {"clip": {"no": {}, "yes": {"training.clip": 1.0}}}
    more = {"window": {"short": {}, "long": {"training.window": 33}}}
    design = factorial({**levels, **more})
    study = replace(study_of(), design=design, base_arm=design.arms[0].name)
    ran = run(study, workspace, loss=lambda t: 4 + random.Random(t.id).gauss(0, 0.01))
    assert len(ran) == 48


def searched(tmp_path, **words: Any) -> Study:
    file = tmp_path / "rates.toml"
    file.write_text(RATE)
    search = Search(space=str(file), **{"trials": 1, "repeats": 5, "looks": (3, 5), **words})
    return study_of(seeds=2, looks=(), search=search)


def test_searches_of_a_decided_arm_do_not_start(workspace, tmp_path):
    study = searched(tmp_path)
    ran = run(study, workspace)
    record = study_record.read(workspace.store, KEY)
    started = {arm: [s.repeat for s in record.searches_of(arm) if s.trials] for arm in EFFECTS}
    assert started["much"] == [0, 1, 2]
    assert started["same"] == started["base"] == [*range(5)]
    summary = open_study(workspace.store, "q")
    assert summary.whole
    assert summary.arm("much").comparison.verdict == "better"
    assert (summary.arm("much").counts.planned, summary.arm("same").counts.planned) == (6, 10)
    assert run(study, workspace) == []
    assert len(ran) == record.num_trials()


def test_a_table_without_verdicts_is_no_look(workspace, tmp_path):
    run(searched(tmp_path, repeats=1, looks=()), workspace)
    assert study_record.read(workspace.store, KEY).made == ()
    run(searched(tmp_path, repeats=3, looks=()), workspace)
    assert looks_made(workspace) == [3]
    assert str(open_study(workspace.store, "q").looks) == ""
    run(searched(tmp_path, repeats=4, looks=()), workspace)
    looks = open_study(workspace.store, "q").looks
    assert str(looks) == "looked at 3, 4 searches; 3 were planned"


def test_an_arm_that_an_undecided_one_inherits_from_is_searched_on(workspace, tmp_path):
    study = searched(tmp_path, inherit={"same": Inherit("much", over=["Rate"])})
    run(study, workspace)
    record = study_record.read(workspace.store, KEY)
    assert len([s for s in record.searches_of("much") if s.trials]) == 5


def test_a_replication_has_the_next_seeds_and_searches_and_one_look(workspace, tmp_path):
    study = searched(tmp_path)
    with pytest.raises(StudyError, match="q@s has not been run"):
        replicated(study, "s", 1, workspace.store)
    run(study, workspace)
    again, name = replicated(study, None, 1, workspace.store)
    scale = again.scales[name]
    assert name == "s-replicate"
    assert (scale.first_seed, scale.looks) == (11, ())
    assert (scale.search.first_seed, scale.search.looks) == (6, ())
    plan = make_plan(again, name, data=workspace.data)
    assert plan.record.key == "q@s-replicate"
    assert {search.seed for search in plan.searches} == {*range(6, 11)}
    replicates = "Replicates q@s (seeds 1 to 10: "
    assert any(note.startswith(replicates) for note in plan.record.notes)
    study_record.write(workspace.store, plan.record)
    third, third_name = replicated(study, "s", 2, workspace.store)
    assert third_name == "s-replicate-2"
    assert third.scales[third_name].first_seed == 21
    assert replicated(study, "s", 1, workspace.store)[0].scales[name].first_seed == 11


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ({"seeds": 12, "looks": (5, 5, 12)}, "numbers that rise"),
        ({"seeds": 12, "looks": (2, 12)}, "from 3 or more"),
        ({"seeds": 12, "looks": (5, 8)}, "to seeds=12, such as"),
        ({"seeds": 2, "looks": (2,)}, "none, since seeds=2"),
        ({"seeds": 12, "looks": LOOKS, "ensemble": True}, "ensemble and looks exclude"),
        (
            {"seeds": 12, "looks": LOOKS, "stages": (Stage("gate", over="seeds"),)},
            "stage 'gate' needs every seed",
        ),
        ({"seeds": 12, "looks": LOOKS, "search": Search(space="x", trials=1)}, "looks= in Search"),
    ],
)
def test_impossible_looks_are_refused(words, problem):
    with pytest.raises(StudyError, match=problem):
        Scale(**words)


def test_impossible_looks_of_searches_are_refused():
    with pytest.raises(StudyError, match="to repeats=8, such as"):
        Search(space="x", trials=1, repeats=8, looks=(3, 5))
    search = Search(space="x", trials=1, repeats=8, looks=(3, 8))
    with pytest.raises(StudyError, match="looks= in the scale"):
        Stage("judge", kind="evaluate", search=search)
    then = (Stage("gate", over="seeds"),)
    with pytest.raises(StudyError, match="a stage over all seeds needs every seed"):
        replace(study_of(), design=table(Arm("base", then=then)))
