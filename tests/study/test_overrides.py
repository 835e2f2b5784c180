"""What `--seeds`, `--set` and `--arms` make of a study: another scale, and the same trials."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ablate import Arm, Inherit, Scale, Search, Study, table
from ablate.errors import ConfigError, StudyError
from ablate.store import study_record
from ablate.study.overrides import Overrides, overridden, read_values
from ablate.study.plan import make_plan
from tests.support.small_studies import BASE

STUDY = Study(
    question="What changes?",
    name="q",
    runner="stand_in",
    base={**BASE, "training.epochs": 3},
    base_arm="plain",
    design=table(
        Arm("plain"),
        Arm("wide", {"backbone.units": 12}),
        Arm("wider", {"backbone.units": 16}, against="wide"),
        Arm("[odd]", {"backbone.units": 9}),
    ),
    scales={"s": Scale(seeds=4), "other": Scale(seeds=2)},
)


def changed(study=STUDY, scale=None, **changes):
    return overridden(study, scale, Overrides(**changes))


def plan(study, scale, workspace):
    return make_plan(study, scale, data=workspace.data)


def test_it_is_a_study_of_its_own_that_says_what_was_changed(workspace):
    study, scale = changed(seeds=2, values={"training.epochs": 2}, arms=("wide",))
    record = plan(study, scale, workspace).record
    assert record.key.startswith("q@s+") and record.key != "q@s"
    assert record.changed == "--seeds 2 --set training.epochs=2 --arms wide"
    assert [arm.name for arm in record.arms] == ["plain", "wide"] and record.num_seeds == 2
    study, other = changed(seeds=3)
    assert other != scale
    assert study.scales["s"] is STUDY.scales["s"]


def test_ids_change_exactly_where_a_trial_computes_something_else(workspace):
    whole = plan(STUDY, "s", workspace)
    fewer = plan(*changed(seeds=2, arms=("wide",)), workspace)
    assert {trial.id for trial in fewer.trials} < {trial.id for trial in whole.trials}
    shorter = plan(*changed(values={"training.epochs": 2}), workspace)
    assert {t.id for t in shorter.trials}.isdisjoint(t.id for t in whole.trials)
    assert {t.config.num_epochs for t in shorter.trials} == {2}


def test_changes_that_change_nothing_leave_the_key():
    assert changed(seeds=4) == (STUDY, "s")
    assert changed(scale="other") == (STUDY, "other")


@pytest.mark.parametrize(
    ("patterns", "arms"),
    [
        (["wid*"], ("plain", "wide", "wider")),
        (["wider"], ("plain", "wide", "wider")),  # it is compared with `wide`
        (["[odd]"], ("plain", "[odd]")),  # a name, though a pattern could look like this
        (["plain"], ("plain",)),
        (["wide", "?odd?"], ("plain", "wide", "[odd]")),
    ],
)
def test_arms_keep_what_they_need(patterns, arms):
    study, scale = changed(arms=patterns)
    assert study.scales[scale].arms == arms


def test_an_arm_keeps_the_one_whose_winner_it_starts_from():
    search = Search(space="x", trials=2, inherit={"wider": Inherit("[odd]", over=["r"])})
    study, scale = changed(replace(STUDY, scales={"s": Scale(search=search)}), arms=["wider"])
    assert study.scales[scale].arms == ("plain", "wide", "wider", "[odd]")


def test_a_value_wins_over_the_scales_and_what_follows_from_it(workspace):
    scale = Scale(
        seeds=1,
        changes={"training.epochs": 5},
        adapt=lambda values: {"training.epochs": 2 * values["training.epochs"], "training.clip": 2},
    )
    base = replace(STUDY, scales={"s": scale})
    (trial, *_) = plan(*changed(base, values={"training.epochs": 7}), workspace).trials
    assert trial.config.num_epochs == 7 and trial.config.flat["training.clip"] == 2
    brief = replace(STUDY, scales={"s": Scale(seeds=1, brief=True)})
    (trial, *_) = plan(*changed(brief, values={"training.epochs": 7}), workspace).trials
    assert trial.config.num_epochs == 7


def test_a_value_that_arms_differ_in_is_refused():
    with pytest.raises(StudyError, match=r"--set backbone\.units would undo .* 'wide', 'wider'"):
        changed(values={"backbone.units": 3})
    study, scale = changed(values={"backbone.units": 3}, arms=["plain"])
    assert study.scales[scale].changes == {"backbone.units": 3}


def test_an_unknown_arm_and_a_pair_without_a_value_are_refused():
    with pytest.raises(StudyError, match=r"--arms: unknown arm 'wid'. Did you mean 'wide'"):
        changed(arms=["wid"])
    for pair in ("training.epochs", "=3", "x="):
        with pytest.raises(ConfigError, match=r"Expected: FIELD=VALUE"):
            read_values([pair])


def test_values_are_written_as_in_toml_and_text_needs_no_quotes():
    pairs = ["a=2", "b=0.5", "c=true", "d=[1, 2]", "e=adam", 'f="x y"', "g=2020-01-01", "h=1e-3"]
    values = read_values(pairs)
    assert list(values.values()) == [2, 0.5, True, [1, 2], "adam", "x y", "2020-01-01", 0.001]
    words = Overrides(values=values).words
    assert read_values(words[1::2]) == values


def test_a_study_is_found_by_its_file_and_the_one_without_changes_first(tmp_path, workspace):
    store, file = workspace.store, tmp_path / "q.py"
    file.write_text("")
    study, scale = changed(replace(STUDY, file=str(file)), seeds=2)
    with pytest.raises(ConfigError, match=r"no study of the file .*q\.py has been run yet"):
        study_record.read(store, str(file))
    study_record.write(store, plan(study, scale, workspace).record)
    assert study_record.read(store, str(file)).num_seeds == 2
    study_record.write(store, plan(study, "s", workspace).record)
    assert study_record.read(store, str(file)).key == study_record.read(store, "q").key == "q@s"
    study_record.write(store, plan(study, "other", workspace).record)
    with pytest.raises(ConfigError, match=r"several scales"):
        study_record.read(store, str(file))
    with pytest.raises(ConfigError, match=r"unknown study or study file"):
        study_record.read(store, "else.py")
