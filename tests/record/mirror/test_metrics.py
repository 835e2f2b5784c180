"""Studies of any metric in one mirror: arms, results, and pairs in the metric's direction."""

from __future__ import annotations

import csv
import io
import math

import pytest

from ablate import cli
from ablate.compare.across import matched, matched_table
from ablate.config.metrics import PERPLEXITY, Metric
from ablate.record.mirror.syncing import update_mirror
from ablate.store.epoch import Epoch

ACCURACY = Metric("accuracy", better="higher", shown="accuracy in %", factor=100)
NO_CORPUS = {"corpus": "", "corpus_digest": "", "level": ""}


def accuracies(recorded, name="digits", metric=ACCURACY, **more):
    """Record a study of three seeds an arm; the arm `shifted` is better by about 0.02."""
    arms = {
        arm: [
            recorded.function(
                f"{name}-{arm}-{seed}",
                {"shift": arm == "shifted"},
                {
                    f"{split}_{metric.name}": 0.9
                    + gain * (1 + seed / 10)
                    - 0.01 * (split == "test")
                    for split in ("valid", "test")
                },
                seed=seed,
            )
            for seed in (1, 2, 3)
        ]
        for arm, gain in (("plain", 0), ("shifted", 0.02))
    }
    return recorded.study(name, arms, judged_by=metric, **NO_CORPUS, **more)


def words(recorded, name="words"):
    heads = {"softmax": 4.0, "mos": 3.5}
    arms = {
        head: [
            recorded.trial(
                f"{name}-{head}-{seed}", {"head": head}, seed=seed, nats=nats * (1 + seed / 31.5)
            )
            for seed in (1, 2, 3)
        ]
        for head, nats in heads.items()
    }
    return recorded.study(name, arms, judged_by=PERPLEXITY)


def test_arms_are_shown_by_the_metric_of_their_study(recorded, rows_of):
    accuracies(recorded)
    words(recorded)
    columns = "study, arm, corpus, level, num, metric, mean, spread, nll, ppl, bpc, num_parameters"
    query = f"SELECT {columns} FROM arms WHERE split = 'valid' ORDER BY study, arm"
    plain, shifted, mos, _ = rows_of(recorded, query)
    empty = (None, None, None, None)
    assert plain[:7] == ("digits", "plain", None, None, 3, "accuracy", pytest.approx(90))
    assert plain[8:] == empty
    assert shifted[6:8] == (pytest.approx(92.4), pytest.approx(0.2)) and shifted[8:] == empty
    nats = 3.5 + 2 / 9
    assert mos[2:6] == ("grammar", "word", 3, "nll") and mos[8] == pytest.approx(nats)
    assert mos[6] == mos[9] == pytest.approx(math.exp(nats), rel=0.01)


def test_a_result_never_hides_what_a_trial_is(recorded, rows_of):
    """A function may call its numbers as it likes."""
    metrics = {"valid_accuracy": 0.9, "test_accuracy": 0.8, "seed": 5, "task": 6, "Status": 7}
    curve = [Epoch(1, {"valid_accuracy": 0.9, "generation": 3, "scale": 4}, seconds=1)]
    trial = recorded.function("t1", {}, metrics, curve=curve)
    recorded.study("digits", {"a": [trial]}, judged_by=ACCURACY)
    named = 'seed, task, status, "result.seed", "result.task", "result.status"'
    assert rows_of(recorded, f"SELECT {named} FROM trials") == [(1, "digits", "completed", 5, 6, 7)]
    named = 'scale, "result.scale", "result.generation", valid_accuracy'
    assert rows_of(recorded, f"SELECT {named} FROM epochs") == [("laptop", 4, 3, 0.9)]


def test_names_that_differ_in_case_are_one_column(recorded, rows_of):
    """SQL ignores case, so two columns could not be told apart."""
    for name in ("F1", "f1"):
        accuracies(recorded, f"study_{name}", Metric(name, better="higher"))
    assert rows_of(recorded, "SELECT count(valid_f1) FROM trials") == [(12,)]
    query = "SELECT metric, count(*), sum(num) FROM arms GROUP BY metric ORDER BY metric"
    assert rows_of(recorded, query) == [("F1", 4, 12), ("f1", 4, 12)]


def test_two_studies_of_different_metrics_in_one_table(recorded, capsys):
    accuracies(recorded)
    words(recorded)
    locations = ["--workspace", str(recorded.workspace.folder), "--format", "csv"]
    assert cli.main(["compare", "digits", "words", *locations]) == 0
    rows = {
        row["arm or model"]: row for row in csv.DictReader(io.StringIO(capsys.readouterr().out))
    }
    assert [*rows["plain"]][3:] == [
        "valid, ours (accuracy in %)",
        "test, ours (accuracy in %)",
        "grammar valid, ours (perplexity)",
        "grammar test, ours (perplexity)",
    ]
    assert rows["shifted"]["valid, ours (accuracy in %)"] == "92.40±0.20 (n=3)"
    assert rows["shifted"]["grammar valid, ours (perplexity)"] == ""
    assert rows["softmax"]["grammar valid, ours (perplexity)"].endswith("(n=3)")


def test_a_change_is_in_the_direction_of_its_metric(recorded):
    accuracies(recorded)
    result = matched.exchange(update_mirror(recorded.workspace), ["digits.shift"])
    (change,) = result.changes
    assert change.difference is not None and change.num_pairs == 3
    assert change.difference.mean == pytest.approx(-0.024), "of losses"
    table = matched_table.table(result)
    row = dict(zip(table.headings, table.rows[0], strict=True))
    assert (row["metric"], row["better"], row["verdict"]) == ("accuracy", "higher", "better")
    assert "difference_nats" not in row and row["difference"] == pytest.approx(0.024)
    low, high = row["low"], row["high"]
    assert low < row["difference"] < high
    text = " ".join(matched_table.plain_text(result).split())
    assert "valid accuracy in %, higher is better" in text and "+2.40 [" in text
    assert not any(word in text for word in ("nats", "corpus", "perplexity"))


def test_trials_judged_by_different_metrics_are_no_pair(recorded):
    both = {"valid_accuracy": 0.9, "valid_loss": 0.3, "test_accuracy": 0.9, "test_loss": 0.3}
    for metric, shift in ((ACCURACY, False), (Metric("loss"), True)):
        trial = recorded.function(metric.name, {"shift": shift}, both)
        recorded.study(f"by_{metric.name}", {"a": [trial]}, judged_by=metric, **NO_CORPUS)
    assert matched.exchange(update_mirror(recorded.workspace), ["digits"]).changes == ()
