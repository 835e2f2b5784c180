"""Choosing among candidates: each one's probability read alone, weights, and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from ablate.config.fields import identity_fields
from ablate.errors import CombinationError, CorpusError
from ablate.lm.components.evaluator.rerank import (
    Rerank,
    RerankConfig,
    padded,
)
from ablate.lm.model.evaluator import Reading
from ablate.lm.model.mixture import log_probs
from ablate.lm.model.reading import sentence_log_probs
from ablate.lm.parsing.bracketing import count_brackets, total
from ablate.lm.parsing.n_best import Candidate, written
from ablate.lm.parsing.trees import Tree, linearised

EOS = 0
LABELS = ("S", "NP", "VP", "PP")
WORDS = tuple(f"w{i}" for i in range(8))
VOCABULARY = ("<eos>", *(f"({x}" for x in LABELS), *(f"{x})" for x in LABELS), *WORDS)


def flat(label: str, *parts: Tree | str) -> Tree:
    return Tree(label, tuple(Tree("T", word=p) if isinstance(p, str) else p for p in parts))


GOLD = [
    flat("S", flat("NP", "w0"), flat("VP", "w1", flat("NP", "w2"))),
    flat("S", "w3", flat("VP", "w4")),
    flat("S", flat("NP", "w5", flat("PP", "w6"))),
]
LISTS = [
    [
        Candidate(-1.0, flat("S", flat("NP", "w0", "w1", "w2"))),
        Candidate(-2.0, flat("S", "w0", flat("VP", "w1", flat("NP", "w2")))),
        Candidate(-5.0, GOLD[0]),
    ],
    [Candidate(-1.0, flat("S", "w3", "w4")), Candidate(-1.5, GOLD[1])],
    [Candidate(-1.0, GOLD[2])],
]


class Parsed:
    """Three trees, the same in each split; the folder has their candidates."""

    separators = ()
    num_words, eos, vocabulary = len(VOCABULARY), EOS, VOCABULARY

    def __init__(self, folder, number=3):
        self.folder, self.number = folder, number

    def trees(self, split):
        return GOLD

    def num_sentences(self, split):
        return self.number

    def tree_ids(self, tree):
        return [VOCABULARY.index(token) for token in linearised(tree)]

    def candidates_folder(self, num):
        return self.folder


@pytest.fixture
def folder(tmp_path):
    for split in ("valid", "test"):
        (tmp_path / f"{split}.nbest").write_text("\n".join(written(LISTS)))
    return tmp_path


@pytest.fixture
def models(build):
    """Two models that differ, with sharp predictions."""
    made = [build({}, vocabulary=len(VOCABULARY)).model for _ in range(2)]
    for seed, model in enumerate(made):
        chance = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weights in model.parameters():
                weights.copy_(torch.randn(weights.shape, generator=chance, dtype=weights.dtype))
    return made


def alone(models, text, tree):
    """ln p of one tree by whole distributions, read a token at a time, averaged over models."""
    ids = [EOS, *text.tree_ids(tree), EOS]
    score, states = 0.0, [model.initial_state(1) for model in models]
    for token, following in itertools.pairwise(ids):
        probabilities = []
        for index, model in enumerate(models):
            passed = model(torch.tensor([[token]]), states[index])
            states[index] = passed.state
            probabilities.append(log_probs(passed.mixture)[0, following].exp().item())
        score += np.log(np.mean(probabilities))
    return score


@torch.no_grad()
def test_padded_trees_have_the_probability_that_each_has_alone(models, folder):
    text = Parsed(folder)
    trees = [candidate.tree for candidates in LISTS for candidate in candidates]
    expected = [alone(models, text, tree) for tree in trees]
    rows = padded([text.tree_ids(tree) for tree in trees], EOS)
    np.testing.assert_allclose(sentence_log_probs(models, *rows), expected, rtol=1e-9)


@torch.no_grad()
@pytest.mark.parametrize("number", [1, 2])
def test_the_most_probable_tree_of_all_models_is_taken(models, folder, number):
    text, models = Parsed(folder), models[:number]
    actual = Rerank(RerankConfig()).metrics(Reading(models, text), "rerank", "test")
    chosen = [max(each, key=lambda c: alone(models, text, c.tree)) for each in LISTS]
    f1 = total(count_brackets(g, c.tree) for g, c in zip(GOLD, chosen, strict=True)).f1
    first = total(count_brackets(g, each[0].tree) for g, each in zip(GOLD, LISTS, strict=True)).f1
    assert actual == {
        "bracket_f1": pytest.approx(f1),
        "oracle_f1": 100.0,
        "first_f1": pytest.approx(first),
        "num_sentences": 3.0,
    }
    assert first < 100


def test_the_parser_alone_takes_its_first_candidates(models, folder):
    evaluator = Rerank(RerankConfig(parser_weight=1.0))
    actual = evaluator.metrics(Reading(models, Parsed(folder)), "rerank", "valid")
    assert actual["bracket_f1"] == actual["first_f1"]


def test_only_the_first_candidates_and_the_sentences_of_the_slice_are_read(models, folder):
    reading = Reading(models, Parsed(folder, number=2))
    actual = Rerank(RerankConfig(num_candidates=2)).metrics(reading, "rerank", "test")
    assert actual["num_sentences"] == 2
    best = (count_brackets(GOLD[0], LISTS[0][1].tree), count_brackets(GOLD[1], GOLD[1]))
    assert actual["oracle_f1"] == pytest.approx(total(best).f1)


def test_the_tuned_weight_is_the_best_of_validation(models, folder):
    text = Parsed(folder)
    tuned = Rerank(RerankConfig(tune_weight=True))
    actual = tuned.metrics(Reading(models, text), "rerank", "valid")
    given = {
        weight: Rerank(RerankConfig(parser_weight=weight)).metrics(
            Reading(models, text), "rerank", "valid"
        )["bracket_f1"]
        for weight in np.linspace(0, 1, 21)
    }
    assert actual["bracket_f1"] == max(given.values()) == given[actual["parser_weight"]]
    assert tuned.metrics(Reading(models, text), "rerank", "test")["parser_weight"] == pytest.approx(
        actual["parser_weight"]
    )


def test_files_are_checked_before_anything_trains(folder, tmp_path_factory):
    text, given = Parsed(folder), tmp_path_factory.mktemp("given")
    evaluator = Rerank(RerankConfig(candidates=str(given)))
    with pytest.raises(CorpusError, match=r"there is no .*valid\.nbest"):
        evaluator.check_text(text)
    for file in folder.glob("*.nbest"):
        (given / file.name).write_bytes(file.read_bytes())
    evaluator.check_text(text)
    changed = (given / "test.nbest").read_text().replace("w6", "w7")
    (given / "test.nbest").write_text(changed)
    with pytest.raises(CorpusError, match=r"test\.nbest, line 17: .* sentence 3 .* 'w7' where"):
        evaluator.check_text(text)


def test_a_text_without_trees_or_sentences_is_refused(models, folder):
    class Words:
        eos = EOS

    with pytest.raises(CombinationError, match="chooses among trees, and the corpus has none"):
        Rerank(RerankConfig()).check_text(Words())
    reading = Reading(models, Parsed(folder, number=0))
    with pytest.raises(CorpusError, match="no whole sentence in the test split"):
        Rerank(RerankConfig()).metrics(reading, "rerank", "test")
    with pytest.raises(CombinationError, match="rerank"):
        Rerank(RerankConfig()).token_log_probs(reading, "test")


def test_a_trials_identity_has_what_the_lists_are_and_not_where(folder, tmp_path_factory):
    def identity(place) -> dict:
        return identity_fields(RerankConfig(candidates=str(place)))

    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert identity(elsewhere) == {"candidates": str(elsewhere)}
    for file in folder.glob("*.nbest"):
        (elsewhere / file.name).write_bytes(file.read_bytes())
    assert identity(elsewhere) == identity(folder) != {"candidates": str(folder)}
    (elsewhere / "test.nbest").write_text("1 0\n")
    assert identity(elsewhere) != identity(folder)
