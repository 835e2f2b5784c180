"""What the studies take from their papers' texts: each reading, in the arms as they resolve."""

from __future__ import annotations

from typing import Any

import pytest

from ablate import papers
from ablate.config.resolve import resolve
from ablate.space import space
from ablate.space.space import Space
from ablate.study.arms import arm_values
from ablate.study.file import load
from ablate.study.make_record import arm_stages
from ablate.study.plan import make_plan
from ablate.study.words import Arm
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
    """Section 2.2, of every RNN; where there are blocks, beside what a diagonal starts at."""
    for scale in ("laptop", "paper"):
        result = {
            name: values["backbone.recurrent_range"]
            for name, values in arms(study, scale).items()
            if values["backbone"] in ("elman", "skipping_rnn")
        }
        assert result and set(result.values()) == {0.001}, result


@pytest.mark.parametrize("scale", ["laptop", "ptb", "paper"])
def test_the_quoted_rnn_over_letters_is_rectified_and_clipped(scale):
    """001, Section 2.2, of the RNN that Table 1a quotes; its own one is not clipped."""
    result = {
        name: (values["backbone.activation"], values["training.clip"])
        for name, values in arms("irlm_characters", scale).items()
        if values["backbone"] == "elman"
    }
    assert result == {
        "RNN": ("smoothed_relu", None),
        "RNN of 512 units, quoted": ("relu", 1.0),
    }


@pytest.mark.parametrize("column", ["words", "topics"])
def test_other_rnns_of_the_toolkit_keep_its_sigmoids(column):
    values = space.load("mikolov2011rnn").values(column)
    assert values["backbone.activation"] == "sigmoid" and "training.clip" not in values


# Valid and test perplexities that the RHN's authors print -> depth, tied.
OF_ZILLY = {
    (71.2, 68.5): (8, False),
    (67.9, 65.4): (10, True),
    (68.1, 66.0): (9, True),
    (72.8, 71.3): (8, False),  # of 2016, of which no settings are known: the recipe of 2017
}


@pytest.mark.parametrize("study", ["doc_comparison", "iog", "tying_table2"])
def test_a_quoted_rhn_has_the_depth_at_which_its_authors_have_its_numbers(study):
    """Whatever depth the page that quotes it prints."""
    words = load(STUDIES / f"{study}.py")
    cells = papers.load(words.paper).cells
    values = arms(study)
    seen = 0
    for arm in words.design.arms:
        printed = {cell.split: cell.value for cell in cells if cell.quoted and of(cell, arm)}
        numbers = printed.get("valid"), printed.get("test")
        if not (arm.recipe or "").startswith("zilly2017rhn") or numbers not in OF_ZILLY:
            continue
        built = values[arm.name]["backbone.depth"], values[arm.name]["head.tied"]
        assert built == OF_ZILLY[numbers], arm.name
        seen += 1
    assert seen == {"doc_comparison": 2, "iog": 1, "tying_table2": 1}[study]


def of(cell: papers.Cell, arm: Arm) -> bool:
    return (cell.model, cell.variant) == arm.published and cell.metric == "ppl"


@pytest.mark.parametrize(
    "study", ["doc_comparison", "doc_rank", "doc_reruns", "dual_table2", "iog"]
)
def test_a_fine_tuned_awd_has_the_windows_of_its_finetune_py(study):
    """At most 10 steps longer than the 70, where main.py has no cap. Of the code of fraternal
    dropout no such cap is known."""
    words = load(STUDIES / f"{study}.py")
    scale = words.scales["paper"]
    caps = [
        stage.changes.get("training.max_window_excess")
        for arm in words.design.arms
        for stage in arm_stages(scale, arm)
        if (arm.recipe or words.base).startswith("merity2018awd")
        and stage.changes.get("optimizer.trigger") == "at_once"
        and not any("fraternal" in name for name in arm.changes)
    ]
    assert caps and set(caps) == {10}


@pytest.mark.parametrize("column", ["ptb-500", "wikitext2-100", "wikitext2-2000"])
def test_the_cache_of_grave_grows_from_nothing(column):
    """AWD-LSTM's script waits for a full window, and 000's own rows are read as it."""
    field = "evaluator.cache.start"
    assert space.load("grave2017_cache").values(column)[field] == "growing"
    assert space.load("takase2017iog_text4").values("awd-ptb")[field] == "full_window"


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


def test_dynamic_evaluation_of_002_uses_the_validation_text_too():
    """A search uses validation, before which no text is read."""
    field = "evaluator.dynamic.through_valid"
    assert space.load("oliva2021dual_text4_2_evaluation").values()[field] is True
    every = space.load("oliva2021dual_table3_4")
    assert every.values("ptb", {"Dynamic evaluation": True})[field] is True
    assert field not in every.values("ptb", {"Dynamic evaluation": False})


def searched(study: str, arm: str) -> Space:
    """The space over which an arm's finished model is searched."""
    arms = {arm.name: arm for arm in load(STUDIES / f"{study}.py").design.arms}
    (stage,) = arms[arm].then
    assert stage.search is not None
    return space.load(stage.search.space)


def test_table_1_of_002_is_evaluated_over_the_rows_of_table_4():
    """Only the last row of Table 2 was searched over windows up to 70, with two rows more."""
    table_1 = searched("dual_table1", "Dual LSTM, dynamic")
    table_4 = space.load("oliva2021dual_table3_4")
    names = ("Learning rate eval", "Seq len eval", "Clipnorm eval")
    assert tuple(row.name for row in table_1.rows if row.printed) == names
    for name in names:
        assert table_1[name].domain == table_4[name].domain
        assert table_1[name].description == table_4[name].description
    assert table_1["Seq len eval"].domain.ends == (5, 50)
    settled = {"evaluator.dynamic.rule": "nadam", "evaluator.dynamic.through_valid": True}
    assert table_1.values() == settled
    table_2 = searched("dual_search", "dynamic, tuned")
    assert table_2["sequence length at eval"].domain.ends == (5, 70)


def test_what_is_tuned_of_dynamic_evaluation_differs_in_nothing_else():
    """Both follow the validation text before test, as 002 has it."""
    arms = {arm.name: arm for arm in load(STUDIES / "dual_search.py").design.arms}
    plain, tuned = arms["dynamic"].then[0], arms["dynamic, tuned"].then[0]
    found = {**tuned.changes, **space.load(tuned.search.space).values()}
    settled = {key: value for key, value in plain.changes.items() if key in found}
    assert settled == found
    assert found["evaluator.dynamic.through_valid"] is True


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
