"""Metrics of evaluators as columns, and as what decides; `Study(measure=...)`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ablate import Arm, Scale, Search, Stage, Study, table
from ablate.config.metrics import BITS, BITS_PER_BYTE, MORE_PARAMETERS, PERPLEXITY, VARIATION
from ablate.config.resolve import resolve
from ablate.engine.run import _floor, run
from ablate.errors import StudyError
from ablate.store import journal as journals
from ablate.study.plan import make_plan
from tests.support.small_studies import BASE

MOS = {"head": "mos", "head.experts": 2}
TINY = {"corpus.train_tokens": 300, "corpus.eval_tokens": 200}
USE = {"evaluator": "mixture_use"}


def study_of(*arms: Arm, scale: Scale | None = None, **fields) -> Study:
    return Study(
        question="?",
        base={**BASE, **TINY},
        base_arm=arms[0].name,
        design=table(*arms),
        scales={"laptop": scale or Scale(seeds=2)},
        **fields,
    )


mixtures = (Arm("mos", MOS), Arm("three", {**MOS, "head.experts": 3}))
measuring = {"measure": USE, "columns": ("mixture_use.variation",)}


def stages(plan) -> dict[str, list[str]]:
    return {
        arm.name: [t.stage for t in plan.record.trials if t.arm == arm.name]
        for arm in plan.record.arms
    }


def test_a_trial_s_metrics_are_its_own_then_its_evaluators():
    chosen = {**BASE, **MOS, "evaluator.dynamic.window": 5, "evaluator.train_text.rows": 2}
    config = resolve({**chosen, "evaluator": "standard"})
    first, bits, dynamic, dynamic_bits, train, train_bits = config.metrics
    assert first == PERPLEXITY and dynamic.key("valid") == "dynamic.valid_nll"
    assert bits == BITS_PER_BYTE and dynamic_bits.key("valid") == "dynamic.valid_bits_per_byte"
    assert (train.key("test"), train.shown) == ("train_text.train_nll", "train perplexity")
    assert train_bits.key("test") == "train_text.train_bits_per_byte"
    letters = resolve({**chosen, "corpus.level": "character"}).metrics
    assert letters[0] == BITS and letters[-2].shown == "train bits per character"
    alone = resolve({**BASE, "evaluator": "dynamic"})
    assert alone.metrics == (PERPLEXITY, BITS_PER_BYTE), "the first evaluator's are the trial's"


def test_what_measures_a_model_leaves_its_trials_as_they_are(data):
    """So a column can be added to a study that is finished."""
    plain = make_plan(study_of(*mixtures), data=data)
    measured = make_plan(study_of(*mixtures, **measuring), data=data)
    own = {trial.id for trial in plain.trials}
    assert own < {trial.id for trial in measured.trials}
    added = [trial for trial in measured.trials if trial.id not in own]
    assert len(added) == 4 and {trial.stage for trial in added} == {"measure"}
    assert all(trial.runner == "evaluation" and trial.reads_test for trial in added)
    assert {trial.parent_ids()[0] for trial in added} == own
    assert [t.final for t in measured.record.trials if t.stage == "measure"] == [False] * 4


def test_it_measures_the_model_after_its_last_training(data):
    scale = Scale(seeds=1, stages=(Stage("finetune", {"training.epochs": 2}),))
    plan = make_plan(study_of(*mixtures, scale=scale, **measuring), data=data)
    assert stages(plan)["mos"] == ["train", "finetune", "measure"]
    measure = next(trial for trial in plan.trials if trial.stage == "measure")
    assert measure.config.training.epochs == 2
    assert [c.name for c in measure.config.listed["evaluator"]] == ["mixture_use"]


def test_arms_without_a_model_of_their_own_are_not_measured(data):
    arms = (
        *mixtures,
        Arm("counts", {"model": "ngram"}),
        Arm("dynamic", MOS, then=(Stage("judged", {"evaluator": "dynamic"}, kind="evaluate"),)),
        Arm("together", MOS, then=(Stage("all", kind="evaluate", over="seeds"),)),
        Arm("left out", {"backbone.units": 9}, stages={"measure": {"evaluator": "none"}}),
    )
    plan = make_plan(study_of(*arms, **measuring), data=data)
    assert {name for name, of_arm in stages(plan).items() if "measure" in of_arm} == {
        "mos",
        "three",
    }


def test_an_arm_that_an_evaluator_says_nothing_of_is_refused(data):
    arms = (*mixtures, Arm("softmax"))
    with pytest.raises(StudyError, match=r"unknown stage 'measure'"):
        study_of(*arms, Arm("x", stages={"measure": {"evaluator": "none"}}))
    with pytest.raises(Exception, match=r"arm 'softmax': evaluator.mixture_use: the head is one"):
        make_plan(study_of(*arms, **measuring), data=data)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"columns": ("mixture_us.variation",)},
            r"columns: unknown evaluator 'mixture_us'.*'mixture_use'",
        ),
        ({"metric": "mixtures.variation"}, "metric: unknown evaluator 'mixtures'"),
        ({"columns": ("nll", "nll")}, "each metric once"),
        ({"metric": "nll", "columns": ("nll",)}, "not the one that decides"),
        ({"measure": {"head": "mos"}}, "measure = 'head' is not allowed. Expected: 'evaluator'"),
    ],
)
def test_what_can_be_wrong_is_found_when_the_file_is_loaded(fields, message):
    with pytest.raises(StudyError, match=message):
        study_of(*mixtures, **fields)


TYPO = {"measure": USE, "columns": ("mixture_use.variatio",)}
SEARCH = Search(space="takase2018doc_table2", trials=2)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (TYPO, "Did you mean 'mixture_use.variation'"),
        ({"columns": ("mixture_use.variation",)}, "No arm has evaluator.mixture_use, and neither"),
        ({**measuring, "metric": "mixture_use.variation", "columns": ()}, "unknown metric"),
        ({"metric": "train_text.nll"}, r"is of no split.*columns=\('train_text.nll',\)"),
        (
            {"metric": "mixture_use.variation", "scale": Scale(search=SEARCH)},
            "has no better direction for a search",
        ),
    ],
)
def test_what_no_trial_reports_is_found_when_it_is_planned(fields, message, data):
    both = {"evaluator.train_text.rows": 2, "evaluator.mixture_use.rows": 2}
    own = "." in fields.get("metric", "") and "measure" not in fields
    arms = [replace(arm, changes={**arm.changes, **(both if own else {})}) for arm in mixtures]
    with pytest.raises(StudyError, match=message):
        make_plan(study_of(*arms, **fields), data=data)


def test_every_arm_must_report_what_decides_and_some_arm_a_column(data):
    rows = {"evaluator.mixture_use.rows": 2}
    arms = (Arm("mos", {**MOS, **rows}), Arm("softmax", {}))
    shown = make_plan(study_of(*arms, columns=("mixture_use.variation",)), data=data).record
    assert shown.columns == (VARIATION.by("mixture_use"),) and shown.metric == PERPLEXITY
    with pytest.raises(
        StudyError, match="arm 'softmax': its trials report perplexity, bits per byte, and not"
    ):
        make_plan(study_of(*arms, metric="mixture_use.variation"), data=data)


def test_the_best_possible_perplexity_is_none_of_accuracy(workspace):
    """A table once said that accuracies were below the best possible."""
    completion = {**MOS, "evaluator.completion.num_questions": 3}
    for metric, known in (("completion.accuracy", False), ("nll", True)):
        study = study_of(Arm("mos", completion), metric=metric)
        plan = make_plan(study, data=workspace.data)
        assert plan.record.metric.name == metric and bool(_floor(plan, workspace)) == known


def test_a_study_run_with_columns(workspace):
    """Each cell is what the model's own trial reports; an arm without it has none."""
    study = study_of(
        *mixtures,
        Arm("counts", {"model": "ngram"}),
        measure={**USE, "evaluator.train_text.rows": 2},
        columns=("mixture_use.variation", "train_text.nll", "more_parameters"),
        metric="nll",
        name="measured",
    )
    summary = run(study, workspace=str(workspace.folder), local=True)
    mos, three, counts = summary.arms
    assert summary.whole
    for arm in (mos, three):
        variation, train, more = arm.others
        measures = [t.id for t in summary.record.trials if t.arm == arm.name and not t.final]
        found = journals.read_all(workspace.store, measures).values()
        for split in ("valid", "test"):
            reported = [j.metrics[f"mixture_use.{split}_variation"] for j in found]
            assert sorted(variation.losses[split].values()) == sorted(reported)
        reported = [j.metrics["train_text.train_nll"] for j in found]
        assert sorted(train.losses["train"].values()) == sorted(reported)
        num = arm.num_parameters - mos.num_parameters
        assert list(more.losses["arms"].values()) == ([num] * 2 if num else [])
    assert [measured.cells for measured in counts.others[:2]] == [{}, {}]
    assert MORE_PARAMETERS in summary.record.columns
