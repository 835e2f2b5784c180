"""Fixed norms of weight vectors, restored after every update.

    W_:d <- norm W_:d / |W_:d|,  Z_:d <- norm Z_:d / |Z_:d|    for every unit d; Pachitariu & Sahani
                                                              2013, Table 2 (CN), norm = 15
    L_w <- L_w / |L_w|                                         for every row; Inan et al. 2017,
                                                              Section 6.2

W is the embedding and Z the output matrix, unless it is tied. An RNN's R is not changed, unless
`recurrent_norm` fixes its columns as well.

L is d x |V| in the paper, so one of its rows is, read literally, a unit over all words. We read a
row as a word's vector; `row = "unit"` is the literal reading.

Under dropout Z's norm is half as large here, `output_norm` = 7.5. The paper masks the decoder's
input with Bernoulli(0.5), without rescaling, and defines P as the average over masks (Section 4).
Evaluating the mean network, Z / 2, instead is our interpretation. Our masks are scaled by 2 in
training and absent in evaluation. With Z halved, (Z / 2)(2 m x) = Z (m x): both are the same
network under every mask, and so also in the average (`evaluator.monte_carlo`) and in the mean; only
W keeps its norm of 15.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast, final

import torch
from torch import Tensor, nn

from ablate.lm.components import CombinationError, LanguageModel, Regularizer, register, setting
from ablate.lm.model.language_model import Embedding


@dataclass(frozen=True, kw_only=True)
class ColumnNormConfig:
    """The vectors with a fixed norm. 0 and false are the identity."""

    norm: float = setting(0.0, doc="L2 norm of each unit's weights in W and in Z", low=0)
    output_norm: float | None = setting(
        None, doc="L2 norm of each unit's weights in Z, if different from W's", low=0
    )
    recurrent_norm: float = setting(
        0.0, doc="L2 norm of each unit's weights in a recurrent matrix; 0: not fixed", low=0
    )
    rows: bool = setting(False, doc="instead, give each row of L (W transposed) norm 1")
    row: str = setting(
        "word",
        doc="with rows: a row is a word's vector, or a unit over all words (L is d x |V|)",
        choices=("word", "unit"),
    )


ROWS = 256  # whose squares stay in a processor's cache while the next ones are added


def set_norms_(weight: Tensor, norm: float, dim: int) -> None:
    """Rescale the vectors along `dim` to a norm, in place; a vector of zeros stays zero."""
    lengths = _squares(weight, dim).sum(dim, keepdim=True).sqrt_()  # torch's norm is far slower
    weight.mul_(norm / lengths.masked_fill_(lengths == 0, 1))


def _squares(weight: Tensor, dim: int) -> Tensor:
    """The squares, or sums of them, whose sum over `dim` is that of the squares."""
    # Blocks of rows take 0.9 ms instead of 3.9 for 10,000 x 512 on a CPU (docs/notes/log.md).
    if dim != 0 or weight.device.type != "cpu":
        return weight.square()
    sums = torch.zeros_like(weight[:ROWS])
    for rows in weight.split(ROWS):
        sums[: len(rows)].addcmul_(rows, rows)
    return sums


@register(
    "regularizer",
    "column_norm",
    config=ColumnNormConfig,
    paper="pachitariu2013irlm",
    equation="CN of Table 2; rows: Inan et al. 2017, Section 6.2",
    departures=(
        "the columns of an RNN's R keep their learned norms, unless recurrent_norm is set: at 15 a "
        "rectified network would explode",
        "a row of Inan's L (d x |V|) is read as a word's vector; row = 'unit' reads it literally",
    ),
)
@final
class ColumnNorm(Regularizer):
    """A projection of the embedding, an untied output matrix and, optionally, recurrent matrices;
    frozen matrices do not change."""

    bounds = True

    def __init__(self, config: ColumnNormConfig) -> None:
        if config.rows and config.norm:
            raise CombinationError(
                f"regularizer.column_norm.norm = {config.norm:g} fixes W's columns, and rows = "
                "true its rows: no matrix keeps both. Instead: only one of the two."
            )
        if config.output_norm is not None and not config.norm:
            raise CombinationError(
                f"regularizer.column_norm.output_norm = {config.output_norm:g} fixes Z's norm, "
                "which needs a norm for W, and norm = 0. Instead: a norm above 0, or no "
                "output_norm."
            )
        if config.row != "word" and not config.rows:
            raise CombinationError(
                f"regularizer.column_norm.row = '{config.row}' defines rows, and rows = false "
                "fixes none. Instead: rows = true, or row = 'word'."
            )
        self.config = config

    def check(self, model: LanguageModel) -> None:
        if (self.config.norm or self.config.rows) and not isinstance(model.embedding, Embedding):
            raise CombinationError(
                "regularizer.column_norm fixes the columns or rows of a table of word vectors, and "
                "the word vectors are computed. Instead: words = 'table', or no column_norm."
            )
        if self.config.output_norm is not None and not model.groups().get("output"):
            raise CombinationError(
                f"regularizer.column_norm.output_norm = {self.config.output_norm:g} fixes Z's "
                "norm, and a tied head has no Z. Instead: head.tied = false, or no output_norm."
            )
        matrices = [w for _, w in model.groups().get("recurrent", []) if w.dim() == 2]
        if self.config.recurrent_norm and not matrices:
            raise CombinationError(
                f"regularizer.column_norm.recurrent_norm = {self.config.recurrent_norm:g} fixes "
                f"the columns of recurrent matrices, and the backbone "
                f"({type(model.backbone).__name__}) has none. Instead: 0, or a backbone with "
                "recurrent matrices, such as 'elman'."
            )

    def project(self, model: nn.Module) -> None:
        groups = cast("LanguageModel", model).groups()
        for group, norm, dim in self._fixed():
            for _, weight in groups.get(group, []):
                # The group "recurrent" also has an IRLM's r, which is no matrix.
                if weight.requires_grad and weight.dim() == 2:
                    set_norms_(weight.data, norm, dim)

    def _fixed(self) -> Iterator[tuple[str, float, int]]:
        """Groups of parameters, the norm of their vectors, and the dimension of the vectors."""
        config = self.config
        if config.rows:
            yield "embedding", 1.0, 1 if config.row == "word" else 0
        if config.norm:
            yield "embedding", config.norm, 0
            yield "output", config.norm if config.output_norm is None else config.output_norm, 0
        if config.recurrent_norm:
            yield "recurrent", config.recurrent_norm, 0
