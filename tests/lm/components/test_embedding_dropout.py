"""Dropout of whole words against the public code's numbers."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from ablate.lm.components.regularizer.embedding_dropout import (
    EmbeddingDropout,
    EmbeddingDropoutConfig,
)


def test_it_is_the_public_code(golden, fixed_chance):
    vectors = golden("embedded_dropout")
    mask = vectors["row_mask"].nan_to_num(0.0)[:, None]  # words that do not occur have none
    chance = fixed_chance({"embedding_dropout": mask})
    embedded = F.embedding(vectors["ids"], vectors["weight"])
    regularizer = EmbeddingDropout(EmbeddingDropoutConfig(rate=0.3))
    actual = regularizer.words(vectors["ids"], embedded, 15, chance)
    torch.testing.assert_close(actual, vectors["y"])
    assert chance.requested == {"embedding_dropout": ((15, 1), 0.3)}


def test_a_tied_decoder_keeps_every_word(build):
    from ablate.config.streams import Streams
    from ablate.lm.model.masks import Chance, Masks

    values = {"head.tied": True, "backbone.units": 6, "regularizer.embedding_dropout.rate": 0.5}
    assembly = build(values)
    model, ids = assembly.model, torch.arange(22).view(11, 2)
    passed = model(ids, model.initial_state(2), Masks(assembly.regularizers, Chance(Streams(1), 0)))
    assert passed.mixture.weight_VE is model.embedding.weight
    dropped = (passed.features.inputs_TBE == 0).all(-1)
    assert 0 < dropped.sum() < 22
    assert not (passed.features.embedded_TBE == 0).all(-1).any()


def test_a_row_drops_words_of_its_own(fixed_chance):
    """Gal's masks: one per word type and row, the same wherever the word occurs in the row."""
    ids = torch.tensor([[0, 2], [1, 0], [0, 1], [2, 2]])
    mask_VB = torch.tensor([[0.0, 2.0], [2.0, 2.0], [2.0, 0.0]])
    chance = fixed_chance({"embedding_dropout/row": mask_VB})
    embedded = torch.randn(4, 2, 5)
    regularizer = EmbeddingDropout(EmbeddingDropoutConfig(rate=0.5, per_row=True))
    actual = regularizer.words(ids, embedded, 3, chance)
    factors = torch.tensor([[0, 0], [2, 2], [0, 2], [2, 0]])
    torch.testing.assert_close(actual, embedded * factors[..., None])
    assert chance.requested == {"embedding_dropout/row": ((3, 2), 0.5)}
