"""Cross entropy: minus the log-probability of the target words."""

from __future__ import annotations

from typing import final

from torch import Tensor

from ablate.lm.components import Chance, Loss, Pass, TrainingText, register
from ablate.lm.model.mixture import summed_nll


@register("loss", "cross_entropy")
@final
class CrossEntropy(Loss):
    """-sum log p(target), without ever storing a whole distribution."""

    reads_words = False

    def __init__(self, config: object, text: TrainingText | None) -> None:
        """It has no settings and needs no text."""

    def __call__(
        self, passed: Pass, targets_N: Tensor, embedding_VE: Tensor, chance: Chance
    ) -> Tensor:
        return summed_nll(passed.mixture, targets_N)
