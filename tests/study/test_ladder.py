"""A ladder's rungs: a scale and a record for each, with ids that no other rung changes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from ablate.commands.plan import show_plan
from ablate.commands.plot import Files, plot
from ablate.commands.report import report
from ablate.commands.status import show_status
from ablate.commands.table import show_table
from ablate.compare.page import sections_of
from ablate.compare.publishing import publish
from ablate.compare.study_summary import open_parts, open_study
from ablate.errors import ConfigError, StudyError
from ablate.study.designs import table
from ablate.study.overrides import Overrides, overridden
from ablate.study.plan import make_plan
from ablate.study.replicate import replicated
from ablate.study.several import scales_of
from ablate.study.study import Study
from ablate.study.words import Arm, Ladder, Scale, Search
from ablate.tune import local
from ablate.tune.schedule import Schedule
from ablate.tune.search.arm import open_search
from tests.support.small_studies import BASE, order_in

WIDTHS = (4, 6, 8, 12)
SIZES = {"backbone.units": WIDTHS}


def squared(values: dict[str, Any]) -> float:
    return 1e6 * values["backbone.units"] ** 2


def ladder_of(sizes=SIZES, **words) -> Ladder:
    return Ladder(sizes, **{"compute": squared, **words})


def study_of(ladder: Ladder, **scale) -> Study:
    base = {key: value for key, value in BASE.items() if key != "backbone.units"}
    return Study(
        question="Which?",
        base=base,
        base_arm="one",
        design=table(Arm("one"), Arm("two", {"training.clip": 0.5})),
        scales={"s": Scale(ladder=ladder, **{"seeds": 3, **scale})},
        runner="noise",
        name="q",
    )


def planned(study, workspace, scale):
    return make_plan(study, scale, data=workspace.data, stores=[workspace.store])


def run(study, workspace, scale):
    schedule = Schedule(
        planned(study, workspace, scale), workspace.store, open_search(workspace.searches)
    )
    local.run(schedule, order_in(workspace))
    assert schedule.complete


def ids(study, workspace, scale):
    return [trial.id for trial in planned(study, workspace, scale).trials]


def test_trials_are_those_of_a_scale_of_that_size_and_no_rung_changes_those_of_another(workspace):
    study = study_of(ladder_of())
    alone = replace(
        study, scales={"a": Scale(seeds=3, changes={"backbone.units": 8})}, base_arm="one"
    )
    assert ids(study, workspace, "s.8") == ids(alone, workspace, "a")
    more = study_of(ladder_of({"backbone.units": (2, 4, 5, 6, 8, 12, 16)}))
    for rung in WIDTHS:
        assert ids(study, workspace, f"s.{rung}") == ids(more, workspace, f"s.{rung}")
    record = planned(study, workspace, "s.8").record
    assert (record.key, record.one_of, record.part) == ("q@s.8", "s", "8")
    assert (record.rungs, record.sizes) == (("4", "6", "8", "12"), {"backbone.units": 8})
    assert [arm.compute for arm in record.arms] == [64e6, 64e6]
    pairs = {(trial.seed_index, trial.seed) for trial in record.trials}
    assert pairs == {(0, 1), (1, 2), (2, 3)}


def test_settings_follow_a_list_or_a_rule_in_words(workspace):
    listed = ladder_of({**SIZES, "optimizer.learning_rate": (4.0, 3.0, 2.0, 1.0)})
    rates = [
        planned(study_of(listed), workspace, f"s.{rung}").configs["two"].flat for rung in WIDTHS
    ]
    assert [rate["optimizer.learning_rate"] for rate in rates] == [4.0, 3.0, 2.0, 1.0]

    def by_width(values):
        return {"optimizer.learning_rate": 8 / values["backbone.units"]}

    ruled = study_of(ladder_of(transfer=by_width, rule="rate by 1/width"))
    plan = planned(ruled, workspace, "s.4")
    assert plan.configs["one"].flat["optimizer.learning_rate"] == 2.0
    assert plan.record.rule == "rate by 1/width"
    assert "Transferred from rung to rung: rate by 1/width." in plan.record.notes[0]

    def wrong(values):
        return 3

    with pytest.raises(StudyError, match=r"transfer = wrong returned 3"):
        planned(study_of(ladder_of(transfer=wrong, rule="none")), workspace, "s.4")


def test_each_rung_is_tuned_with_the_same_samplers(workspace):
    rate = {"field": "optimizer.learning_rate", "range": [0.01, 9], "scale": "log"}
    search = Search(space={"Rate": rate}, trials=2, synchronous=True, repeats=3)
    study = replace(study_of(ladder_of(), search=search), base={**BASE_WITHOUT_RATE})
    searches = [planned(study, workspace, f"s.{rung}").searches for rung in WIDTHS]
    assert [[one.seed for one in each if one.arm == "one"] for each in searches] == [[1, 2, 3]] * 4
    assert {one.fixed["backbone.units"] for one in searches[3]} == {12}


BASE_WITHOUT_RATE = {
    key: value
    for key, value in BASE.items()
    if key not in ("backbone.units", "optimizer.learning_rate")
}


def test_one_table_figure_page_and_status_are_over_all_rungs(workspace, tmp_path):
    study = study_of(ladder_of())
    for rung in WIDTHS:
        run(study, workspace, f"s.{rung}")
    store = workspace.store
    assert [one.record.part for one in open_parts(store, "q@s")] == ["4", "6", "8", "12"]
    shown = show_table(workspace, "q@s", "text")
    assert shown.startswith("q@s · 4 rungs") and shown.count("\ntwo  ") == 1
    assert "16M" in shown and "144M" in shown
    of_each = [line for line in show_status(workspace, "q@s").splitlines() if "Which?" in line]
    assert of_each == [f"q@s.{rung}: Which?" for rung in WIDTHS]
    titles = [one.title for one in sections_of(open_study(store, "q@s.6"), store)]
    assert "On each rung of the ladder, and over all" in titles
    assert "Over the rungs of the ladder" in titles
    assert report(workspace, "q@s", still=True).count("report.html") == 4
    published = publish(store, ["q@s"], tmp_path / "published")
    assert [record.key for record in published] == [f"q@s.{rung}" for rung in WIDTHS]
    files = Files(str(tmp_path), ("svg",))
    assert "ladder.svg" in plot(workspace, "q@s", (), files)
    with pytest.raises(ConfigError, match=r"Instead: ablate plot q@s\.12 deltas"):
        plot(workspace, "q@s", ("deltas",), files)
    assert "needs a ladder of which every rung" in plot(workspace, "q@s.6", ("ladder",), files)
    with pytest.raises(
        ConfigError, match=r"of a single rung\. Instead: ablate table q@s\.4 --seed"
    ):
        show_table(workspace, "q@s", "text", "seeds")


def test_every_rung_is_planned_and_shown(workspace, tmp_path):
    file = tmp_path / "four.py"
    file.write_text(
        "from ablate import Arm, Ladder, Scale, Study, table\n"
        f"study = Study(question='Which?', base={BASE!r}, base_arm='one', runner='noise',\n"
        "    design=table(Arm('one'), Arm('two', {'training.clip': 0.5})),\n"
        f"    scales={{'s': Scale(ladder=Ladder({SIZES!r}), seeds=3)}})\n"
    )
    shown = show_plan(str(file), None, workspace)
    assert shown.startswith("four@s: Which?\n")
    rows = re.findall(r"^(\d+) +(one|two) .* 0 of 3$", shown, re.M)
    assert rows == [(str(width), arm) for width in WIDTHS for arm in ("one", "two")]
    assert "Rung 6: backbone.units = 6 in every arm." in shown


def test_changes_and_replications_keep_the_rung_at_the_end_of_their_names(workspace):
    study, scale = overridden(study_of(ladder_of()), "s", Overrides(seeds=2))
    each = scales_of(scale, study.scale(scale)[1])
    assert each == [f"{scale}.{rung}" for rung in WIDTHS] and scale.startswith("s+")
    changed, one = overridden(study_of(ladder_of()), "s.6", Overrides(seeds=2))
    assert one == f"{scale}.6"
    assert planned(changed, workspace, one).record == planned(study, workspace, each[1]).record
    with pytest.raises(StudyError, match=r"--set backbone\.units would undo the ladder"):
        overridden(study_of(ladder_of()), "s", Overrides(values={"backbone.units": 3}))
    run(study_of(ladder_of()), workspace, "s.6")
    again, name = replicated(study_of(ladder_of()), "s.6", 1, workspace.store)
    assert planned(again, workspace, name).record.key == "q@s-replicate.6"


def rule(values):
    return {}


RATE = {"Rate": {"field": "optimizer.learning_rate", "range": [0.01, 9]}}


@pytest.mark.parametrize(
    ("ladder", "scale", "why"),
    [
        (ladder_of({"backbone.units": (4, 6, 8)}), {}, "a field with 4 values or more"),
        (ladder_of({}), {}, "a field with 4 values or more"),
        (ladder_of({**SIZES, "training.epochs": (1, 2)}), {}, "4 values, one for each rung"),
        (ladder_of({"backbone.units": (4, 6, 6, 8)}), {}, "4 different values"),
        (ladder_of({"a.b": ("a", "b", "c d", "e")}), {}, "4 different values"),
        (ladder_of(transfer=rule), {}, "transfer is given without rule"),
        (ladder_of(rule="by width"), {}, "rule is given without transfer"),
        (ladder_of(), {"corpora": ("ptb", "grammar")}, "exclude each other"),
        (ladder_of(), {"changes": {"backbone.units": 4}}, "the scale's changes set backbone"),
        (ladder_of({"training.clip": (1, 2, 3, 4)}), {}, "arm 'two' sets training.clip"),
        (ladder_of(), {"seeds": 5, "looks": (3, 5)}, "leave out either looks or ladder"),
        (
            ladder_of(transfer=rule, rule="none"),
            {"search": Search(space=RATE, trials=2)},
            "transfer and the scale's search",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name(ladder, scale, why):
    with pytest.raises(StudyError, match=why):
        study_of(ladder, **scale)


def test_names_and_compute_that_cannot_be_are_refused(workspace):
    with pytest.raises(StudyError, match=r"scale 's\.8' has the name that scale 's' gives to one"):
        replace(study_of(ladder_of()), scales={"s": Scale(ladder=ladder_of()), "s.8": Scale()})
    with pytest.raises(StudyError, match=r"one for each rung: s\.4, s\.6, s\.8, s\.12"):
        planned(study_of(ladder_of()), workspace, "s")
    nothing = ladder_of(compute=lambda values: 0)
    with pytest.raises(StudyError, match="operations of a seed's training, above 0"):
        planned(study_of(nothing), workspace, "s.4")
