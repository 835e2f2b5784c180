"""Latent Dirichlet allocation on texts whose topics are known."""

from __future__ import annotations

import torch

from ablate.lm.model import topics
from ablate.lm.model.topics import LdaSettings, document_counts, one_pass, word_topics

EOS, TOPICS, OF_TOPIC = 0, 4, 8  # words 1 to 8 are of the first topic, and so on
LDA = LdaSettings(topics=TOPICS, sentences=3, prior=0.025, passes=60, seed=1)
V = 1 + TOPICS * OF_TOPIC + 2  # and a word of all topics, and one that never comes


def text_of_topics(num_documents=120, seed=3):
    """Documents of three sentences; each has two topics, and one word in ten is of all topics."""
    chance = torch.Generator().manual_seed(seed)
    tokens = []
    for _ in range(num_documents):
        own = torch.randperm(TOPICS, generator=chance)[:2]
        for _ in range(3):
            of = own[torch.randint(2, (12,), generator=chance)]
            words = 1 + of * OF_TOPIC + torch.randint(OF_TOPIC, (12,), generator=chance)
            words[torch.rand(12, generator=chance) < 0.1] = V - 2
            tokens += [*words.tolist(), EOS]
    return torch.tensor(tokens, dtype=torch.int32)


def test_it_finds_the_groups_of_words_that_made_a_text():
    found_VK = word_topics(text_of_topics(), V, EOS, LDA)
    groups = found_VK[1 : 1 + TOPICS * OF_TOPIC].argmax(1).view(TOPICS, OF_TOPIC)
    assert all(len(set(group.tolist())) == 1 for group in groups), "the words of a topic together"
    assert len(set(groups[:, 0].tolist())) == TOPICS, "and apart from those of others"
    assert found_VK[1 : 1 + TOPICS * OF_TOPIC].max(1).values.min() > 0.8


def test_the_same_text_is_estimated_once(monkeypatch):
    passes = []
    monkeypatch.setattr(topics, "one_pass", lambda *args: passes.append(1) or one_pass(*args))
    topics._estimated.cache_clear()
    for _ in range(2):
        word_topics(text_of_topics(), V, EOS, LDA)
    assert len(passes) == LDA.passes
    word_topics(text_of_topics(seed=4), V, EOS, LDA)
    assert len(passes) == 2 * LDA.passes


def test_documents_are_sentences_in_a_row_without_their_ends():
    tokens = torch.tensor([1, 2, 0, 2, 2, 0, 3, 0, 1])
    assert document_counts(tokens, 4, EOS, 2).to_dense().tolist() == [[0, 1, 3, 0], [0, 1, 0, 1]]
    assert document_counts(tokens, 4, 3, 5).to_dense().tolist() == [[3, 2, 3, 0]]
    without = document_counts(torch.arange(45), 45, None, 2).to_dense()
    assert without.sum(1).tolist() == [40, 5] and without.sum() == without[0, :40].sum() + 5


def test_a_pass_is_that_of_the_formulas(monkeypatch):
    """A slow reading, document by document and word by word; also in several chunks."""
    counts = document_counts(text_of_topics(5), V, EOS, 3)
    chance = torch.Generator().manual_seed(1)
    gamma = torch.rand(len(counts), TOPICS, generator=chance, dtype=torch.float64) + 1
    lam = torch.rand(V, TOPICS, generator=chance, dtype=torch.float64) + 1
    expected_gamma = torch.full_like(gamma, 0.3)
    expected_lam = torch.full_like(lam, 0.3)
    for d, row in enumerate(counts.to_dense()):
        for w, count in enumerate(row):
            log_q = gamma[d].digamma() + lam[w].digamma() - lam.sum(0).digamma()
            expected_gamma[d] += count * log_q.softmax(0)
            expected_lam[w] += count * log_q.softmax(0)
    monkeypatch.setattr(topics, "CHUNK", 7)
    actual_gamma, actual_lam = one_pass(counts, gamma, lam, 0.3)
    torch.testing.assert_close(actual_gamma, expected_gamma)
    torch.testing.assert_close(actual_lam, expected_lam)
