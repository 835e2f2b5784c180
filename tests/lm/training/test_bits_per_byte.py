"""Bits per byte, as trials report them: a loop in float64 over a tiny text finds the same."""

from __future__ import annotations

import dataclasses
import math
import random

import numpy as np
import pytest
import torch

from ablate.config.metrics import BITS_PER_BYTE, from_plain
from ablate.config.resolve import resolve
from ablate.lm.data.corpus import open_corpus
from ablate.lm.data.pairs import Ragged
from ablate.lm.data.published import SPLITS
from ablate.lm.model.mixture import log_probs
from ablate.lm.model.reading import in_float64, stream_log_probs
from ablate.lm.model.sentences import forced, pair_batch
from ablate.lm.training.counting import Counting
from ablate.lm.training.training import Training
from ablate.store.store import Store
from ablate.trial.task import Place
from tests.support import trials

LEVELS = ("word", "character", "byte", "bpe")
CUT = ("a the", "a tha")
TEXT = "the cat sat\nthe dog  ran \n\nthe cat ran, the dog sat\n"


@pytest.fixture
def values(tmp_path):
    folder = tmp_path / "text"
    folder.mkdir()
    for split in SPLITS:
        (folder / f"{split}.txt").write_text(TEXT * (20 if split == "train" else 2))
    return {
        "corpus.name": str(folder),
        "corpus.merges": 12,
        "embedding.size": 8,
        "backbone": "lstm",
        "backbone.units": 8,
        "head": "softmax",
        "optimizer": "sgd",
        "training.batch_size": 2,
        "training.window": 10,
        "training.valid_batch_size": 2,
    }


def trained(values, tmp_path):
    trial = trials.made(values, str(tmp_path / "data"))
    training = Training(trial, Place(Store(str(tmp_path / "store")), str(tmp_path / "data")))
    return training, training.advance(math.inf)


@pytest.mark.parametrize("level", LEVELS)
def test_a_loop_finds_the_same_and_probabilities_sum_to_1(level, values, tmp_path):
    training, epoch = trained({**values, "corpus.level": level}, tmp_path)
    found = training.conclude().metrics
    model = in_float64(training.model)
    tokens = open_corpus(training.config.corpus, tmp_path / "data").splits["test"].tolist()
    nats = 0.0
    for number in range(1, len(tokens)):  # each from its whole past, read afresh
        past = torch.tensor(tokens[:number])[:, None]
        with torch.no_grad():
            p_V = log_probs(model(past, model.initial_state(1)).mixture)[-1].exp()
        assert p_V.sum().item() == pytest.approx(1, abs=1e-12)
        nats -= math.log(p_V[tokens[number]])
    # The first token, which nothing predicts, is charged the mean.
    total = nats * len(tokens) / (len(tokens) - 1)
    expected = total / (math.log(2) * len((TEXT * 2).encode()))
    assert found["test_bits_per_byte"] == pytest.approx(expected, rel=1e-5)
    per_token = epoch["valid_nll"] / math.log(2)
    assert epoch["valid_bits_per_byte"] * 2 * len(TEXT) == pytest.approx(per_token * len(tokens))


@pytest.mark.parametrize("level", ["byte", "bpe"])
def test_a_later_token_changes_no_earlier_one_s_loss(level, values, tmp_path):
    """Causal within a tokenization: a later byte may change how the bytes before it are cut."""
    training, _ = trained({**values, "corpus.level": level}, tmp_path)
    tokens = training.corpus.stream("test").clone()
    before = stream_log_probs(training.model, tokens, 1, 200)
    at = len(tokens) // 2
    tokens[at] = (tokens[at] + 1) % training.corpus.num_words
    after = stream_log_probs(training.model, tokens, 1, 200)
    np.testing.assert_array_equal(before[: at - 1], after[: at - 1])
    assert before[at - 1] != after[at - 1]


def test_a_later_byte_can_change_how_the_bytes_before_it_are_cut(values, tmp_path):
    """What byte-pair tokens are: the losses of two texts compare as sums over whole texts."""
    corpus = open_corpus(resolve({**values, "corpus.level": "bpe"}).corpus, tmp_path)
    one, other = (list(map(corpus.vocabulary.__getitem__, corpus.tokens_of(t))) for t in CUT)
    assert one == ["a", "Ġ", "the"] and other == ["a", "Ġ", "t", "h", "a"]


def test_a_model_of_words_is_not_the_winner_because_it_knows_the_test_text(tmp_path):
    """Bigrams of words, one test word in six new: by bytes, they cost more than pairs of bytes."""
    folder, draw = tmp_path / "own", random.Random(1)
    folder.mkdir()
    stems = ["".join(draw.choices("aeiknorst", k=4)) for _ in range(30)]
    for split, lines in {"train": 400, "valid": 60, "test": 60}.items():
        words = [draw.choice(stems) + draw.choice(stems) for _ in range(lines * 6)]
        text = "".join(" ".join(words[n : n + 6]) + "\n" for n in range(0, len(words), 6))
        (folder / f"{split}.txt").write_text(text)
    found, free = {}, {}
    for level, order in (("word", 2), ("byte", 6), ("bpe", 3)):
        chosen = {"corpus.name": str(folder), "corpus.level": level, "corpus.merges": 60}
        trial = trials.made({"model": "ngram", "ngram.order": order, **chosen}, str(tmp_path))
        metrics = Counting(trial, Place(Store(str(tmp_path)), str(tmp_path))).conclude().metrics
        found[level] = metrics["test_bits_per_byte"]
        num_tokens = len(open_corpus(trial.config.corpus, tmp_path).splits["test"])
        num_bytes = (folder / "test.txt").stat().st_size
        free[level] = metrics["test_nll"] * num_tokens / num_bytes / math.log(2)
    train, test = ((folder / f"{s}.txt").read_text().split() for s in ("train", "test"))
    lost = [word for word in test if word not in set(train)]
    assert 0.05 < len(lost) / len(test) < 0.25
    spelled = sum(len(word) + 1 for word in lost) * math.log2(257)
    assert found["word"] == pytest.approx(free["word"] + spelled / num_bytes)
    assert (found["byte"], found["bpe"]) == pytest.approx((free["byte"], free["bpe"]))
    assert free["word"] < min(found["byte"], found["bpe"]), "charged nothing, words win"
    assert found["word"] > max(found["byte"], found["bpe"])


def test_an_n_gram_model_and_every_evaluator_of_text_report_them(values, tmp_path):
    (tmp_path / "store").mkdir()
    chosen = {**values, "corpus.level": "bpe", "evaluator.dynamic.window": 5}
    metrics = trained({**chosen, "evaluator": "standard"}, tmp_path)[0].conclude().metrics
    assert {"valid_bits_per_byte", "dynamic.valid_bits_per_byte"} <= metrics.keys()
    counted = {"model": "ngram", "corpus.name": values["corpus.name"], "ngram.order": 2}
    journal = trials.finish(
        trials.made(counted, str(tmp_path / "data")),
        Store(str(tmp_path / "store")),
        str(tmp_path / "data"),
    )
    words = len((TEXT * 2).split()) + TEXT.count("\n") * 2
    nll, bits = (journal.outcome.metrics[f"test_{name}"] for name in ("nll", "bits_per_byte"))
    assert bits * len(TEXT) * 2 * math.log(2) == pytest.approx(nll * words)


def test_of_pairs_it_is_what_the_targets_cost_given_the_sources(values, tmp_path):
    """A loop over sentences and tokens, each from its own past, finds the same; and the words that
    the vocabulary lacks are spelled."""
    folder, sources = tmp_path / "pairs", ["a cat", "the dog ran", "a dog"]
    folder.mkdir()
    targets = {"train": ["le chat", "un chien court", "chien"], "test": ["un rat", "le", "chien"]}
    for split in SPLITS:
        for ending, lines in (("src", sources), ("tgt", targets.get(split, targets["train"]))):
            (folder / f"{split}.{ending}").write_text("".join(f"{line}\n" for line in lines))
    mine = {k: v for k, v in values.items() if not k.startswith(("corpus", "training"))}
    chosen = {"task": "encoder_decoder", "corpus.name": str(folder), "encoder.units": 8, **mine}
    training, epoch = trained(chosen, tmp_path)
    found = training.conclude().metrics
    pairs, model, bits = training.corpus, in_float64(training.model), 0.0
    for source, target in zip(*pairs.sentences("test"), strict=True):
        for number, token in enumerate(target.tolist()):
            one = [Ragged(side, torch.tensor([0, len(side)])) for side in (source, target)]
            one[1] = Ragged(target[: number + 1], torch.tensor([0, number + 1]))
            batch = pair_batch(*one, torch.zeros(1, dtype=torch.long), pairs.eos, "cpu")
            with torch.no_grad():
                p_V = log_probs(forced(model, batch).mixture)[-1].exp()
            assert p_V.sum().item() == pytest.approx(1, abs=1e-12)
            bits -= math.log2(p_V[token])
    num_bytes = len(b"un rat\nle\nchien\n")
    bits += len("rat.") * math.log2(257)
    assert found["test_bits_per_byte"] == pytest.approx(bits / num_bytes, rel=1e-5)
    assert epoch is not None and "valid_bits_per_byte" in {*epoch} & {*found}


def test_lower_is_better_and_no_record_changes_it():
    assert BITS_PER_BYTE.loss(1.5) == 1.5 == BITS_PER_BYTE.show(1.5)
    assert from_plain(dataclasses.asdict(BITS_PER_BYTE)) == BITS_PER_BYTE
