"""A scale that takes over what another scale's searches found, by trials that train nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ablate.compare.study_summary import open_study
from ablate.compare.table.full_table import full_table as study_table
from ablate.errors import StudyError
from ablate.results.copied import copied_from
from ablate.results.verdict import Verdict
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.store import Store
from ablate.store.study_record import PlannedTrial
from ablate.study.designs import table
from ablate.study.plan import make_plan
from ablate.study.study import Study
from ablate.study.words import Arm, Scale, Search
from ablate.tune import local
from ablate.tune.schedule import Schedule
from ablate.tune.search.arm import open_search
from tests.support.small_studies import BASE, RATE_AND_WINDOW, order_in

pytestmark = pytest.mark.usefixtures("without_pages", "without_mlflow")

FIELDS = ("optimizer.learning_rate", "training.window")


@pytest.fixture
def space(tmp_path):
    file = tmp_path / "rates.toml"
    file.write_text(RATE_AND_WINDOW)
    return str(file)


def study_of(space, repeats: int = 1, **listed) -> Study:
    search = Search(space=space, trials=2, synchronous=True, batch=2, repeats=repeats)
    base = {k: v for k, v in BASE.items() if k != "optimizer.learning_rate"}
    words = {"seeds": 3, **(listed or {"settings_of": "search"})}
    return Study(
        question="Which?",
        base={**base, "optimizer.learning_rate": 1.0},
        base_arm="one",
        design=table(Arm("one"), Arm("two", {"training.clip": 0.5})),
        scales={"search": Scale(seeds=1, search=search), "listed": Scale(**words)},
        runner="noise",
        name="q",
    )


def run(study, workspace, scale):
    plan = make_plan(study, scale, data=workspace.data, stores=[workspace.store])
    schedule = Schedule(plan, workspace.store, open_search(workspace.searches))
    local.run(schedule, order_in(workspace))
    assert schedule.complete
    return schedule.plan


def winners(workspace, arm):
    record = study_record.read(workspace.store, "q@search")
    return [journals.read(workspace.store, s.chosen) for s in record.searches if s.arm == arm]


def test_each_winner_is_trained_on_seeds_of_its_own_and_the_rule_of_searches_holds(
    workspace, space
):
    study = study_of(space, repeats=3)
    run(study, workspace, "search")
    plan = run(study, workspace, "listed")
    assert (plan.record.settings_of, plan.record.num_searches) == ("search", 3)
    for arm in ("one", "two"):
        own = [trial for trial in plan.trials if trial.arm == arm]
        assert sorted(trial.seed for trial in own) == [*range(1, 10)]
        for repeat, winner in enumerate(winners(workspace, arm)):
            of_winner = [t for t in own if (t.seed - 1) // 3 == repeat]
            found = {tuple(t.config.flat[field] for field in FIELDS) for t in of_winner}
            assert found == {tuple(winner.config[field] for field in FIELDS)}
    summary = open_study(workspace.store, "q@listed")
    assert summary.replication.by_search
    assert summary.arm("two").comparison.difference.num_pairs == 3


def test_below_three_searches_there_is_no_verdict(workspace, space):
    study = study_of(space)
    run(study, workspace, "search")
    run(study, workspace, "listed")
    summary = open_study(workspace.store, "q@listed")
    assert summary.arm("two").comparison.verdict == Verdict.WITHHELD
    notes = " ".join(study_table(summary).cautions)
    assert "the settings were found by 1 search of search" in notes


def listed_by_hand(workspace, **changes) -> Study:
    """The winners' settings, typed into a listed scale."""
    found = {
        arm: {field: winners(workspace, arm)[0].config[field] for field in FIELDS}
        for arm in ("one", "two")
    }

    def adapt(values):
        return {**found["two" if values.get("training.clip") == 0.5 else "one"], **changes}

    return adapt


@pytest.mark.parametrize("changed", [False, True])
def test_winners_copied_by_hand_bring_no_verdicts_back(workspace, space, changed):
    run(study_of(space, repeats=3), workspace, "search")
    adapt = listed_by_hand(workspace, **({"training.window": 15} if changed else {}))
    run(study_of(space, adapt=adapt), workspace, "listed")
    summary = open_study(workspace.store, "q@listed")
    assert (summary.replication.num_searches == 1) == (not changed)
    verdict = summary.arm("two").comparison.verdict
    assert (verdict == Verdict.WITHHELD) == (not changed)
    notes = " ".join(study_table(summary).cautions)
    assert ("those that a search of q@search found" in notes) == (not changed)


COPIES = {
    "a rounded value": ("q", {"one": "one", "two": "two"}, {"two": 1.05}, True),
    "another value": ("q", {"one": "one", "two": "two"}, {"two": 1.3}, False),
    "another study": ("other", {"one": "one", "two": "two"}, {}, True),
    "other arms": ("q", {"one": "first", "two": "second"}, {}, True),
    "other arms of another study": (
        "other",
        {"one": "first", "two": "second"},
        {"one": 1.05},
        True,
    ),
    "one value for all arms of another study": ("other", {"one": "one"}, {}, False),
}


@pytest.mark.parametrize(("name", "arms", "factors", "noticed"), COPIES.values(), ids=COPIES)
def test_winners_typed_in_by_hand_are_noticed_by_nearness(
    workspace, space, name, arms, factors, noticed
):
    run(study_of(space), workspace, "search")
    record = study_record.read(workspace.store, "q@search")
    first, second = record.searches
    (other,) = {*second.trials} - {second.chosen}
    if name != "q":  # the same two settings were offered to both: let each have another winner
        record = replace(record, searches=(first, replace(second, chosen=other)))
        study_record.write(workspace.store, record)
    known = journals.read_all(workspace.store, [s.chosen for s in record.searches])
    later = replace(record, name=name, scale="listed", searches=(), trials=(), arms=())
    listed, planned = {}, []
    role = {"stage": "", "seed": 1, "seed_index": 0, "final": True}
    for old, new in arms.items():
        (found,) = (known[s.chosen] for s in record.searches if s.arm == old)
        config = dict(found.config)
        for field in FIELDS:
            config[field] = config[field] * factors.get(old, 1)
        listed[new] = replace(found, config=config)
        planned.append(PlannedTrial(**role, id=new, arm=new))
        later = replace(later, arms=(*later.arms, replace(record.arm(old), name=new)))
    later = replace(later, trials=tuple(planned))
    assert (copied_from(workspace.store, later, listed) is not None) == noticed


def test_what_began_before_the_search_is_no_copy(workspace, space):
    run(study_of(space), workspace, "search")
    run(study_of(space, adapt=listed_by_hand(workspace)), workspace, "listed")
    record = study_record.read(workspace.store, "q@listed")
    known = journals.read_all(workspace.store, record.trial_ids())
    assert copied_from(workspace.store, record, known).key == "q@search"
    for journal in known.values():
        journal.attempts[0] = replace(journal.attempts[0], started="2001-01-01T00:00:00Z")
    assert copied_from(workspace.store, record, known) is None


def test_settings_of_a_search_that_is_not_on_record_have_no_verdict_either(workspace, space):
    run(study_of(space, searched=True), workspace, "listed")
    summary = open_study(workspace.store, "q@listed")
    assert summary.arm("two").comparison.verdict == Verdict.WITHHELD
    assert "a search that is not on record" in " ".join(study_table(summary).cautions)


def test_without_a_finished_search_there_is_nothing_to_take(workspace, space, tmp_path):
    study = study_of(space)
    with pytest.raises(StudyError, match=r"no record of q@search .*run that scale first"):
        make_plan(study, "listed", data=workspace.data)
    run(study, workspace, "search")
    record = study_record.read(workspace.store, "q@search")
    unfinished = replace(record, searches=tuple(replace(s, chosen=None) for s in record.searches))
    other = Store(str(tmp_path / "other"))
    study_record.write(other, unfinished)
    with pytest.raises(StudyError, match="0 of 1 searches of arm 'one' have a winner"):
        make_plan(study, "listed", data=workspace.data, stores=[other])


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"settings_of": "searc"}, "scale with a search 'searc'"),
        ({"settings_of": "listed"}, "scale with a search 'listed'"),
        ({"settings_of": "search", "searched": True}, "not on record"),
    ],
)
def test_a_contradiction_is_refused(space, words, text):
    with pytest.raises(StudyError, match=text):
        study_of(space, **words)


def test_the_scale_may_not_set_what_was_searched(workspace, space):
    run(study_of(space), workspace, "search")
    study = study_of(space, settings_of="search", changes={"training.window": 12})
    with pytest.raises(StudyError, match=r"found training\.window, which the scale's changes set"):
        make_plan(study, "listed", data=workspace.data, stores=[workspace.store])
