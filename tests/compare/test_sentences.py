"""Trials compared by what they wrote: against sacrebleu's own numbers, and by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from ablate.compare.statistics import tokens
from ablate.errors import DamagedError, TrialError
from ablate.lm.commands.tokens import show_tokens
from ablate.lm.data.corpus import open_corpus
from ablate.lm.scores import bleu
from ablate.lm.sections import PairsConfig
from ablate.store import sentences
from ablate.store import tokens as saved
from ablate.store.arrow import as_arrow, write_columns
from ablate.study.designs import table
from ablate.study.plan import make_plan
from ablate.study.study import Study
from ablate.study.words import Arm, Scale
from ablate.trial.stand_in import StandIn
from ablate.tune import local
from ablate.tune.schedule import Schedule
from tests.support import small_studies

PAIRS = PairsConfig(train_pairs=60, eval_pairs=50)


@pytest.fixture
def two(workspace, monkeypatch):
    """Two trials of an encoder-decoder that trained nothing and saved nothing of valid or test."""
    conclude = StandIn.conclude

    def concluded(task):
        return replace(conclude(task), token_log_probs={}, sentences={"own": [task.trial.id, ""]})

    monkeypatch.setattr(StandIn, "conclude", concluded)
    base = {"task": "encoder_decoder", "backbone": "lstm", "head": "softmax", "optimizer": "sgd"}
    sizes = {"embedding.size": 3, "corpus.train_pairs": 60, "corpus.eval_pairs": 50}
    study = Study(
        question="What do they write?",
        base={**base, **sizes},
        base_arm="a",
        design=table(Arm("a"), Arm("b", {"attention": "none"})),
        scales={"s": Scale(corpus="pairs", seeds=1)},
        name="written",
        runner="stand_in",
    )
    plan = make_plan(study, "s", data=workspace.data)
    local.run(Schedule(plan, workspace.store, lambda *_: None), small_studies.order_in(workspace))
    return [trial.id for trial in plan.record.trials]


@pytest.fixture
def references(workspace):
    return open_corpus(PAIRS, workspace.data).references("valid")


def write(workspace, trial_ids, *texts):
    for trial_id, lines in zip(trial_ids, texts, strict=True):
        sentences.write(workspace.store, trial_id, "valid", lines)


def cells(shown, trial_id, score):
    lines = shown.splitlines()
    row = next(line for line in lines if trial_id[:8] in line and score in line)
    return row.partition(score)[2].split()


def test_what_was_written_is_scored_and_compared(workspace, two, references):
    backwards = [" ".join(reversed(line.split())) for line in references]
    worse = [
        pair[number % 2] for number, pair in enumerate(zip(references, backwards, strict=True))
    ]
    write(workspace, two, references, worse)
    shown = show_tokens(workspace, two, "valid")
    assert cells(shown, two[0], "BLEU") == ["100.00"]
    expected = bleu.bleu(worse, references)
    value, change, *_, better, p = cells(shown, two[1], "BLEU")
    assert value == f"{expected.score:.2f}"
    assert change == f"−{100 - expected.score:.2f}"
    assert (better, p) == ("0%", "<.001")
    assert cells(shown, two[1], "ROUGE-1") == ["100.00", "+0.00", "[+0.00,", "+0.00]", "0%", "1"]
    assert expected.signature in shown and "rouge-score" in shown
    assert "perplexity" not in shown and "over 50 sentences in 7 blocks" in shown


def test_every_token_of_the_targets_is_compared_too(workspace, two, references):
    num = len(open_corpus(PAIRS, workspace.data).splits["valid"])
    for trial_id, nats in zip(two, (2.0, 1.0), strict=True):
        saved.write(workspace.store, trial_id, "valid", np.full(num, -nats))
    shown = " ".join(show_tokens(workspace, two, "valid").split())
    assert "perplexity" in shown and "7.39" in shown
    assert "No BLEU and no ROUGE: these trials wrote no sentences" in shown
    write(workspace, two, references, references)
    both = show_tokens(workspace, two, "valid")
    assert "perplexity" in both and "ROUGE-L" in both
    assert both.count("Intervals: over") == 1


def test_sentences_that_are_missing_or_of_another_number_are_refused(workspace, two, references):
    with pytest.raises(TrialError, match=rf"has no sentences of valid that trial {two[0]} wrote"):
        show_tokens(workspace, two, "valid")
    write(workspace, two, references, references[1:])
    with pytest.raises(TrialError, match=rf"{two[1]} saved 49 sentences .* which has 50 pairs"):
        show_tokens(workspace, two, "valid")


def test_a_file_without_sentences_is_damaged(workspace, two, references):
    column = {"sentence": as_arrow(np.zeros(50, np.int32), pa.int32())}
    write_columns(workspace.store, f"trials/{two[0]}/sentences/valid.arrow", column)
    with pytest.raises(DamagedError, match=r"valid\.arrow .*not of the type large_string"):
        show_tokens(workspace, two, "valid")


def test_a_score_is_that_of_the_summed_counts():
    rng = np.random.default_rng(3)
    first, second = rng.random((60, 2)) + 0.5, rng.random((60, 2)) + 0.5
    difference = tokens.score_difference(first, second, lambda row: row[0] / row[1])
    expected = first.sum(0)[0] / first.sum(0)[1] - second.sum(0)[0] / second.sum(0)[1]
    assert difference.mean == pytest.approx(expected)
    ratios = [rows[:, 0] / rows[:, 1] for rows in (first, second)]
    assert difference.num_better == int(np.sum(ratios[0] > ratios[1]))
    low, high = difference.interval
    assert low < difference.mean < high


def test_the_interval_of_a_mean_score_is_that_of_losses():
    """Of sentences with one token each, a mean score is a mean loss negated."""
    rng = np.random.default_rng(5)
    first, second = rng.normal(size=80), rng.normal(size=80)
    rows = [np.stack([values, np.ones(80)], 1) for values in (first, second)]
    by_score = tokens.score_difference(*rows, lambda row: row[0] / row[1])
    by_loss = tokens.sentence_difference(first, second, np.arange(80))
    assert by_score.mean == pytest.approx(-by_loss.mean)
    assert by_score.interval == pytest.approx([-end for end in reversed(by_loss.interval)])
    assert by_score.p == pytest.approx(by_loss.p)
    assert by_score.num_better == by_loss.num_better
