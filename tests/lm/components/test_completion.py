"""Sentence completion: scores against the reference's, and generated questions."""

from __future__ import annotations

import re
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ablate.config.fields import identity_fields
from ablate.config.streams import Streams
from ablate.errors import CombinationError, CorpusError
from ablate.lm.components.evaluator.completion import (
    Completion,
    CompletionConfig,
    Question,
    generated_questions,
    long_unit_scores,
    read_questions,
)
from ablate.lm.model.evaluator import Reading
from ablate.lm.model.flow import Mixture
from ablate.lm.model.ngram import fit, tuned
from ablate.lm.model.reading import sentence_log_probs

EOS = 3


class Irlm:
    """x_t = W[y_t] + r x_{t-1}, logits Z x_t, from the reference's weights."""

    def __init__(self, vectors):
        self.embedding = SimpleNamespace(weight=vectors["W"])
        self.device = vectors["W"].device
        self.recurrent, self.output = vectors["r"], vectors["Z"]

    def initial_state(self, rows):
        return (torch.zeros(1, rows, len(self.recurrent), dtype=torch.float64),)

    def __call__(self, ids_TB, state):
        x, actual = state[0][0], []
        for ids in ids_TB:
            x = self.embedding.weight[ids] + self.recurrent * x
            actual.append(x)
        mixture = Mixture(
            vectors_NJE=torch.cat(actual)[:, None],
            log_prior_NJ=None,
            weight_VE=self.output,
            bias_V=None,
        )
        return SimpleNamespace(mixture=mixture, state=(x[None],))


class Story:
    """Sentences of five words; the first determines the third."""

    separators = ()

    def __init__(self, num_words: int = 40, eos: int | None = EOS) -> None:
        self.num_words, self.eos = num_words, eos
        self.vocabulary = ["<unk>", "the", ".", "<eos>"]
        self.vocabulary += [f"word{number}" for number in range(4, num_words)]
        chance = torch.Generator().manual_seed(2)
        words = torch.randint(4, num_words, (30, 5), generator=chance)
        self.tokens = torch.cat([words, torch.full((30, 1), EOS)], 1).flatten().int()

    def stream(self, split):
        return self.tokens

    def counts(self):
        return torch.bincount(self.tokens, minlength=self.num_words)


def test_both_scores_are_the_references(golden):
    vectors = golden("irlm_reference")
    model = Irlm(vectors)
    all_units = sentence_log_probs([model], vectors["sentences"])
    np.testing.assert_allclose(all_units, vectors["score_all"].numpy(), rtol=1e-9)
    units = vectors["lcu"].nonzero()[:, 0]
    actual = long_unit_scores([model], vectors["sentences"], units)
    np.testing.assert_allclose(actual, vectors["score_lcu"].numpy(), rtol=1e-9)


@pytest.mark.parametrize("eos", [EOS, None])
def test_generated_questions_hide_one_word_among_four_others(eos):
    text = Story(eos=eos)
    questions = generated_questions(text.tokens, text, 12, Streams(5))
    assert len(questions) == (12 if eos else 9)  # 180 tokens in pieces of 20
    positions = set()
    for number, question in enumerate(questions):
        options = question.options_OT
        differing = [at for at in range(options.shape[1]) if len(set(options[:, at].tolist())) > 1]
        assert len(differing) == 1
        words = options[:, differing[0]].tolist()
        assert len(set(words)) == 5
        right = options[question.answer].tolist()
        if eos:
            assert EOS not in words
            assert right == [EOS, *text.tokens[6 * number : 6 * number + 6].tolist()]
        else:
            assert right == text.tokens[20 * number : 20 * number + 20].tolist()
        assert all(text.counts()[word] > 0 for word in words)
        positions.add(question.answer)
    assert len(positions) > 1
    again = generated_questions(text.tokens, text, 12, Streams(5))
    assert all(
        torch.equal(a.options_OT, b.options_OT) for a, b in zip(questions, again, strict=True)
    )
    other = generated_questions(text.tokens, text, 12, Streams(6))
    pairs = zip(questions, other, strict=True)
    assert not all(torch.equal(a.options_OT, b.options_OT) for a, b in pairs)


def test_others_are_drawn_by_their_frequency():
    """Drawn evenly, word 6 would be one of the other four in one question out of nine."""
    text = Story()
    rare = [word for number in range(7, 40) for word in (number, EOS)]
    text.tokens = torch.tensor([4, 5, EOS] * 100 + [6, 6, 6, EOS] * 100 + rare).int()
    questions = generated_questions(text.tokens[:300], text, 100, Streams(1))
    assert len(questions) == 100
    assert sum(6 in question.options_OT for question in questions) > 80


def test_accuracy_is_the_share_of_right_answers(build):
    text = Story()
    model = build({}, vocabulary=40).model
    evaluator = Completion(CompletionConfig(num_questions=20, seed=5))
    actual = evaluator.metrics(Reading([model], text), "completion", "test")
    right = 0
    for question in generated_questions(text.tokens, text, 20, Streams(5)):
        scores = [sentence_log_probs([model], option[None])[0] for option in question.options_OT]
        right += int(np.argmax(scores)) == question.answer
    assert actual == {"accuracy": right / 20, "num_questions": 20.0, "generated": 1.0}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "testing_data.csv").write_text(
        "id,question,a),b),c)\n"
        '1,"The word5 , _____ word6.",word7,word8,word9\n'
        "2,_____ word4 word5!,word9,nowhere,word4\n"
    )
    (tmp_path / "test_answer.csv").write_text("id,answer\n1,c\n2,a\n")
    return tmp_path


def test_the_published_format(folder):
    """Words take the vocabulary's case, a final mark is a token, other words are unknown."""
    first, second = read_questions(folder, Story())
    assert first.options_OT.tolist() == [[EOS, 1, 5, 0, word, 6, 2, EOS] for word in (7, 8, 9)]
    assert first.answer == 2
    assert second.options_OT.tolist() == [[EOS, word, 4, 5, 0, EOS] for word in (9, 0, 4)]
    assert second.answer == 0


def test_published_questions_are_asked_once(folder, build):
    evaluator = Completion(CompletionConfig(questions=str(folder)))
    reading = Reading([build({}, vocabulary=40).model], Story())
    assert evaluator.metrics(reading, "completion", "valid") == {}
    actual = evaluator.metrics(reading, "completion", "test")
    assert (actual["num_questions"], actual["generated"]) == (2.0, 0.0)
    assert actual["accuracy"] in (0.0, 0.5, 1.0)


def test_a_trials_identity_has_what_the_questions_are_and_not_where(folder, tmp_path_factory):
    def identity(questions) -> dict:
        return identity_fields(CompletionConfig(questions=str(questions)))

    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert identity(elsewhere) == {"questions": str(elsewhere)}  # nothing there: no trial completes
    for file in folder.glob("*.csv"):
        (elsewhere / file.name).write_bytes(file.read_bytes())
    assert identity(elsewhere) == identity(folder)
    assert str(folder) not in identity(folder).values()
    for name in ("test_answer.csv", "testing_data.csv"):
        before = identity(elsewhere)
        with (elsewhere / name).open("a") as file:
            file.write("\n")
        assert identity(elsewhere) != before


def test_a_block_of_an_rnn_answers_as_if_it_were_alone(build):
    """sum_t Z[y_t+1] . x_t over the block's units, x_t = max(0, W[y_t] + R x_t-1) within it."""
    blocks = {"backbone": "elman", "backbone.inputs": "embedding", "backbone.blocks": [3, 2]}
    sizes = {"embedding.size": 5, "backbone.units": 5, "head.bias": False}
    model, text = build({**blocks, **sizes}, vocabulary=40).model, Story()
    options = generated_questions(text.tokens, text, 1, Streams(0))[0].options_OT
    W, Z = model.embedding.weight.detach()[:, :3], model.head.decoder.weight.detach()[:, :3]
    R = model.backbone.weight_hh_l0_0.detach()
    expected = []
    for sentence in options.tolist():
        x, score = torch.zeros(3, dtype=W.dtype), 0.0
        for word, following in pairwise(sentence):
            x = (W[word] + R @ x).clamp(min=0)
            score += float(Z[following] @ x)
        expected.append(score)
    with torch.no_grad():
        actual = long_unit_scores([model], options, slice(0, 3))
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


TINY = [1, 2, EOS, 1, 2, EOS, 1, 4, EOS]  # a b . a b . a c .


def test_counts_answer_by_the_probability_of_each_sentence():
    """By hand. Distinct words before a: 1, b: 1, c: 1, end: 2, of 5; too few for estimates, so the
    discounts of counts 1, 2, 3 are 0.5, 1, 1.5. What they leave, a half, is even over 5 words:
    p(a) = p(b) = p(c) = 0.1 + 0.1, p(end) = 0.2 + 0.1.
    """
    text = Story(num_words=5)
    text.tokens = torch.tensor([1, 2, EOS])
    counts = tuned(fit(TINY, 5, EOS, order=2), cache_window=0, held_out=TINY)
    ended = {2: (2 - 1) / 2 + 1 / 2 * 0.3, 4: (1 - 0.5) / 1 + 0.5 / 1 * 0.3, 1: 1.5 / 3 * 0.3}
    after_a = {2: (2 - 1) / 3 + 1.5 / 3 * 0.2, 4: (1 - 0.5) / 3 + 1.5 / 3 * 0.2, 1: 1.5 / 3 * 0.2}
    begun = (3 - 1.5) / 3 + 1.5 / 3 * 0.2
    by_hand = {word: np.log(begun * after_a[word] * ended[word]) for word in (1, 2, 4)}
    options = torch.tensor([[EOS, 1, word, EOS] for word in (1, 2, 4)])
    evaluator, reading = Completion(CompletionConfig()), Reading((), text, counts=counts)
    scores = evaluator._scores(reading, Question(options, 1))
    np.testing.assert_allclose(scores, [by_hand[word] for word in (1, 2, 4)], rtol=1e-12)
    assert scores.argmax() == 1, "a b is what the text says"


@pytest.mark.parametrize(
    ("columns", "row", "message"),
    [
        ("number,question,a),b)", "1,_____ word1,word2,word3", "cannot be read ('id')"),
        ("id,sentence,a),b),c)", "1,_____ word1,word2,word3,word4", "cannot be read ('question')"),
        ("id,question,a),b)", "1,_____ word1,word2", "question 1 has more or fewer fields"),
        ("id,question,a),b)", "1,_____ word1,word2,word3,word4", "question 1 has more or fewer"),
    ],
)
def test_a_damaged_file_of_questions_is_refused(folder, columns, row, message):
    (folder / "testing_data.csv").write_text(f"{columns}\n{row}\n")
    with pytest.raises(CorpusError, match=re.escape(message)):
        read_questions(folder, Story())


def test_counts_have_no_units():
    counts = tuned(fit(TINY, 5, EOS, order=2), cache_window=0, held_out=TINY)
    evaluator = Completion(CompletionConfig(score="long_units", units=(0, 2)))
    with pytest.raises(CombinationError, match="an n-gram model has none"):
        evaluator.metrics(Reading((), Story(), counts=counts), "completion", "test")


def test_what_cannot_be_is_told(folder, build):
    with pytest.raises(CombinationError, match="needs a range of units"):
        Completion(CompletionConfig(score="long_units"))
    mos = build({"head": "mos", "head.experts": 2}, vocabulary=40).model
    evaluator = Completion(CompletionConfig(score="long_units", units=(0, 2)))
    with pytest.raises(CombinationError, match="with one expert"):
        evaluator.metrics(Reading([mos], Story()), "completion", "test")
    text = Story()
    text.vocabulary[0] = "word0"
    with pytest.raises(CorpusError, match="the word ',' of a question"):
        read_questions(folder, text)
    (folder / "test_answer.csv").write_text("id,answer\n1,f\n")
    with pytest.raises(CorpusError, match=r"question 1 .* among a\), b\), c\)"):
        read_questions(folder, Story())
    (folder / "testing_data.csv").unlink()
    with pytest.raises(CorpusError, match="cannot be read"):
        read_questions(folder, Story())
