"""Gates against the golden reference of Eq. 6-8, and the table against the trial's weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate import papers
from ablate.errors import CombinationError, ConfigError
from ablate.lm.analysis import gate_words
from ablate.trial.checkpoint import read_weights


def test_the_golden_gates(vector):
    golden = {name: torch.from_numpy(array) for name, array in vector("iog_reference").items()}
    vectors = golden["E_g"][golden["x"]]
    gates = gate_words.gate_values(vectors, golden["W_g"], golden["b_g"])
    np.testing.assert_allclose(gates, golden["gate"], rtol=1e-12)


def test_the_table_is_a_sort_of_the_gates(doc):
    the = doc.corpus.vocabulary.index("the")
    options = gate_words.GateWordsOptions(words=("the",), num=4)
    finding = gate_words.run(doc, options)
    weights = {n: w.double().numpy() for n, w in read_weights(doc.store, doc.id).items()}
    scores = weights["gate.output.weight"] @ weights["gate.embedding.weight"][the]
    gates = 1 / (1 + np.exp(-scores - weights["gate.output.bias"]))
    order = np.argsort(-gates)[:4]
    assert [row[2] for row in finding.rows] == [doc.corpus.vocabulary[i] for i in order]
    np.testing.assert_allclose([row[3] for row in finding.rows], gates[order], rtol=1e-10)
    assert [row[:2] for row in finding.rows] == [["the", rank] for rank in (1, 2, 3, 4)]


def test_an_unknown_word_and_a_trial_without_a_gate_are_refused(doc, irlm):
    with pytest.raises(ConfigError, match=r"has no 'thee'\. Did you mean 'the'\?"):
        gate_words.run(doc, gate_words.GateWordsOptions(words=("thee",)))
    with pytest.raises(CombinationError, match="gate = 'none', and this analysis is about iog"):
        gate_words.run(irlm, gate_words.GateWordsOptions())


def test_the_paper_s_words_stand_beside(doc, monkeypatch):
    listed = papers.Words(table="", model="IOG", corpus="", after="the", words=("cat", "dog"))
    monkeypatch.setattr(papers, "words", lambda paper, table: {"the": [listed]})
    finding = gate_words.run(doc, gate_words.GateWordsOptions(published=True, num=3))
    assert finding.columns[-1] == "paper"
    assert [(row[0], row[-1]) for row in finding.rows] == [
        ("the", "cat"),
        ("the", "dog"),
        ("the", None),
    ]
