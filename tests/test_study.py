"""The designs a study file can be written in."""

from __future__ import annotations

from ablate.study import factorial, grid, leave_one_out, one_at_a_time

FACTORS = {
    "head": {"softmax": {"head": "softmax"}, "mos": {"head": "mos", "head.experts": 3}},
    "drop": {
        "0": {"regularizer.weight_drop.rate": 0.0},
        "0.5": {"regularizer.weight_drop.rate": 0.5},
    },
}
SPACE = """
paper = "none"
tables = ["T"]
["Layers"]
field = "backbone.num_layers"
choices = [1, 2]
["Rate"]
field = "optimizer.learning_rate"
range = [1.0, 3.0]
["Clip"]
field = "training.clip"
value = 0.25
"""


def test_one_at_a_time_has_the_base_and_each_level_alone():
    design = one_at_a_time(FACTORS)
    assert design.arms[0].name == "base"
    assert len(design.arms) == 5
    assert design.arms[2].changes == {"head": "mos", "head.experts": 3}


def test_factorial_has_every_combination_with_its_levels():
    design = factorial(FACTORS)
    assert len(design.arms) == 4
    last = design.arms[-1]
    assert last.levels == {"head": "mos", "drop": "0.5"}
    assert last.changes == {"head": "mos", "head.experts": 3, "regularizer.weight_drop.rate": 0.5}


def test_leave_one_out_has_everything_and_each_removal():
    design = leave_one_out({"weight drop": {"regularizer.weight_drop.rate": 0.0}})
    assert [arm.name for arm in design.arms] == ["everything", "without weight drop"]


def test_a_grid_enumerates_a_space(tmp_path):
    file = tmp_path / "space.toml"
    file.write_text(SPACE)
    design = grid(str(file), points=3)
    assert len(design.arms) == 1 + 2 * 3
    assert design.arms[-1].levels == {"Layers": "2", "Rate": "3.0"}
    assert design.arms[-1].changes["training.clip"] == 0.25
