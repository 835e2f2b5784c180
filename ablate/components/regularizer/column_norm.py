"""Fixed norms of weight vectors, restored after every update.

    W_:d <- norm W_:d / |W_:d|,  Z_:d <- norm Z_:d / |Z_:d|    for every unit d; Pachitariu & Sahani
                                                              2013, Table 2 (CN), norm = 15
    L_w <- L_w / |L_w|                                         for every word w; Inan et al. 2017,
                                                              Section 6.2

W is the embedding and Z the output matrix, if it is the head's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast, final

from torch import Tensor, nn

from ablate.components.regularizer import Regularizer
from ablate.errors import CombinationError
from ablate.fields import setting
from ablate.registry import register

if TYPE_CHECKING:
    from ablate.model import LanguageModel


@dataclass(frozen=True, kw_only=True)
class ColumnNormConfig:
    """Which vectors have a fixed norm. 0 and false are the identity."""

    norm: float = setting(0.0, doc="L2 norm of each unit's weights in W and in Z", low=0)
    rows: bool = setting(False, doc="instead, each word's vector in W has norm 1")


def set_norms_(weight: Tensor, norm: float, dim: int) -> None:
    """Give the vectors along `dim` a norm, in place; a vector of zeros stays."""
    lengths = weight.norm(dim=dim, keepdim=True)
    weight.mul_(norm / lengths.masked_fill_(lengths == 0, 1))


@register(
    "regularizer",
    "column_norm",
    config=ColumnNormConfig,
    paper="pachitariu2013irlm",
    equation="CN of Table 2; rows: Inan et al. 2017, Section 6.2",
)
@final
class ColumnNorm(Regularizer):
    """A projection of the embedding and of the head's own output matrix; frozen ones stay."""

    def __init__(self, config: ColumnNormConfig) -> None:
        if config.rows and config.norm:
            raise CombinationError(
                f"regularizer.column_norm.norm = {config.norm:g} fixes W's columns, and rows = "
                "true its rows: no matrix keeps both. Allowed: a norm above 0, or rows = true."
            )
        self.config = config

    def project(self, model: nn.Module) -> None:
        if not self.config.norm and not self.config.rows:
            return
        groups = cast("LanguageModel", model).groups()
        norm, dim = (1.0, 1) if self.config.rows else (self.config.norm, 0)
        for group in ("embedding",) if self.config.rows else ("embedding", "output"):
            for _, weight in groups.get(group, []):
                if weight.requires_grad:
                    set_norms_(weight.data, norm, dim)
