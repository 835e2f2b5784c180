"""Settings that an arm keeps when it changes the optimizer, and that nobody set for the new one.

Fields that both optimizers have remain (`merge`), but may mean another thing: AdamW's weight decay,
taken as SGD's, can keep a model from learning anything. So a plan names them.
"""

from __future__ import annotations

from typing import Any

from ablate.config import fields, registry
from ablate.config.merge import merge
from ablate.config.resolve import kind_of
from ablate.study.arms import base_values, scale_values
from ablate.study.planned import Plan
from ablate.study.words import Arm

SLOT = "optimizer"
SHOWN = 3  # arms that a sentence names


def kept_settings(plan: Plan) -> list[str]:
    """Return a sentence for each optimizer in the place of another: what it keeps of that one."""
    arms: dict[tuple[str, str, str], list[str]] = {}
    for arm in plan.study.design.arms:
        before = _before(plan, arm)
        if kept := _kept(plan, arm, before):
            said = ", ".join(f"{name} = {value}" for name, value in kept.items())
            arms.setdefault((before[SLOT], arm.changes[SLOT], said), []).append(f"'{arm.name}'")
    return [
        f"{_listed(names)}: {new}, in place of {old}, keeps what was set for {old}: {kept}. Set it "
        "in the arm if it should be another."
        for (old, new, kept), names in arms.items()
    ]


def _before(plan: Plan, arm: Arm) -> dict[str, Any]:
    """The values of the recipe and the scale, to which an arm applies its changes."""
    base = base_values(plan.study, plan.scale, arm.recipe or plan.study.base, arm.rows)
    return merge(base, scale_values(plan.scale, kind_of(base, arm.name), base))


def _kept(plan: Plan, arm: Arm, before: dict[str, Any]) -> dict[str, Any]:
    """The fields of the replaced optimizer that the arm's own has, neither set nor searched."""
    new = arm.changes.get(SLOT)
    if SLOT not in before or new is None or new == before[SLOT]:
        return {}
    spaces = (search.space for search in plan.searches if search.arm == arm.name)
    set_for_it = {*arm.changes, *(row.field for space in spaces for row in space.rows)}
    its_own = fields.describe(registry.get(SLOT, str(new), arm.name).config)
    default = {f"{SLOT}.{field.name}": field.default for field in its_own}
    return {
        name: value
        for name, value in before.items()
        if name in default and name not in set_for_it and value != default[name]
    }


def _listed(arms: list[str]) -> str:
    more = f" and {len(arms) - SHOWN} more" if len(arms) > SHOWN else ""
    return ", ".join(arms[:SHOWN]) + more
