"""Topics of words by latent Dirichlet allocation (Blei, Ng & Jordan 2003), estimated on one text.

    a word w of document d is of topic k with    q_dwk ~ exp(E log theta_dk + E log beta_kw)
    gamma_dk  = a + sum_w count_dw q_dwk         theta_d ~ Dirichlet(gamma_d), a document's topics
    lambda_kw = a + sum_d count_dw q_dwk         beta_k ~ Dirichlet(lambda_k), a topic's words

This is mean-field variational inference: every pass computes all q, and from these all gamma and
lambda. A document is some sentences in a row, without the tokens that end them; a text without
sentences counts 20 tokens as one.

Shape suffixes: D documents, V words, K topics, P pairs of a document and a word in it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor

PIECE = 20  # tokens per sentence if the text has no sentences
CHUNK = 100_000  # pairs at a time


@dataclass(frozen=True, kw_only=True)
class LdaSettings:
    """How topics are estimated."""

    topics: int
    sentences: int  # in a document
    prior: float  # a, of both Dirichlet distributions
    passes: int
    seed: int  # of the documents that topics start from


@dataclass(frozen=True)
class _Text:
    """A text, equal to another with the same tokens."""

    digest: str
    num_words: int
    eos: int | None
    tokens_N: Tensor = field(compare=False, repr=False)


def word_topics(tokens_N: Tensor, num_words: int, eos: int | None, lda: LdaSettings) -> Tensor:
    """P(topic | word) in the text, [V, K], in float64; uniform for a word that it does not have.

    Estimated once per process for the same tokens and settings.
    """
    digest = hashlib.sha256(tokens_N.numpy().tobytes()).hexdigest()
    return _estimated(_Text(digest, num_words, eos, tokens_N), lda)


@lru_cache(maxsize=4)
@torch.no_grad()
def _estimated(text: _Text, lda: LdaSettings) -> Tensor:
    counts_DV = document_counts(text.tokens_N, text.num_words, text.eos, lda.sentences)
    lambda_VK = first_topics(counts_DV, lda)
    gamma_DK = torch.ones(len(counts_DV), lda.topics, dtype=torch.float64)
    for _ in range(lda.passes):
        gamma_DK, lambda_VK = one_pass(counts_DV, gamma_DK, lambda_VK, lda.prior)
    return lambda_VK / lambda_VK.sum(1, keepdim=True)


def document_counts(tokens_N: Tensor, num_words: int, eos: int | None, sentences: int) -> Tensor:
    """How often each document has each word: a sparse matrix, [D, V]."""
    if eos is None:
        is_end_N = torch.arange(len(tokens_N)) % PIECE == PIECE - 1
        is_word_N = torch.ones_like(is_end_N)
    else:
        is_end_N = tokens_N == eos
        is_word_N = ~is_end_N
    ended_N = is_end_N.cumsum(0) - is_end_N.long()  # sentences before each token
    document_N = ended_N // sentences
    pairs_2N = torch.stack((document_N, tokens_N.long()))[:, is_word_N]
    ones_N = torch.ones(pairs_2N.shape[1], dtype=torch.float64)
    shape = (int(document_N[-1]) + 1, num_words)
    # Without `check_invariants` torch warns that it checks nothing.
    return torch.sparse_coo_tensor(pairs_2N, ones_N, shape, check_invariants=True).coalesce()


def first_topics(counts_DV: Tensor, lda: LdaSettings) -> Tensor:
    """The lambda to start from: each document's words are of one topic, drawn at random."""
    chance = torch.Generator().manual_seed(lda.seed)
    drawn_D = torch.randint(lda.topics, (len(counts_DV),), generator=chance)
    one_hot_DK = torch.nn.functional.one_hot(drawn_D, lda.topics).double()
    return lda.prior + torch.sparse.mm(counts_DV.t(), one_hot_DK)


def one_pass(
    counts_DV: Tensor, gamma_DK: Tensor, lambda_VK: Tensor, prior: float
) -> tuple[Tensor, Tensor]:
    """The next gamma and lambda."""
    theta_DK = (gamma_DK.digamma() - gamma_DK.sum(1, keepdim=True).digamma()).exp()
    beta_VK = (lambda_VK.digamma() - lambda_VK.sum(0).digamma()).exp()
    document_P, word_P = counts_DV.indices()
    total_P = torch.cat(
        [
            (theta_DK[documents] * beta_VK[words]).sum(1)
            for documents, words in zip(document_P.split(CHUNK), word_P.split(CHUNK), strict=True)
        ]
    )
    share_DV = torch.sparse_coo_tensor(
        counts_DV.indices(),
        counts_DV.values() / total_P,
        counts_DV.shape,
        is_coalesced=True,
        check_invariants=True,
    )
    of_documents_DK = theta_DK * torch.sparse.mm(share_DV, beta_VK)
    of_words_VK = beta_VK * torch.sparse.mm(share_DV.t(), theta_DK)
    return prior + of_documents_DK, prior + of_words_VK
