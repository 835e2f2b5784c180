"""Further metrics in a study's table: their cells, their published numbers and the verdicts."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import pytest

from ablate import papers
from ablate.compare.judged import Judged
from ablate.config.metrics import (
    ACCURACY,
    DISTANCE,
    MORE_PARAMETERS,
    RANK,
    TRAIN_PERPLEXITY,
    VARIATION,
    Metric,
)
from ablate.store.study_record import from_plain
from tests.support.tables import written

USE = VARIATION.by("mixture_use")
TRAIN = TRAIN_PERPLEXITY.by("train_text")
APART = DISTANCE.by("word_vectors")
RANKED = RANK.by("predictions")
CELL = next(c for c in papers.cells("takase2018doc", "Table 4", "test") if c.value == 0.279)


def study_of(by_hand, columns, values, *, base=(4.0, 4.1, 4.2), measure=True, **fields):
    """Two arms; `values` are what the base arm's seeds report, in a trial of its own or not."""
    study = by_hand({"base": list(base), "other": [nats - 0.1 for nats in base]})
    for index, reported in enumerate(values):
        trial = f"base-{index}"
        own = study.journals[trial].outcome.metrics
        if measure:
            study.plan(f"m-{index}", "base", index, stage="measure", parents=(trial,))
            study.end(f"m-{index}", "completed", metrics={"valid_nll": 9.0, **reported})
        else:
            study.end(trial, "completed", metrics={**own, **reported})
    study.record_fields = {"columns": columns, **fields}
    return study


def summary_of(study):
    return Judged(study.record, study.journals)


@pytest.mark.parametrize("measure", [True, False])
def test_a_column_is_read_where_it_was_reported(by_hand, measure):
    values = [{"mixture_use.test_variation": v, "train_text.train_nll": 1.0} for v in (0.2, 0.4)]
    summary = summary_of(study_of(by_hand, (USE, TRAIN, APART), values, measure=measure))
    base, other = summary.arms
    use, train, apart = base.others
    assert use.cells["test"].mean == pytest.approx(0.3) and use.cells["test"].num == 2
    assert train.cells["train"].mean == pytest.approx(math.e) and apart.cells == {}
    assert all(not measured.cells for measured in other.others)
    assert base.counts.planned == 3, "what measures a model is no seed of its own"
    text = written(summary, "markdown")
    assert "coefficient of variation test" in text and "| train perplexity |" in text
    assert "0.300±0.141" in text and "2.72±0.00" in text


@pytest.mark.parametrize(("num", "said"), [(2, True), (3, False), (0, False)])
def test_a_mean_that_leaves_seeds_out_says_so(by_hand, num, said):
    """A task may report a further metric where it turned out well, and nothing elsewhere."""
    values = [{"mixture_use.test_variation": 0.2 + index} for index in range(num)]
    text = written(summary_of(study_of(by_hand, (USE, TRAIN), values, measure=False)))
    note = "Means over fewer seeds: base 2 of 3 in coefficient of variation."
    assert (note in " ".join(text.split())) == said


def at_paper(by_hand, metric, values, published, **fields):
    """The verdict on the base arm's published number."""
    record = {"paper": "takase2018doc", "tables": ("Table 4", "Table 5"), "corpus": "ptb"}
    study = study_of(by_hand, (metric,), values, published_scale=True, **{**record, **fields})
    study.arm_fields = {"base": {"published_columns": {metric.name: published}}}
    return study


def verdict(study, metric, split) -> str:
    return summary_of(study).verdicts["base", metric.name, split]


def test_a_published_number_stands_next_to_ours_with_a_verdict(by_hand):
    near = [{"mixture_use.test_variation": CELL.value + off} for off in (0, 0.001, -0.001)]
    study = at_paper(by_hand, USE, near, {"test": CELL.value})
    assert verdict(study, USE, "test") == "reproduced"
    text = " ".join(written(summary_of(study)).split())
    assert "Table 5: test coefficient of variation" in text and "0.279±0.001" in text
    assert "0.279 Every level: reproduced." in text
    assert "the interval of our mean is within 0.01 of the published number" in text
    far = [{"mixture_use.test_variation": v} for v in (0.7, 0.701, 0.702)]
    study = at_paper(by_hand, USE, far, {"test": CELL.value})
    assert verdict(study, USE, "test") == "not reproduced: ours 0.422 higher"
    study.record_fields["published_scale"] = False
    assert summary_of(study).arm("base").others[0].published == {}


def test_a_rank_of_few_contexts_and_generated_questions_are_not_comparable(by_hand):
    few = [{"predictions.test_rank": 2000.0, "predictions.test_num_contexts": 2000.0}] * 3
    study = at_paper(by_hand, RANKED, few, {"test": 10_000})
    expected = "not comparable: a rank of at most 2000 contexts"
    assert verdict(study, RANKED, "test") == expected
    accuracy = ACCURACY.by("completion")
    made = [{"completion.test_accuracy": 0.5, "completion.test_generated": 1.0}] * 3
    where = {"paper": "pachitariu2013irlm", "tables": ("Table 1c",), "corpus": "folder:novels"}
    study = at_paper(by_hand, accuracy, made, {"test": 52.6}, measure=False, **where)
    assert verdict(study, accuracy, "test") == "not comparable: generated questions"
    given = [{"completion.test_accuracy": v} for v in (0.526, 0.527, 0.525)]
    study = at_paper(by_hand, accuracy, given, {"test": 52.6}, measure=False, **where)
    assert verdict(study, accuracy, "test") == "reproduced", "of the novels, by Microsoft's"


def test_a_slice_of_a_corpus_is_compared_with_the_same_slice(by_hand):
    where = {"paper": "inan2017tying", "tables": ("Figure 1a",)}
    values = [{"word_vectors.distance": v} for v in (0.06, 0.061, 0.059)]
    study = at_paper(by_hand, APART, values, {"model": 0.06}, **where)
    assert verdict(study, APART, "model") == "not comparable: a part of the corpus"
    for name, journal in study.journals.items():
        sliced = replace(journal, config={"corpus.train_tokens": 20_000})
        study.journals[name] = sliced
    assert verdict(study, APART, "model") == "reproduced"


def test_a_difference_of_parameters_has_no_noise(by_hand):
    where = {"paper": "takase2017iog", "tables": ("Table 4",)}
    for more, expected in ((790_000, "reproduced"), (8_900_000, "not reproduced: ours 8.1 higher")):
        study = at_paper(by_hand, MORE_PARAMETERS, [], {"arms": 0.8}, base=(4.0,), **where)
        study.arm_fields["base"]["against"] = "other"
        own = study.journals["base-0"].outcome.metrics
        study.end("base-0", "completed", metrics=own, num_parameters=1_234_567 + more)
        assert verdict(study, MORE_PARAMETERS, "arms") == expected
        assert f"{more / 1e6:.1f}" in written(summary_of(study))


def test_a_trial_whose_parameters_nobody_counted_has_no_difference_of_them(by_hand):
    """Such as a function of the user's."""
    where = {"paper": "takase2017iog", "tables": ("Table 4",)}
    study = at_paper(by_hand, MORE_PARAMETERS, [], {"arms": 0.8}, base=(4.0,), **where)
    study.arm_fields["base"]["against"] = "other"
    own = study.journals["base-0"].outcome.metrics
    study.end("base-0", "completed", metrics=own, num_parameters=None)
    assert verdict(study, MORE_PARAMETERS, "arms").startswith("not comparable")
    (measured,) = (m for m in summary_of(study).arm("base").every if m.metric == MORE_PARAMETERS)
    assert measured.losses["arms"] == {}


def test_where_neither_direction_is_better_no_arm_is_best_and_nothing_helps(by_hand):
    values = {"base": (10.0, 10.1, 10.2, 10.1), "other": (20.0, 20.1, 20.3, 20.2)}
    study = by_hand({arm: [1.0] * 4 for arm in values})
    for arm, ranks in values.items():
        for index, rank in enumerate(ranks):
            reported = {"predictions.valid_rank": rank, "predictions.test_rank": rank}
            study.end(f"{arm}-{index}", "completed", metrics=reported)
    study.record_fields = {"judged_by": RANKED}
    other = summary_of(study).arm("other")
    assert other.comparison.verdict == "higher" and other.comparison.favours_arm is None
    assert not any(arm.best for arm in summary_of(study).arms)
    study.record_fields = {"judged_by": replace(RANKED, better="higher")}
    other = summary_of(study).arm("other")
    assert other.comparison.verdict == "better" and other.comparison.favours_arm and other.best


def test_a_record_of_before_is_read(by_hand):
    """It has neither published columns, nor what a metric is of."""
    record = by_hand({"base": [4.0]}).record
    plain = {**asdict(record), "trials": [], "searches": [], "columns": [{"name": "accuracy"}]}
    plain["arms"] = [{"name": "base", "published": {"test": 56.1, "train": 34.0}}]
    plain["judged_by"] = {"name": "nll", "published": ["ppl"], "reports_scaled": True}
    read = from_plain({**plain, "published_scale": True})
    assert read.columns == (Metric("accuracy"),) and read.arms[0].published_columns == {}
    summary = Judged(read, {})
    assert summary.arms[0].published == {"test": 56.1}, "a training perplexity is of no split"
