"""An n-gram arm: what it counts, that its cache is tuned on valid, and that it repeats."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ablate.config.identity import make_trial
from ablate.config.merge import merge
from ablate.config.resolve import resolve
from ablate.config.streams import Streams
from ablate.errors import CombinationError
from ablate.lm.components.evaluator.completion import generated_questions
from ablate.lm.data.corpus import corpus_digest, open_corpus
from ablate.lm.model import ngram
from ablate.lm.training.counting import Counting
from ablate.store.store import Store
from ablate.trial.task import Place

SMALL = {
    "model": "ngram",
    "corpus.name": "grammar",
    "corpus.train_tokens": 3000,
    "corpus.eval_tokens": 600,
    "ngram.order": 3,
}
NEURAL = {"backbone": "lstm", "head": "softmax", "optimizer": "sgd"}


@pytest.fixture
def concluded(tmp_path, data):
    def conclude(values=None, *, reads_test=True):
        values = {**SMALL, **(values or {})}
        config = resolve(values)
        digest = corpus_digest(config.corpus, data)
        trial = make_trial(
            config, values=values, seed=1, corpus_digest=digest, reads_test=reads_test
        )
        task = Counting(trial, Place(Store(str(tmp_path)), data))
        assert task.finished
        return task.conclude(), open_corpus(config.corpus, data)

    return conclude


def test_n_grams_alone(concluded):
    found, corpus = concluded()
    model = ngram.fit(corpus.splits["train"], corpus.num_words, corpus.eos, 3)
    for split in ("valid", "test"):
        expected = model.log_probs(corpus.splits[split])
        np.testing.assert_allclose(found.token_log_probs[split], expected, rtol=1e-12)
        assert found.metrics[f"{split}_nll"] == pytest.approx(-expected.mean())
    assert found.metrics["weight_ngram"] == 1
    assert found.num_parameters == model.num_ngrams


def test_of_characters_it_reports_bits_for_each_character_of_the_text(concluded):
    """As a trained model does; a line's end is a character too."""
    found, corpus = concluded({"corpus.level": "character"})
    for split, log_probs in found.token_log_probs.items():
        text = corpus.text(corpus.splits[split])
        bits = -log_probs.sum() / math.log(2)
        assert len(text) == len(log_probs) + 1  # nothing predicts the first
        expected = pytest.approx(bits / (len(text) - 1))
        assert found.metrics[f"{split}_bits_per_character"] == expected
    assert "valid_bits_per_character" not in concluded()[0].metrics


def test_a_cache_beside_them_with_the_weight_that_is_best_on_valid(concluded):
    found, corpus = concluded({"ngram.cache_window": 50})
    share = found.metrics["weight_cache"]
    assert share == pytest.approx(1 - found.metrics["weight_ngram"])
    model = ngram.fit(corpus.splits["train"], corpus.num_words, corpus.eos, 3)

    def nll(split, weight):
        tokens = corpus.splits[split]
        p = (1 - weight) * np.exp(model.log_probs(tokens))
        return -np.log(p + weight * np.exp(ngram.cache_log_probs(tokens, 50))).mean()

    assert found.metrics["test_nll"] == pytest.approx(nll("test", share))
    assert found.metrics["valid_nll"] == pytest.approx(nll("valid", share))
    assert all(
        nll("valid", share) <= nll("valid", other) + 1e-9 for other in np.linspace(0, 1, 201)[:-1]
    )


@pytest.mark.parametrize("window", [0, 50])
def test_its_answers_are_those_of_the_whole_mixture(concluded, window):
    values = {"ngram.cache_window": window, "evaluator.completion.num_questions": 30}
    found, corpus = concluded(values)
    plain, _ = concluded({"ngram.cache_window": window})
    assert plain.metrics.items() < found.metrics.items() and plain.digest == found.digest
    model = ngram.fit(corpus.splits["train"], corpus.num_words, corpus.eos, 3)
    share = found.metrics.get("weight_cache", 0)

    def score(sentence):
        p = (1 - share) * np.exp(model.log_probs(sentence))
        return np.log(p + share * np.exp(ngram.cache_log_probs(sentence, max(window, 1)))).sum()

    for split in ("valid", "test"):
        questions = generated_questions(corpus.stream(split), corpus, 30, Streams(0))
        answers = [np.argmax([score(o) for o in q.options_OT.tolist()]) for q in questions]
        right = [int(answer) == q.answer for answer, q in zip(answers, questions, strict=True)]
        assert found.metrics[f"completion.{split}_accuracy"] == np.mean(right)
        assert found.metrics[f"completion.{split}_num_questions"] == len(questions)


def test_only_evaluators_that_read_counts_stay_with_an_n_gram_model():
    base = {**NEURAL, "evaluator": "dynamic", "evaluator.dynamic.window": 5}
    asked = {"evaluator.completion.num_questions": 30}
    merged = merge({**base, **asked}, {"model": "ngram"})
    assert merged == {"model": "ngram", **asked}
    expected = ["nll", "bits_per_byte", "completion.accuracy"]
    assert [m.name for m in resolve(merged).metrics] == expected
    with pytest.raises(CombinationError, match=r"'cache' does not read counts.*completion"):
        resolve({"model": "ngram", "evaluator": "cache"})


def test_the_perplexity_is_that_of_the_loss_and_stays_finite(concluded, monkeypatch):
    found, _ = concluded()
    for split in ("valid", "test"):
        assert found.metrics[f"{split}_ppl"] == pytest.approx(
            math.exp(found.metrics[f"{split}_nll"])
        )
    monkeypatch.setattr(ngram.KneserNey, "log_probs", lambda model, stream: np.full(9, -800.0))
    hopeless, _ = concluded()
    assert hopeless.metrics["valid_nll"] == pytest.approx(800)
    assert hopeless.metrics["valid_ppl"] == math.exp(700)
