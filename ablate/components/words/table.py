"""A table of word vectors: one for every word of the vocabulary."""

from __future__ import annotations

from typing import final

from ablate.components import Shapes, register
from ablate.model.language_model import Embedding


@register("words", "table")
@final
class Table(Embedding):
    """Every word has a vector of its own."""

    def __init__(self, config: object, shapes: Shapes, initial_range: float) -> None:
        super().__init__(shapes.vocabulary, shapes.embedding, initial_range)
