"""A table of word vectors: one for every word of the vocabulary."""

from __future__ import annotations

from typing import final

from ablate.lm.components import Shapes, register
from ablate.lm.model.language_model import Embedding
from ablate.lm.sections import EmbeddingConfig


@register("words", "table")
@final
class Table(Embedding):
    """Every word has a vector of its own."""

    def __init__(self, config: object, shapes: Shapes, embedding: EmbeddingConfig) -> None:
        bounds = embedding.initial_range, embedding.initial_center
        super().__init__(shapes.vocabulary, shapes.embedding, *bounds)
