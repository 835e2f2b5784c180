"""Arms whose search starts from the winner of another arm's, by trials that train nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from ablate.commands.plan import show_plan
from ablate.compare.judged import Judged
from ablate.errors import AblateError
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.workspace import make_folders, open_workspace
from ablate.study.designs import table
from ablate.study.plan import make_plan
from ablate.study.study import Study, check
from ablate.study.words import Arm, Inherit, Scale, Search, Stage
from ablate.tune import local
from ablate.tune.listener import Listener
from ablate.tune.schedule import Schedule
from ablate.tune.search.arm import ArmSearch, open_search
from tests.support import small_studies
from tests.support.small_studies import order_in

pytestmark = pytest.mark.usefixtures("without_pages", "without_mlflow")

BASE = {**small_studies.BASE, "training.epochs": 2}
SPACE = f"""{small_studies.RATE_AND_WINDOW}
["Follows the text"]
choices = [false, true]

["Rate that follows"]
field = "evaluator.dynamic.learning_rate"
range = [1e-6, 1e-3]
when = "Follows the text = true"

["Dual drop"]
field = "bridge.output_dropout"
range = [0.0, 0.5]
when = "bridge = dual"

["Dual L2"]
field = "regularizer.l2.bridge"
choices = [0, 1e-5]
when = "bridge = dual"

["Optimizer"]
field = "optimizer"
value = "sgd"
"""
NOISE = "noise"
PLAIN, DUAL = Arm("plain"), Arm("dual", {"bridge": "dual"})
OVER = ("Dual drop",)
SETTLED = {"Follows the text": False}


@pytest.fixture
def space(tmp_path):
    file = tmp_path / "rates.toml"
    file.write_text(SPACE)
    return str(file)


def study_of(space, *arms, scale=None, inherit=None, **words) -> Study:
    search = Search(
        space=space,
        inherit={"dual": Inherit("plain", over=OVER)} if inherit is None else inherit,
        **{"trials": 5, "synchronous": True, "batch": 2, "rows": SETTLED, **words},
    )
    return Study(
        question="Does it inherit?",
        base=BASE,
        base_arm="plain",
        design=table(*(arms or (PLAIN, DUAL))),
        scales={"s": Scale(seeds=2, search=search, **(scale or {}))},
        runner=NOISE,
        name="q",
    )


def scheduled(study, workspace, listener=None) -> Schedule:
    plan = make_plan(study, "s", data=workspace.data)
    return Schedule(plan, workspace.store, open_search(workspace.searches), listener)


def run(study, workspace):
    trials: list = []
    schedule = scheduled(study, workspace)
    local.run(schedule, order_in(workspace, trials))
    return schedule, trials


def of(trials, arm, stage="search"):
    return [trial for trial in trials if (trial.arm, trial.stage) == (arm, stage)]


def winner(schedule, arm, repeat=0):
    record = schedule.plan.record
    return next(s.chosen for s in record.searches if (s.arm, s.repeat) == (arm, repeat))


@pytest.mark.slow
def test_an_heir_begins_when_the_other_is_over_takes_what_won_and_searches_its_rows(
    workspace, space
):
    schedule, trials = run(study_of(space), workspace)
    assert schedule.complete
    plain, dual = of(trials, "plain"), of(trials, "dual")
    assert len(plain) == len(dual) == 5
    assert max(map(trials.index, plain)) < min(map(trials.index, dual))
    won = next(trial for trial in plain if trial.id == winner(schedule, "plain")).values
    assert won["optimizer.learning_rate"] != BASE["optimizer.learning_rate"]
    for trial in [*dual, *of(trials, "dual", "train")]:
        for field in ("optimizer.learning_rate", "training.window"):
            assert trial.values[field] == won[field]
        assert trial.values["bridge"] == "dual"
        assert "regularizer.l2.bridge" not in trial.values
    assert len({trial.values["bridge.output_dropout"] for trial in dual}) == 5
    best = next(trial for trial in dual if trial.id == winner(schedule, "dual")).values
    confirmed = of(trials, "dual", "train")
    assert {t.values["bridge.output_dropout"] for t in confirmed} == {best["bridge.output_dropout"]}
    assert [trial.seed for trial in confirmed] == [1, 2]


def test_what_the_arm_sets_itself_is_not_taken_over(workspace, space):
    own = replace(DUAL, changes={"bridge": "dual", "training.window": 33})
    schedule, trials = run(study_of(space, PLAIN, own), workspace)
    assert {trial.values["training.window"] for trial in of(trials, "dual")} == {33}
    rates = {trial.values["optimizer.learning_rate"] for trial in of(trials, "dual")}
    won = next(trial for trial in trials if trial.id == winner(schedule, "plain"))
    assert rates == {won.values["optimizer.learning_rate"]}


def test_a_row_that_nobody_searches_is_never_asked_for(workspace, space):
    _, trials = run(study_of(space), workspace)
    assert not any("evaluator.dynamic.learning_rate" in trial.values for trial in trials)


def test_each_repeat_takes_over_its_own_winner(workspace, space):
    schedule, trials = run(study_of(space, repeats=2), workspace)
    rates = []
    for repeat in (0, 1):
        record = next(
            s for s in schedule.plan.record.searches if (s.arm, s.repeat) == ("dual", repeat)
        )
        won = next(trial for trial in trials if trial.id == winner(schedule, "plain", repeat))
        rates.append(won.values["optimizer.learning_rate"])
        heirs = [trial for trial in trials if trial.id in record.trials]
        assert {trial.values["optimizer.learning_rate"] for trial in heirs} == {rates[-1]}
    assert rates[0] != rates[1]


def test_an_heir_may_have_heirs(workspace, space):
    third = Arm("third", {"bridge": "dual", "training.clip": 1.0})
    inherit = {"third": Inherit("dual", over=("Window",)), "dual": Inherit("plain", over=OVER)}
    schedule, trials = run(study_of(space, third, DUAL, PLAIN, inherit=inherit), workspace)
    assert schedule.complete
    won = next(trial for trial in trials if trial.id == winner(schedule, "dual")).values
    for trial in of(trials, "third"):
        for field in ("optimizer.learning_rate", "bridge.output_dropout"):
            assert trial.values[field] == won[field]
    assert {trial.values["training.window"] for trial in of(trials, "third")} == {10, 20}


def test_two_heirs_that_differ_in_a_later_stage_share_all_before_it(workspace, space):
    further = replace(DUAL, name="further", then=(Stage("more", {"training.epochs": 1}),))
    inherit = {name: Inherit("plain", over=OVER) for name in ("dual", "further")}
    schedule, trials = run(study_of(space, PLAIN, DUAL, further, inherit=inherit), workspace)
    assert schedule.complete
    assert winner(schedule, "dual") == winner(schedule, "further")
    assert Counter(trial.stage for trial in trials) == {"search": 10, "train": 4, "more": 2}


def table_of(workspace):
    record = study_record.read(workspace.store, "q")
    places = sorted(record.trials, key=lambda place: (place.arm, place.seed_index, place.stage))
    return record.searches, places


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "rates.toml").write_text(SPACE)
    workspace = open_workspace(str(folder))
    make_folders(workspace)
    run(study_of(str(folder / "rates.toml")), workspace)
    return table_of(workspace)


def finish(trial, schedule, workspace) -> None:
    from ablate.tune.worker import Worker

    worker = Worker(order_in(workspace)(trial))
    while not worker.advance()["done"]:
        pass
    schedule.finished(trial.id)


@pytest.mark.slow
@pytest.mark.parametrize("killed_after", [5, 9])
def test_a_synchronous_heir_repeats_exactly_whatever_was_killed(
    workspace, space, undisturbed, killed_after
):
    schedule = scheduled(study_of(space), workspace)
    for _ in range(killed_after):
        trial = schedule.next()
        assert trial is not None
        finish(trial, schedule, workspace)
    schedule.next()  # the driver dies here, while the trial runs
    run(study_of(space), workspace)
    assert table_of(workspace) == undisturbed


class Killed(BaseException):
    """As if the process had been killed here."""


def test_an_heir_killed_while_it_asks_repeats_exactly(workspace, space, undisturbed, monkeypatch):
    ask, suggested = ArmSearch._ask_one, []

    def dies(search):
        suggested.append(ask(search))
        if len(suggested) == 8:
            raise Killed
        return suggested[-1]

    monkeypatch.setattr(ArmSearch, "_ask_one", dies)
    with pytest.raises(Killed):
        run(study_of(space), workspace)
    monkeypatch.setattr(ArmSearch, "_ask_one", ask)
    run(study_of(space), workspace)
    assert table_of(workspace) == undisturbed


class Notes(Listener):
    """Listens to notes alone."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


def test_without_a_winner_nobody_inherits_and_the_study_ends(workspace, space):
    inherit = {"third": Inherit("dual", over=("Window",)), "dual": Inherit("plain", over=OVER)}
    third = Arm("third", {"bridge": "dual", "training.clip": 1.0})
    notes = Notes()
    schedule = scheduled(study_of(space, PLAIN, DUAL, third, inherit=inherit), workspace, notes)
    while (trial := schedule.next()) is not None:
        assert trial.arm == "plain"
        schedule.lost(trial.id, "its worker died")
    assert schedule.complete
    assert notes.texts == [
        "the search of plain has no winner: no trial completed",
        "the search of dual cannot start: plain has no winner",
        "the search of third cannot start: dual has no winner",
    ]
    assert [s.trials for s in schedule.plan.record.searches[1:]] == [(), ()]


def test_the_plan_says_who_inherits_and_counts_its_trials(workspace, space, monkeypatch):
    study = study_of(space)
    monkeypatch.setattr("ablate.commands.plan.load", lambda file: study)
    text = show_plan("q.py", "s", workspace)
    assert (
        "dual starts from the best of the search of plain, and searches only 'Dual drop'." in text
    )
    assert "up to 14 left" in text  # five and two seeds for either arm


def test_arms_that_share_a_search_are_counted_once(workspace, space, monkeypatch):
    further = replace(DUAL, name="further", then=(Stage("more", {"training.epochs": 1}),))
    inherit = {name: Inherit("plain", over=OVER) for name in ("dual", "further")}
    study = study_of(space, PLAIN, DUAL, further, inherit=inherit)
    monkeypatch.setattr("ablate.commands.plan.load", lambda file: study)
    # five and two twice, and a stage of two
    assert "up to 16 left" in show_plan("q.py", "s", workspace)
    before, (_, ran) = scheduled(study, workspace).plan.record, run(study, workspace)
    assert [search.shared for search in before.searches] == [False, False, True]
    assert [len(search.confirming) for search in before.searches] == [2, 2, 2]
    assert len(ran) == 16


def test_what_will_confirm_a_winner_is_in_the_record_until_it_is_planned(workspace, space):
    study = study_of(space)
    before = scheduled(study, workspace).plan.record
    assert all(epochs for search in before.searches for epochs in search.confirming)
    run(study, workspace)
    after = study_record.read(workspace.store, "q")
    assert [search.confirming for search in after.searches] == [(), ()]
    assert len(after.trials) == sum(len(search.confirming) for search in before.searches)


def test_the_table_says_what_is_behind_an_heir_s_settings(workspace, space):
    run(study_of(space), workspace)
    record = study_record.read(workspace.store, "q")
    assert [(s.inherits, s.over) for s in record.searches] == [(None, ()), ("plain", OVER)]
    stored = journals.read_all(workspace.store, record.trial_ids())
    note = (
        "dual inherited the best settings of plain and searched only 'Dual drop', in 5 trials "
        "of its own; 10 trials are behind its settings, 5 behind those of plain."
    )
    assert note in Judged(record, stored).notes


def test_a_record_of_before_has_nobody_who_inherits(workspace, space):
    schedule, _ = run(study_of(space, PLAIN, inherit={}), workspace)
    plain = workspace.store.read_json("studies/q@s/study.json")
    for search in plain["searches"]:
        del search["inherits"], search["over"]
    assert study_record.from_plain(plain) == schedule.plan.record


HEIR = {"dual": Inherit("plain", over=OVER)}


@pytest.mark.parametrize(
    ("inherit", "scale", "message"),
    [
        ({"dual": Inherit("plian", over=OVER)}, {}, r"inherit: .*'plian'.*'plain'"),
        ({"daul": Inherit("plain", over=OVER)}, {}, r"inherit: .*'daul'.*'dual'"),
        (
            {"dual": Inherit("plain", over=OVER), "plain": Inherit("dual", over=OVER)},
            {},
            r"scale 's': inherit: these arms wait for each other: dual -> plain -> dual",
        ),
        ({"dual": Inherit("dual", over=OVER)}, {}, r"wait for each other: dual -> dual"),
        (
            {"dual": Inherit("third", over=OVER)},
            {"arms": ["dual"]},
            r"'dual' starts from the winner of 'third', which this scale leaves out",
        ),
        (
            {"dual": Inherit("plain", over=("Dual dorp",))},
            {},
            r"arm 'dual': inherits from 'plain': over: .*'Dual dorp'.*'Dual drop'",
        ),
        ({"dual": Inherit("plain", over=("Optimizer",))}, {}, r"over: .*'Optimizer'.*Dual drop"),
        (
            {"third": Inherit("plain", over=("Window",))},
            {},
            r"over row 'Window', but training\.window = 33 is set by the arm",
        ),
        (
            {"third": Inherit("plain", over=OVER)},
            {},
            r"over row 'Dual drop', which is active only when bridge = dual: never in this arm",
        ),
        (
            {"dual": Inherit("plain", over=("Rate that follows",))},
            {},
            r"active only when Follows the text = true: never in this arm",
        ),
    ],
)
def test_what_cannot_be_inherited_is_refused(workspace, space, inherit, scale, message):
    third = Arm("third", {"training.window": 33})
    with pytest.raises(AblateError, match=message):
        study = study_of(space, PLAIN, DUAL, third, inherit=inherit, scale=scale)
        check(study)
        make_plan(study, "s", data=workspace.data)


def test_a_row_that_hangs_on_one_without_a_field_is_refused(workspace, space):
    """What the other search chose there is in none of its values."""
    inherit = {"dual": Inherit("plain", over=("Rate that follows",))}
    with pytest.raises(AblateError, match="active only when Follows the text = true: never"):
        make_plan(study_of(space, inherit=inherit, rows={}), "s", data=workspace.data)


def test_an_heir_searches_one_row_at_least():
    with pytest.raises(AblateError, match="at least one row of the space"):
        Inherit("plain", over=())


def test_a_search_in_a_stage_inherits_from_no_arm(space):
    search = Search(space=space, trials=2, inherit=HEIR)
    with pytest.raises(AblateError, match="cannot inherit from an arm"):
        Stage("judge", kind="evaluate", search=search)


@pytest.mark.parametrize(
    ("rows", "message"), [({"Rat": 1.0}, "'Rat'"), ({"Window": 11}, "Window = 11")]
)
def test_rows_that_nobody_searches_are_rows_of_the_space(workspace, space, rows, message):
    with pytest.raises(AblateError, match=message):
        make_plan(study_of(space, rows=rows), "s", data=workspace.data)
