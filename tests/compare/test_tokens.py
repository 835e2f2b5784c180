"""By the token: against enumeration, another optimizer, simulations, and a real ensemble."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import optimize, stats

from ablate.compare.statistics import tokens
from ablate.errors import TrialError
from ablate.lm.commands.tokens import ENSEMBLE, show_tokens
from ablate.store import journal as journals
from ablate.store import tokens as saved
from ablate.store.arrow import read_column
from ablate.store.outcome import TEXT
from ablate.study.designs import table
from ablate.study.plan import make_plan
from ablate.study.study import Study
from ablate.study.words import Arm, Scale
from ablate.tune import local
from ablate.tune.schedule import Schedule
from tests.support import small_studies

EOS = 0


def test_sentences_end_with_their_eos():
    text = np.array([5, 6, EOS, 7, EOS, EOS, 8, 9])  # judged: all but the 5
    assert tokens.sentences(text, EOS).tolist() == [0, 0, 1, 1, 2, 3, 3]


def test_the_mean_of_probabilities():
    first, second = np.log([0.1, 0.5]), np.log([0.3, 0.1])
    assert np.exp(tokens.mean_probability([first, second])) == pytest.approx([0.2, 0.3])
    assert tokens.mixed([first, second], [1.0, 0.0]) == pytest.approx(first)


def test_the_weights_of_an_interpolation_are_the_likeliest():
    generator = np.random.default_rng(1)
    difference = np.log(generator.uniform(0.01, 1, (3, 400)) * [[1], [0.8], [1.1]])
    weights = tokens.mixture_weights([*difference])

    def loss(free):
        shares = np.exp([*free, 0]) / np.exp([*free, 0]).sum()
        return -tokens.mixed([*difference], shares).mean()

    best = optimize.minimize(loss, [0.0, 0.0], tol=1e-12)
    assert sum(weights) == pytest.approx(1)
    assert -tokens.mixed([*difference], weights).mean() == pytest.approx(best.fun, abs=1e-6)


def text(generator, num_sentences: int, effect: float):
    """Two models' log p on sentences of 1 to 20 words, whose words go up and down together."""
    lengths = generator.integers(1, 21, num_sentences)
    numbers = np.repeat(np.arange(num_sentences), lengths)
    moods = generator.normal(0, 0.5, num_sentences)[numbers]
    base = generator.normal(-5, 1, len(numbers))
    return base + moods + effect + generator.normal(0, 0.3, len(numbers)), base, numbers


def test_the_difference_is_that_of_the_mean_losses():
    first, second, numbers = text(np.random.default_rng(2), 100, 0.2)
    difference = tokens.sentence_difference(first, second, numbers)
    assert difference.mean == pytest.approx(-first.mean() + second.mean())
    assert difference.num_sentences == 100
    better = [first[numbers == i].sum() > second[numbers == i].sum() for i in range(100)]
    assert difference.num_better == sum(better)
    assert difference == tokens.sentence_difference(first, second, numbers)


@pytest.mark.parametrize("num", [1, 2, 10, tokens.MIN_SENTENCES - 1])
def test_too_few_sentences_to_draw_from_have_no_interval_and_no_p(num):
    """A text of one line is one sentence: every draw of it is itself, whatever it says."""
    first, second, numbers = text(np.random.default_rng(5), num, 0.3)
    difference = tokens.sentence_difference(first, second, numbers)
    assert (difference.interval, difference.p, difference.num_sentences) == (None, None, num)
    assert difference.mean == pytest.approx(second.mean() - first.mean())


BASE = {**small_studies.BASE, "corpus.train_tokens": 2000, "corpus.eval_tokens": 800}


@pytest.fixture
def trained(workspace):
    """Two real models of one arm, and their ensemble; the plan they come from."""
    return train(workspace, BASE)


def train(workspace, base):
    study = Study(
        question="By the token?",
        base=base,
        base_arm="a",
        design=table(Arm("a")),
        scales={"s": Scale(corpus=base["corpus.name"], seeds=2, ensemble=True)},
        name="by_token",
    )
    plan = make_plan(study, "s", data=workspace.data)
    store = workspace.store
    schedule = Schedule(plan, store, lambda *_: None)  # type: ignore[arg-type]
    local.run(schedule, small_studies.order_in(workspace))
    return schedule.plan


def shown_row(text: str, name: str) -> list[str]:
    return next(line for line in text.splitlines() if line.startswith(name)).split()


@pytest.mark.slow
def test_the_saved_tokens_give_the_same_ensemble_as_the_run(workspace, trained):
    first, second, ensemble = [trial.id for trial in trained.record.trials]
    journal = journals.read(workspace.store, ensemble)
    ran = math.exp(journal.outcome.metrics["test_nll"])
    text = show_tokens(workspace, [first, second], "test")
    assert float(shown_row(text, ENSEMBLE)[4]) == pytest.approx(ran, abs=0.006)


def test_a_text_of_one_line_is_compared_without_a_p(workspace, tmp_path):
    folder = tmp_path / "one_line"
    folder.mkdir()
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_text("a b c d e f g h " * 60 + "\n")
    base = {name: v for name, v in BASE.items() if not name.endswith("_tokens")}
    plan = train(workspace, {**base, "corpus.name": str(folder), "training.batch_size": 4})
    first, second, _ = [trial.id for trial in plan.record.trials]
    shown = " ".join(show_tokens(workspace, [first, second], "valid").split())
    assert "No interval and no p: this split has 1 sentence," in shown
    assert "95% interval" not in shown and "<.001" not in shown


def test_a_trial_keeps_how_far_runs_of_the_test_text_are_from_its_mean(workspace, trained):
    trial = trained.record.trials[0].id
    outcome = journals.read(workspace.store, trial).outcome
    kept = read_column(
        workspace.store, f"trials/{trial}/tokens/test.arrow", "log_prob", pa.float32()
    )
    assert outcome.deviations == pytest.approx(saved.deviations(np.asarray(kept)), abs=1e-5)
    assert (len(outcome.deviations), outcome.deviations_of) == (6, TEXT)


def test_reading_the_test_split_again_is_recorded(workspace, trained):
    first, second, _ = [trial.id for trial in trained.record.trials]
    assert "read again" not in show_tokens(workspace, [first, second], "valid")
    assert not workspace.store.exists(f"trials/{first}/readings.json")
    assert "read number 1 after" in show_tokens(workspace, [first[:8], second], "test")
    assert "read number 2 after" in show_tokens(workspace, [first, second], "test")
    kept = workspace.store.read_json(f"trials/{second}/readings.json")
    assert [entry["with"] for entry in kept["readings"]] == [[first], [first]]


def test_what_cannot_be_compared_is_refused(workspace, trained):
    first, second, _ = [trial.id for trial in trained.record.trials]
    with pytest.raises(TrialError, match="two or more finished trials"):
        show_tokens(workspace, [first, first], "valid")
    with pytest.raises(TrialError, match="no trial 'nobody'"):
        show_tokens(workspace, [first, "nobody"], "valid")
    journal = journals.read(workspace.store, second)
    journal.trial = replace(journal.trial, corpus_digest="another")
    journal.write(workspace.store)
    with pytest.raises(TrialError, match="different corpora"):
        show_tokens(workspace, [first, second], "valid")
    workspace.store.delete(f"trials/{first}/tokens/test.arrow")
    journal.trial = replace(journal.trial, corpus_digest=trained.record.corpus_digest)
    journal.write(workspace.store)
    with pytest.raises(TrialError, match="has no log-probabilities of test"):
        show_tokens(workspace, [first, second], "test")


def test_blocks_of_a_mean_are_their_means():
    rows = np.stack([np.random.default_rng(3).normal(size=64), np.ones(64)], 1)
    blocks = tokens.by_block(rows, lambda summed: summed[0] / summed[1])
    assert blocks == pytest.approx(rows[:, 0].reshape(8, 8).mean(1))
    found = tokens.sentence_difference(0 * rows[:, 0], rows[:, 0], np.arange(64))
    t = stats.ttest_1samp(blocks, 0)
    assert (found.p, found.interval) == (
        pytest.approx(t.pvalue),
        pytest.approx(t.confidence_interval()),
    )


def after_words(generator, num, alike, words=2):
    """Sums of losses after words, and tokens, by sentence; moods are like those of neighbours."""
    moods = generator.normal(size=(num, words))
    for at in range(1, num):
        moods[at] = alike * moods[at - 1] + math.sqrt(1 - alike**2) * moods[at]
    counts = generator.integers(0, 5, (num, words)).astype(float)
    return counts * moods, counts


def test_intervals_of_means_are_wider_where_sentences_are_like_their_neighbours():
    generator = np.random.default_rng(5)
    sums, counts = after_words(generator, 900, 0.9)
    elsewhere = generator.permutation(len(sums))
    widths = [
        np.diff(tokens.ratio_intervals(*both))
        for both in ((sums, counts), (sums[elsewhere], counts[elsewhere]))
    ]
    assert (widths[0] > 1.5 * widths[1]).all()


def test_tokens_of_one_block_say_nothing_of_others():
    sums, counts = np.zeros((49, 2)), np.zeros((49, 2))
    sums[3:5], counts[3:5] = 1.0, 2.0
    sums[40, 1], counts[40, 1] = 1.0, 2.0
    alone, two = tokens.ratio_intervals(sums, counts)
    assert alone is None and two == pytest.approx((0.5, 0.5))
    assert tokens.ratio_intervals(sums[:30], counts[:30]) == [None, None]
