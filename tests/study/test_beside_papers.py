"""How many published numbers can stand next to ours, by metric, besides validation and test
perplexities (which stood there from the start)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from ablate import Arm, Metric, Scale, Study, papers, setting, table, task
from ablate.compare.across.side_by_side import KNOWN_AS
from ablate.config import metrics, tasks
from ablate.config.resolve import resolve
from ablate.errors import StudyError
from ablate.papers import Cell
from ablate.study.file import load, shipped
from ablate.study.make_record import published_cells
from ablate.study.plan import make_plan

PLAIN = {("ppl", "valid"), ("ppl", "test"), ("bpc", "test")}
OF_TASKS = (metrics.BLEU, metrics.ROUGE_1, metrics.ROUGE_2, metrics.ROUGE_L, metrics.BRACKET_F1)


@dataclass(frozen=True, kw_only=True)
class NoConfig:
    unused: int = setting(1, doc="nothing", low=1)


def others() -> set[tuple[str, Cell]]:
    """Every other published number, with its paper."""
    every = {(paper, cell) for paper in papers.ids() for cell in papers.load(paper).cells}
    return {(paper, cell) for paper, cell in every if (cell.metric, cell.split) not in PLAIN}


def of_shipped_studies(data: str) -> set[tuple[str, Cell]]:
    """What the shipped studies show at scales that are comparable with their papers."""
    shown = set()
    studies = (load(file) for file in shipped().values())
    for study in (s for s in studies if s.metric or s.columns):
        for name in (name for name, scale in study.scales.items() if scale.published):
            plan = make_plan(study, name, data=data)
            of_study = (plan.record.metric, *plan.record.columns)
            for arm in (arm for arm in study.design.arms if arm.name in plan.configs):
                for metric in of_study:
                    cells = published_cells(study, arm, plan.configs[arm.name], metric)
                    shown |= {(study.paper, cell) for cell in cells.values()}
    return shown


def test_every_published_metric_is_known():
    assert {cell.metric for _, cell in others()} | {"ppl", "bpc"} == set(KNOWN_AS)
    assert len(others()) == 85, "80 of other metrics, and 5 training perplexities"


def test_the_shipped_studies_show_every_number_that_a_language_model_of_ours_can_have(
    data, texts_that_users_bring
):
    shown = of_shipped_studies(data) & others()
    assert Counter(cell.metric for _, cell in shown) == {
        "accuracy_percent": 8,
        "coefficient_of_variation": 8,
        "rank_of_log_prob_matrix": 6,
        "subspace_distance": 1,
        "params_diff_vs_IOG_millions": 2,
        "ppl": 5,
        "BLEU": 12,
        "ROUGE-1 F1": 3,
        "ROUGE-2 F1": 3,
        "ROUGE-L F1": 3,
        "bracketing_F1": 14,
    }
    names = {name for metric in OF_TASKS for name in metric.published}
    left = {cell.model for _, cell in others() - shown if cell.metric not in names}
    assert left == set()


@pytest.fixture
def translation(monkeypatch):
    """A task without a corpus, that reports all of these."""
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))
    task("translation", config=NoConfig, metrics=OF_TASKS)(lambda run: None)
    return resolve({"task": "translation"})


def study_of(*arms: Arm) -> Study:
    return Study(
        question="?",
        paper="takase2018doc",
        tables=("Table 9", "Table 10", "Table 11"),
        base={"task": "translation"},
        base_arm=arms[0].name,
        design=table(*arms),
        scales={"paper": Scale(published=True)},
    )


def test_a_task_of_ones_own_may_show_every_number_of_its_metric(translation):
    by_metric = {name: metric for metric in OF_TASKS for name in metric.published}
    cells = [cell for _, cell in others() if cell.metric in by_metric]
    assert len(cells) == 55
    for cell in cells:
        arm = Arm("ours", published=(cell.model, cell.variant, cell.corpus))
        found = published_cells(study_of(arm), arm, translation, by_metric[cell.metric])
        assert found == {"test": cell}


def test_of_several_corpora_a_task_says_which(translation):
    arm = Arm("ours", published=("EncDec", ""))
    with pytest.raises(StudyError, match=r"Expected: \(model, variant, corpus\), with a corpus of"):
        published_cells(study_of(arm), arm, translation, metrics.BLEU)
    wrong = Arm("ours", published=("EncDec", "", "IWSLT 2016 En-Dee"))
    with pytest.raises(StudyError, match="Did you mean 'IWSLT 2016 En-De'"):
        published_cells(study_of(wrong), wrong, translation, metrics.BLEU)


def test_a_number_of_the_training_text_is_none_of_a_split():
    """`published` of an arm once had a training perplexity beside its test perplexity."""
    study = load("irlm_ptb")
    arm = next(arm for arm in study.design.arms if arm.name == "IRLM DO")
    config = resolve({"model": "ngram", "corpus.name": "ptb"})
    assert published_cells(study, arm, config, metrics.PERPLEXITY).keys() == {"test"}
    assert published_cells(study, arm, config, metrics.TRAIN_PERPLEXITY)["train"].value == 38
    assert published_cells(study, arm, config, Metric("other")) == {}


def test_rouge_beside_published_cells_is_of_the_words_of_lins_program(data, texts_that_users_bring):
    plan = make_plan(load("doc_headlines"), "paper", data=data)
    chosen = {config["evaluator.generate.rouge_tokenizer"] for config in _flat(plan)}
    assert chosen == {"rouge-1.5.5"}
    small = make_plan(load("doc_headlines"), "laptop", data=data)
    assert {config["evaluator.generate.rouge_tokenizer"] for config in _flat(small)} == {"unicode"}


def _flat(plan):
    return [config.flat for config in plan.configs.values()]


def test_numbers_of_another_training_are_not_compared_with_its_paper(data, texts_that_users_bring):
    """The scale's note said so, and each number had a verdict: `not reproduced`."""
    for study in ("irlm_ptb", "column_norms", "irlm_timescales"):
        arms = make_plan(load(study), "adam", data=data).record.arms
        reasons = {arm.name: arm.not_comparable for arm in arms if not arm.name.startswith("KN5")}
        assert set(reasons.values()) == {"trained by Adam, for few epochs"}
        assert {arm.not_comparable for arm in arms if arm.name not in reasons} <= {""}
