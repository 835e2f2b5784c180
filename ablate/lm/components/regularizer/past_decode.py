"""Past decode regularization: the predicted distribution should tell what was just read (Brahma
2018).

With p_t the distribution of the word after x_t, E the word vectors, and A, a, c trained with the
model:

    v_t = sum_w p_t(w) E_w                 the expected word vector
    q_t = softmax(tanh(A v_t + a) E' + c)
    penalty = -weight * mean_t log q_t(x_t)

The target is the word at the input of step t, not the one before and not the one to predict. E has
no mask on either side. The gradient goes through p_t into the whole model, which is the purpose.
Of a mixture, p_t is the mixture, without what a pointer copies. Evaluation, dynamic too, knows
nothing of A, a and c.

The idea is in the paper's abstract; the formula and weight = 0.001 are from memory. Not known:
whether c is the decoder's own or that of the output layer (`bias`), dropout on v_t or inside the
tanh (none here), and the dropout rates that the paper changed (those of the base are kept).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ablate.lm.components import (
    Draw,
    LanguageModel,
    Pass,
    Regularizer,
    TrainingText,
    register,
    setting,
)
from ablate.lm.model.fast.mixture_gradient import PARTS, mixture_of, tensors_of, token_chunks
from ablate.lm.model.fast.precision import full
from ablate.lm.model.fast.stored_gradients import summed_by_chunk
from ablate.lm.model.mixture import log_probs_of
from ablate.lm.model.operations import FORWARD_PASSES
from ablate.lm.model.pointer import without_pointer
from ablate.lm.model.projection import Projection


@dataclass(frozen=True, kw_only=True)
class PastDecodeConfig:
    """The penalty's weight, and the bias of the decoded distribution. 0 is the identity."""

    weight: float = setting(0.0, doc="weight of the mean nats of the past word", low=0)
    bias: str = setting(
        "own",
        doc="c: trained for the past alone, that of the output layer (if it has one), or none",
        choices=("own", "output", "none"),
    )


def past_nll(
    p_nV: Tensor, ids_n: Tensor, E_VE: Tensor, A_EE: Tensor, a_E: Tensor, c_V: Tensor | None
) -> Tensor:
    """-sum_t log q_t(x_t), given the distributions p_t."""
    decoded_nE = F.linear(p_nV @ E_VE, A_EE, a_E).tanh()
    return F.cross_entropy(full(F.linear(decoded_nE, E_VE, c_V)), ids_n, reduction="sum")


@final
class PastDecoder(nn.Module):
    """A and a, drawn like those of any projection; c starts at 0."""

    def __init__(self, num_words: int, width: int, *, bias: bool) -> None:
        super().__init__()
        self.latent = Projection(width, width, bias=True)
        self.bias = nn.Parameter(torch.empty(num_words)) if bias else None

    def initialize(self, draw: Draw) -> None:
        """Set c, if it is trained, to 0; `latent` draws A and a itself."""
        if self.bias is not None:
            self.bias.data.zero_()


@register(
    "regularizer",
    "past_decode",
    config=PastDecodeConfig,
    paper="brahma2018past",
    equation="from memory of the paper",
    departures=(
        "the formula and the weight 0.001 are from memory; the bias c is a setting, since we do "
        "not know whose it is",
        "the probabilities are computed a second time, apart from those of the loss",
    ),
)
@final
class PastDecode(Regularizer):
    """The penalty, chunk by chunk of tokens, without storing [N, V]."""

    def __init__(self, config: PastDecodeConfig) -> None:
        self.config = config
        self.decoder: PastDecoder | None = None

    def auxiliary(self, model: LanguageModel, text: TrainingText | None) -> nn.Module | None:
        if self.config.weight == 0:
            return None
        sizes = (model.shapes.vocabulary, model.shapes.embedding)
        self.decoder = PastDecoder(*sizes, bias=self.config.bias == "own")
        return self.decoder

    def operations(self, model: LanguageModel, tokens: int, passes: int) -> float:
        """The logits once more, and the products of `past_nll`, in every pass."""
        if self.decoder is None:
            return 0
        vocabulary, width = model.shapes.vocabulary, model.shapes.embedding
        own = 2 * (vocabulary * width + width**2 + width * vocabulary)
        return passes * FORWARD_PASSES * (model.logits_operations() + own)

    def penalty(self, passed: Pass, model: LanguageModel) -> Tensor | None:
        if self.decoder is None:
            return None
        mixture, ids_N = without_pointer(passed.mixture), passed.features.ids_TB.flatten()
        if passed.kept_N is not None:
            ids_N = ids_N[passed.kept_N]

        def part(rows: slice, *tensors: Tensor | None) -> Tensor:
            whole = replace(mixture_of(*tensors[len(own) :]), floor=mixture.floor, cap=mixture.cap)
            p_nV = full(log_probs_of(whole, rows)).exp()
            return past_nll(p_nV, ids_N[rows], *tensors[: len(own)])  # type: ignore[arg-type]

        latent = self.decoder.latent
        c_V = mixture.bias_V if self.config.bias == "output" else self.decoder.bias
        own = (model.embedding.matrix(), latent.weight, latent.bias, c_V)
        chunks = list(token_chunks(mixture, PARTS))
        summed = summed_by_chunk(part, chunks, *own, *tensors_of(mixture))
        return self.config.weight * summed / len(ids_N)
