"""What an n-gram model is told: an arm of its own kind, `"model": "ngram"`."""

from __future__ import annotations

from dataclasses import dataclass

from ablate.fields import setting


@dataclass(frozen=True, kw_only=True)
class NgramConfig:
    """Interpolated modified Kneser-Ney, and a unigram cache beside it."""

    order: int = setting(5, doc="longest n-gram", low=1)
    cache_window: int = setting(
        0, doc="also a unigram cache over so many last words (0: none); its weight is tuned", low=0
    )
