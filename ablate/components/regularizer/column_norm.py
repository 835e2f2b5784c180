"""Fixed norms of weight vectors, restored after every update.

    W_:d <- norm W_:d / |W_:d|,  Z_:d <- norm Z_:d / |Z_:d|    for every unit d; Pachitariu & Sahani
                                                              2013, Table 2 (CN), norm = 15
    L_w <- L_w / |L_w|                                         for every word w; Inan et al. 2017,
                                                              Section 6.2

W is the embedding and Z the output matrix, if it is the head's own.

Under dropout Z's norm is half as large here, `output_norm` = 7.5. The paper masks what the decoder
reads with Bernoulli(0.5), without rescaling, and judges the mean network, Z / 2; our masks are
scaled by 2 in training and leave the network alone in evaluation. With Z halved, (Z / 2)(2 m x) =
Z (m x), both are the same network at both times; only W keeps its norm of 15.
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
    output_norm: float | None = setting(
        None, doc="that of each unit's weights in Z, if another than W's", low=0
    )
    rows: bool = setting(False, doc="instead, each word's vector in W has norm 1")


def set_norms_(weight: Tensor, norm: float, dim: int) -> None:
    """Give the vectors along `dim` a norm, in place; a vector of zeros stays."""
    lengths = weight.square().sum(dim, keepdim=True).sqrt_()  # four times as fast as a norm
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
        if config.output_norm is not None and not config.norm:
            raise CombinationError(
                f"regularizer.column_norm.output_norm = {config.output_norm:g} is Z's where W has "
                "a norm as well, and norm = 0. Allowed: a norm above 0, or no output_norm."
            )
        self.config = config

    def project(self, model: nn.Module) -> None:
        config, groups = self.config, cast("LanguageModel", model).groups()
        for group, norm in self._norms().items():
            for _, weight in groups.get(group, []):
                if weight.requires_grad:
                    set_norms_(weight.data, norm, 1 if config.rows else 0)

    def _norms(self) -> dict[str, float]:
        """By group of parameters."""
        norm, output_norm = self.config.norm, self.config.output_norm
        if self.config.rows:
            return {"embedding": 1.0}
        return (
            {"embedding": norm, "output": norm if output_norm is None else output_norm}
            if norm
            else {}
        )
