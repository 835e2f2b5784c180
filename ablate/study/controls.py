"""The same stage without the treatment, for the arm that a treated arm is compared with.

    Arm("gated", then=(Stage("gate", {"gate": "iog", "training.epochs": 5}, control=True),))

The gated arm trains for five more epochs than its base, and may be better for these alone. With
`control=True`, the base arm trains for them too: with the stage's changes, except those of what is
treated. Treated are the parts of the model, and the loss, that the stage changes: every field of
such a slot is left out, and with a gate `training.only_gate`, which would leave nothing to train.
What says how the stage trains (epochs, batches, optimizer, schedule, regularizers) stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ablate.config.registry import single_slots
from ablate.errors import StudyError
from ablate.study.study import Study
from ablate.study.words import Arm, Scale, Stage, Values

HOW = ("optimizer", "schedule")  # slots that say how a stage trains, not what
ONLY_GATE = "training.only_gate"


def with_controls(study: Study, scale: Scale, arm: Arm) -> tuple[Stage, ...]:
    """An arm's own stages, with those that it gets as the control of other arms."""
    stages = arm.then
    given: dict[str, Stage] = {}
    for treated in _compared_with(study, scale, arm):
        for position, stage in enumerate(treated.then):
            if not stage.control:
                continue
            control = _without_treatment(stage)
            if given.setdefault(stage.name, control) != control:
                raise StudyError(
                    f"arm '{arm.name}': two arms give it a stage '{stage.name}' as their control, "
                    "and these differ. Instead: compare one of them with another arm (against=)."
                )
            if control not in stages:
                _check_before(arm, treated, position)
                stages = (*stages[:position], control, *stages[position:])
    return stages


def _compared_with(study: Study, scale: Scale, arm: Arm) -> Iterator[Arm]:
    """The arms of the scale that are compared with this one."""
    chosen = None if scale.arms is None else {study.base_arm, *scale.arms}
    for other in study.design.arms:
        here = chosen is None or other.name in chosen
        if here and other.name != arm.name and (other.against or study.base_arm) == arm.name:
            yield other


def _without_treatment(stage: Stage) -> Stage:
    treated = treated_slots(stage.changes)
    left_out = {ONLY_GATE} if "gate" in treated else set()
    changes = {
        key: value
        for key, value in stage.changes.items()
        if _slot(key) not in treated and key not in left_out
    }
    return replace(stage, changes=changes, control=False)


def treated_slots(changes: Values | Mapping[str, object]) -> set[str]:
    """The parts of the model, and the loss, that a stage changes."""
    return {_slot(key) for key in changes} & set(single_slots()) - set(HOW)


def _slot(key: str) -> str:
    return key.partition(".")[0]


def _check_before(arm: Arm, treated: Arm, position: int) -> None:
    """Check that the base arm has the stages that come before the one it shall be given."""
    before = _plain(treated.then[:position])
    if _plain(arm.then[:position]) != before:
        names = ", ".join(stage.name for stage in before)
        raise StudyError(
            f"arm '{treated.name}': stage '{treated.then[position].name}' has control=True, and "
            f"'{arm.name}', which it is compared with, does not have the stages before it "
            f"({names}). Instead: give '{arm.name}' the same stages before."
        )


def _plain(stages: Sequence[Stage]) -> list[Stage]:
    return [replace(stage, control=False) for stage in stages]
