"""The contracts of what makes word vectors."""

from __future__ import annotations

import torch

from ablate.lm.testing.subject import ROWS, STEPS, WIDTH, Subject, require


def vectors_have_the_size(subject: Subject) -> None:
    """There is one vector for each token, of the size that the config says."""
    small = subject.small()
    vectors_TBE = small.model.embedding(small.ids)
    shape = tuple(vectors_TBE.shape)
    size = subject.values.get("embedding.size", WIDTH)
    require(shape == (STEPS, ROWS, size), f"vectors of shape {shape}.")


def matrix_has_the_same_vectors(subject: Subject) -> None:
    """The matrix of all words has the vectors that tokens have."""
    small = subject.small()
    matrix_VE, vectors_TBE = small.model.embedding.matrix(), small.model.embedding(small.ids)
    require(len(matrix_VE) == small.model.embedding.num_words, f"{len(matrix_VE)} rows.")
    torch.testing.assert_close(matrix_VE[small.ids], vectors_TBE)
