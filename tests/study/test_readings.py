"""What the studies take from their papers' texts: each reading, in the arms as they resolve."""

from __future__ import annotations

from typing import Any

import pytest

from ablate.config.resolve import resolve
from ablate.space import space
from ablate.study.arms import arm_values
from ablate.study.file import load
from ablate.study.plan import make_plan
from tests.support import places

STUDIES = places.STUDIES
NORM = "regularizer.column_norm"
BALANCE = "regularizer.mixture_balance.weight"


def arms(study: str, scale: str = "paper") -> dict[str, dict[str, Any]]:
    """Every value of each arm, by the arm's name; n-gram models are left out."""
    result = load(STUDIES / f"{study}.py")
    scales = result.scales[scale]
    resolved = {arm.name: resolve(arm_values(result, scales, arm)) for arm in result.design.arms}
    return {name: config.flat for name, config in resolved.items() if config.kind.assembles}


OF_INAN = [
    (study, scale)
    for study in ("tying_table1", "tying_table2", "tying_predictions")
    for scale in ("laptop", "paper")
]


@pytest.mark.parametrize(("study", "scale"), [*OF_INAN, ("doc_comparison", "paper_wikitext-2")])
def test_tied_arms_of_inan_have_no_output_bias(study, scale):
    """Section 4: W = L', b = 0. An untied arm keeps its bias."""
    ours = {
        name: values["head.bias"]
        for name, values in arms(study, scale).items()
        if ("VD-LSTM" in name and "Gal" not in name) or "Inan" in name
    }
    assert ours
    tied = ("+RE", "REAL", "+ WT + AL")
    assert ours == {name: not any(word in name for word in tied) for name in ours}


def test_a_search_leaves_the_bias_of_a_tied_arm_alone(data):
    plan = make_plan(load(STUDIES / "tying_table1.py"), "paper", data=data)
    assert len({search.arm for search in plan.searches}) == 12
    for search in plan.searches:
        assert search.fixed.get("head.bias", True) is not search.fixed["head.tied"]


@pytest.mark.parametrize(("scale", "units"), [("paper", [0, 384]), ("laptop", [0, 24])])
def test_long_units_alone_answer_where_001_has_them(scale, units):
    """Section 5.3: the LCUs, and the RNN's block of 384, trained or (our reading) fixed."""
    for name, values in arms("sentence_completion", scale).items():
        long = name in ("IRLM (LCUs)", "RNN (384 block)", "RNN (echo-state block)")
        score = values["evaluator.completion.score"], values["evaluator.completion.units"]
        assert score == (("long_units", units) if long else ("log_probability", None)), name


@pytest.mark.parametrize(
    "study", ["irlm_characters", "irlm_text8", "momentum", "sentence_completion"]
)
def test_001_always_anneals(study):
    """Section 4: annealing was always used, not for Penn Treebank alone."""
    for name, values in arms(study).items():
        annealing = values["optimizer"], values["optimizer.schedule"], values["optimizer.decay"]
        assert annealing == ("sgd", "validation", 2.0), name


@pytest.mark.parametrize(
    "study", ["irlm_characters", "irlm_text8", "irlm_ptb", "sentence_completion"]
)
def test_recurrent_weights_of_001_start_close_to_0(study):
    """Section 2.2, of every RNN; where there are blocks, beside what a diagonal starts at. The RNN
    of sigmoids is a quoted one, with another paper's settings."""
    for scale in ("laptop", "paper"):
        result = {
            name: values["backbone.recurrent_range"]
            for name, values in arms(study, scale).items()
            if values["backbone"] in ("elman", "skipping_rnn")
            and values.get("backbone.activation") != "sigmoid"
        }
        assert result and set(result.values()) == {0.001}, result


@pytest.mark.parametrize("study", ["doc_reruns", "doc_dropout"])
def test_the_balance_penalty_is_part_of_doc_alone(study):
    """003, Section 5.3; Table 6 gives MoS DOC's dropout rates and nothing else of it."""
    result = {(v["head"], v.get(BALANCE, 0)) for v in arms(study).values()}
    assert result - {("softmax", 0)} == {("doc", 0.001), ("mos", 0)}


def test_the_rerun_mos_differs_from_doc_in_head_and_penalty():
    doc, mos = (arms("doc_reruns")[name] for name in ("DOC", "MoS, DOC's dropout"))
    differ = {key for key in doc.keys() & mos.keys() if doc[key] != mos[key]}
    assert differ == {"head", "head.experts"}
    only_one_has = {key.rpartition(".")[0] for key in doc.keys() ^ mos.keys()}
    assert only_one_has - {"head"} == {"regularizer.mixture_balance"}


@pytest.mark.parametrize("name", ["oliva2021dual_table1", "oliva2021dual_table3_4"])
def test_the_contradiction_about_capitals_is_recorded(name):
    """002: Section 3.1 keeps WikiText-2's capitals; its parameter counts do not
    (`test_parameter_counts.py`)."""
    row = space.load(name)["Lower case"]
    assert row.at("wikitext-2").domain.value is True
    assert "section 3.1" in row.source and "28,912" in row.source and "33,278" in row.source


def test_dynamic_evaluation_of_002_uses_the_validation_text_too():
    """A search uses validation, before which no text is read."""
    field = "evaluator.dynamic.through_valid"
    assert space.load("oliva2021dual_text4_2_evaluation").values()[field] is True
    every = space.load("oliva2021dual_table3_4")
    assert every.values("ptb", {"Dynamic evaluation": True})[field] is True
    assert field not in every.values("ptb", {"Dynamic evaluation": False})


@pytest.mark.parametrize("name", ["oliva2021dual_table3_4", "oliva2021dual_text4_2"])
def test_masks_of_002_are_said_to_be_held_over_the_window(name):
    result = space.load(name)
    for row in ("Rec. input Drop.", "Rec. Drop.", "Rec. internal Drop.", "Rec. output Drop."):
        assert result[row].field.startswith("regularizer.variational_dropout.")  # which holds them
        assert "ours: one mask for all steps of a window" in result[row].note


def test_an_arm_is_judged_by_the_average_over_masks():
    """001, Section 4 defines the masked model's P so; the mean network is our reading."""
    study = load(STUDIES / "irlm_ptb.py")
    best, averaged = (
        next(arm for arm in study.design.arms if arm.name == name)
        for name in ("IRLM DO&CN", "IRLM, averaged masks")
    )
    assert (averaged.changes, averaged.rows, averaged.against) == (
        best.changes,
        best.rows,
        best.name,
    )
    assert averaged.published == best.published
    (stage,) = averaged.then
    assert (stage.kind, stage.changes["evaluator"]) == ("evaluate", "monte_carlo")
    assert all(averaged.name in study.scales[scale].arms for scale in ("paper", "adam"))


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_the_words_of_section_6_2_are_drawn_for_each_run(scale):
    for name, values in arms("tying_subspace", scale).items():
        drawn = values["corpus.train_tokens"], values["corpus.train_slice"]
        assert drawn == (20_000, "random"), name


def test_both_readings_of_a_row_of_l_have_an_arm():
    """004, Section 6.2: "each row" of L, which is d x |V|, has norm 1."""
    result = {
        name: (values[f"{NORM}.rows"], values[f"{NORM}.row"])
        for name, values in arms("tying_subspace").items()
    }
    literal = "beta 1, tau 10, rows are units"
    assert result.pop(literal) == (True, "unit")
    assert set(result.values()) == {(True, "word")}
