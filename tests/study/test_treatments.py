"""A search leaves alone what the study asks about: a control does not take up the treatment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ablate import Arm, Scale, Search, Study, table
from ablate.commands.plan import show_plan
from ablate.store.workspace import open_workspace
from ablate.study.file import load
from ablate.study.plan import Plan, make_plan
from ablate.tune.search.arm import ArmSearch, open_storage

DROP = "regularizer.weight_drop.rate"
BASE = {
    "corpus.train_tokens": 5000,
    "backbone": "lstm",
    "backbone.units": 8,
    "embedding.size": 8,
    "head": "softmax",
    "optimizer": "sgd",
    "optimizer.learning_rate": 1.0,
}
SPACE = """
paper = "test"
tables = ["T"]
["Rate"]
field = "optimizer.learning_rate"
range = [1.0, 10.0]
["Weight drop"]
field = "regularizer.weight_drop.rate"
range = [0.1, 0.5]
["Gate"]
field = "gate"
choices = ["none", "iog"]
["Units of the gate"]
field = "gate.units"
choices = [2, 4]
when = "Gate = iog"
"""


@pytest.fixture
def planned(tmp_path: Path, data: str):
    file = tmp_path / "space.toml"
    file.write_text(SPACE)

    def plan(*arms: Arm, base: dict[str, Any] | None = None, **words: Any) -> Plan:
        study = Study(
            question="Which?",
            base={**BASE, **(base or {})},
            base_arm=arms[0].name,
            design=table(*arms),
            scales={"s": Scale(search=Search(space=str(file), trials=4, **words))},
            name="tuned",
        )
        return make_plan(study, data=data)

    return plan


def sampled(plan: Plan, tmp_path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the values of the search trials of each arm."""
    result = {}
    for planned in plan.searches:
        folder = tmp_path / planned.arm
        folder.mkdir(exist_ok=True)
        search = ArmSearch(planned, plan, open_storage(f"folder:{folder}", plan.record.key))
        result[planned.arm] = [dict(search._ask_one().values) for _ in range(4)]
    return result


def test_a_control_is_not_searched_over_the_treatment(planned, tmp_path):
    none = {"gate": "none"}
    plan = planned(Arm("without", none), Arm("with", {**none, DROP: 0.3}))
    result = sampled(plan, tmp_path)
    assert [values.get(DROP, 0.0) for values in result["without"]] == [0.0] * 4
    assert [values[DROP] for values in result["with"]] == [0.3] * 4
    for trials in result.values():
        assert len({values["optimizer.learning_rate"] for values in trials}) == 4
    assert plan.record.notes == (
        f"{DROP} tells arms apart, and is not searched in 'without'.",
        "Each search of 4 trials is random: tpe draws its first 10 at random (n_startup_trials, "
        "in options=).",
    )


def test_a_control_keeps_the_value_that_it_has(planned, tmp_path):
    arms = Arm("little"), Arm("much", {DROP: 0.4})
    plan = planned(*arms, base={DROP: 0.2, "gate": "none"})
    result = sampled(plan, tmp_path)
    assert {values[DROP] for values in result["little"]} == {0.2}
    assert f"{DROP} tells arms apart, and is not searched in 'little' (0.2)." in plan.record.notes


def test_nor_is_it_over_a_technique_that_another_arm_chooses(planned, tmp_path):
    plan = planned(Arm("plain"), Arm("gated", {"gate": "iog"}))
    result = sampled(plan, tmp_path)
    assert {values.get("gate", "none") for values in result["plain"]} == {"none"}
    assert not any("gate.units" in values for values in result["plain"])
    assert {values["gate"] for values in result["gated"]} == {"iog"}
    assert all(values["gate.units"] in (2, 4) for values in result["gated"])


def test_nor_over_one_that_the_recipe_of_another_arm_has(planned, tmp_path, data):
    recipe = tmp_path / "gated.toml"
    rows = {**BASE, "gate": "iog", "gate.units": 2}
    lines = [f'["{k}"]\nfield = "{k}"\nvalue = {v!r}\n'.replace("'", '"') for k, v in rows.items()]
    recipe.write_text('paper = "test"\ntables = ["T"]\n' + "".join(lines))
    result = sampled(planned(Arm("plain"), Arm("gated", recipe=str(recipe))), tmp_path)
    assert {values.get("gate", "none") for values in result["plain"]} == {"none"}
    assert {values["gate"] for values in result["gated"]} == {"iog"}


def test_what_arms_only_switch_off_is_searched_in_those_that_have_it(planned, tmp_path):
    plan = planned(Arm("off", {DROP: 0.0}), Arm("on"), base={DROP: 0.2, "gate": "none"})
    result = sampled(plan, tmp_path)
    assert len({values[DROP] for values in result["on"]}) == 4
    assert {values[DROP] for values in result["off"]} == {0.0}
    assert f"{DROP} is set by 'off', and searched in 'on'." in plan.record.notes


def test_another_search_has_another_name_in_the_records_of_the_sampler(planned):
    """A search that was started when controls searched over the treatment is not resumed."""
    without, treated = planned(Arm("without"), Arm("with", {DROP: 0.3})).searches
    assert without.left and without.key != replace(without, left={}).key
    assert not treated.left


def test_the_plan_tells_it(tmp_path, data):
    (tmp_path / "space.toml").write_text(SPACE)
    (tmp_path / "asks.py").write_text(
        "from ablate import Arm, Scale, Search, Study, table\n"
        "study = Study(question='Which?', base_arm='without', base=" + repr(BASE) + ",\n"
        f"    design=table(Arm('without'), Arm('with', {{'{DROP}': 0.3}})),\n"
        "    scales={'s': Scale(search=Search(space='space.toml', trials=4))})\n"
    )
    text = show_plan(str(tmp_path / "asks.py"), None, open_workspace(str(tmp_path / "ws")))
    assert f"{DROP} tells arms apart, and is not searched in 'without'." in text
    assert load(tmp_path / "asks.py").design.notes == ()
