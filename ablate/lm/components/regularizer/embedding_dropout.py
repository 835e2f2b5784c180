"""Dropout of whole words: every occurrence of a word, or none (Gal & Ghahramani 2016).

As AWD-LSTM uses it (Merity et al. 2018, Section 4.3): one mask over the vocabulary for the whole
mini-batch; a tied output matrix is not masked. Gal & Ghahramani draw one mask over the vocabulary
per row of the mini-batch (`per_row`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from torch import Tensor
from torch.nn import functional as F

from ablate.lm.components import Chance, Regularizer, register, setting


@dataclass(frozen=True, kw_only=True)
class EmbeddingDropoutConfig:
    """The share of words dropped. 0 is the identity."""

    rate: float = setting(0.0, doc="share of word types dropped (dropoute)", low=0, high=0.99)
    per_row: bool = setting(False, doc="draw a separate mask for each row of the batch (Gal)")

    @property
    def off(self) -> bool:
        """Return whether no word is dropped."""
        return self.rate == 0


def drop_words(ids_TB: Tensor, embedded_TBE: Tensor, mask_V1: Tensor) -> Tensor:
    """Each word vector times its word's mask."""
    return embedded_TBE * F.embedding(ids_TB, mask_V1)


def drop_words_by_row(ids_TB: Tensor, embedded_TBE: Tensor, mask_VB: Tensor) -> Tensor:
    """Each word vector times its word's mask in its row."""
    return embedded_TBE * mask_VB.gather(0, ids_TB)[..., None]


@register(
    "regularizer",
    "embedding_dropout",
    config=EmbeddingDropoutConfig,
    paper="merity2018awd",
    equation="Section 4.3",
)
@final
class EmbeddingDropout(Regularizer):
    """One mask over word types per window."""

    def __init__(self, config: EmbeddingDropoutConfig) -> None:
        self.rate = config.rate
        self.per_row = config.per_row

    @property
    def acts_on(self) -> Mapping[str, str]:
        return {"rate": "words"} if self.rate else {}

    def words(self, ids_TB: Tensor, embedded_TBE: Tensor, num_words: int, chance: Chance) -> Tensor:
        if self.rate == 0:
            return embedded_TBE
        if self.per_row:
            shape = (num_words, ids_TB.shape[1])
            mask_VB = chance.keep("embedding_dropout/row", shape, self.rate, embedded_TBE)
            return drop_words_by_row(ids_TB, embedded_TBE, mask_VB)
        mask_V1 = chance.keep("embedding_dropout", (num_words, 1), self.rate, embedded_TBE)
        return drop_words(ids_TB, embedded_TBE, mask_V1)
