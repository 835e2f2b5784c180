"""`Stage(control=True)`: the base arm gets the same stage without the treatment."""

from __future__ import annotations

import pytest

from ablate.errors import StudyError
from ablate.study.designs import table
from ablate.study.plan import make_plan
from ablate.study.study import Study
from ablate.study.words import Arm, Scale, Stage
from tests.support.small_studies import BASE

CHANGES = {
    "regularizer": "none",
    "gate": "iog",
    "gate.units": 4,
    "training.only_gate": True,
    "training.epochs": 5,
    "optimizer": "adam",
    "optimizer.learning_rate": 0.001,
}
GATE = Stage("gate", CHANGES)
BEFORE, AFTER = Stage("finetune", {"training.epochs": 2}), Stage("more", {"training.epochs": 3})


def gate(**words) -> Stage:
    return Stage("gate", CHANGES, control=True, **words)


def plan_of(data, *arms: Arm, **scale):
    study = Study(
        question="Which?",
        base=BASE,
        base_arm="plain",
        design=table(*arms),
        scales={"s": Scale(seeds=2, **scale)},
        name="q",
    )
    return make_plan(study, "s", data=data)


def stages(plan, arm):
    return [t.stage for t in plan.record.trials_of(arm) if t.seed_index == 0]


def last(plan, arm):
    (final,) = (t.id for t in plan.record.trials_of(arm) if t.final and t.seed_index == 0)
    return next(trial for trial in plan.trials if trial.id == final)


def test_the_base_arm_trains_as_long_without_the_gate(data):
    plan = plan_of(data, Arm("plain"), Arm("gated", then=(gate(),)))
    assert stages(plan, "plain") == stages(plan, "gated") == ["train", "gate"]
    plain, gated = last(plan, "plain").config.flat, last(plan, "gated").config.flat
    assert gated["gate"] == "iog" and gated["training.only_gate"]
    assert plain["gate"] == "none" and not plain["training.only_gate"]
    for same in ("training.epochs", "optimizer", "optimizer.learning_rate"):
        assert plain[same] == gated[same] == CHANGES[same]
    parents = [last(plan, arm).parent_ids() for arm in ("plain", "gated")]
    assert parents[0] == parents[1], "both go on from one training"


def test_without_the_word_nothing_changes(data):
    without = plan_of(data, Arm("plain"), Arm("gated", then=(GATE,)))
    assert stages(without, "plain") == ["train"]
    gated = plan_of(data, Arm("plain"), Arm("gated", then=(gate(),)))
    # Only that the plain arm's training no longer reads test differs.
    assert last(without, "gated").values == last(gated, "gated").values


def test_it_comes_where_the_treated_arm_has_it_and_only_the_compared_arm_gets_it(data):
    arms = (
        Arm("plain", then=(BEFORE, AFTER)),
        Arm("gated", then=(BEFORE, gate(), AFTER)),
        Arm("other", {"training.clip": 1.0}),
    )
    plan = plan_of(data, *arms)
    assert stages(plan, "plain") == ["train", "finetune", "gate", "more"]
    assert stages(plan, "other") == ["train"]
    assert stages(plan_of(data, *arms, arms=["other"]), "plain") == ["train", "finetune", "more"]


def test_the_scales_changes_of_the_stage_hold_for_both(data):
    shorter = {"gate": {"training.epochs": 1}}
    plan = plan_of(data, Arm("plain"), Arm("gated", then=(gate(),)), stage_changes=shorter)
    assert {last(plan, arm).config.num_epochs for arm in ("plain", "gated")} == {1}


def test_two_arms_may_share_a_control_and_not_differ_in_it(data):
    hidden = Stage("gate", {**CHANGES, "gate": "iog_hidden"}, control=True)
    plan = plan_of(data, Arm("plain"), Arm("a", then=(gate(),)), Arm("b", then=(hidden,)))
    assert stages(plan, "plain") == ["train", "gate"]
    longer = Stage("gate", {**CHANGES, "training.epochs": 6}, control=True)
    with pytest.raises(StudyError, match="two arms give it a stage 'gate' as their control"):
        plan_of(data, Arm("plain"), Arm("a", then=(gate(),)), Arm("b", then=(longer,)))


def test_the_stages_before_must_be_the_base_arms_too(data):
    with pytest.raises(StudyError, match=r"does not have the stages before it \(finetune\)"):
        plan_of(data, Arm("plain"), Arm("gated", then=(BEFORE, gate())))


@pytest.mark.parametrize("words", [{"kind": "evaluate"}, {"over": "seeds"}])
def test_only_training_of_each_seed_has_a_control(words):
    with pytest.raises(StudyError, match="control=True gives the compared arm the same training"):
        gate(**words)


def test_a_stage_of_every_arm_needs_none(data):
    with pytest.raises(StudyError, match="every arm of the scale has it"):
        plan_of(data, Arm("plain"), stages=(gate(),))
