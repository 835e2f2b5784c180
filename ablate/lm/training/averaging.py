"""A running mean of the weights after every update, which is what is evaluated and saved.

    mean_n = mean_{n-1} + share_n (w_n - mean_{n-1})        n: updates since averaging started

    share_n = 1 / n                      the mean of all (decay 1)
              (1 - decay) / (1 - decay^n)        an exponential mean with a decay below 1

The second is corrected for its start as Adam's mean gradient is (Kingma & Ba 2015, Section 3), so
that the first weights count no more than their share. It becomes the first as the decay goes to 1.

It starts after an epoch that is the Nth in a row without a new best on validation, or at the latest
after a given epoch. An exponential mean without either starts at the first update. Training itself
uses the plain weights, under any optimizer (Melis et al. 2020, by their code). AWD's rule and its
averages are the optimizer `nt_asgd`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor, nn

from ablate.lm.sections import UpdatesConfig


def share_of(update: int, decay: float) -> float:
    """The share of the weights after update `update` (from 1) in the new mean."""
    return 1 / update if decay == 1 else (1 - decay) / (1 - decay**update)


class Averaging:
    """The mean of a model's trained parameters; empty until it starts."""

    def __init__(self, config: UpdatesConfig, model: nn.Module) -> None:
        self.after, self.by = config.average_after, config.average_by
        self.model, self.num_updates, self.decay = model, 0, config.average_decay
        exponential = self.decay < 1 and self.after is None and self.by is None
        self.started = self.by == 0 or exponential
        self.means: list[Tensor] = []

    def updated(self) -> None:
        """Take the weights after an update into the mean."""
        if not self.started:
            return
        self.num_updates += 1
        weights = [parameter.detach() for parameter in self._parameters()]
        if not self.means:
            self.means = [weight.clone() for weight in weights]
        for mean, weight in zip(self.means, weights, strict=True):
            mean.lerp_(weight, share_of(self.num_updates, self.decay))

    def epoch_ended(self, history: Sequence[float]) -> str | None:
        """Start if it is time, given the validation losses so far; return what to log."""
        late = self.by is not None and len(history) >= self.by
        # Of equal losses the first is the best: an equal loss is no improvement.
        best = min(range(len(history)), key=history.__getitem__, default=-1)
        stuck = self.after is not None and len(history) - best > self.after
        if self.started or not (late or stuck):
            return None
        self.started = True
        return f"weights are averaged after epoch {len(history)}"

    @contextmanager
    def evaluated_weights(self) -> Iterator[None]:
        """Inside, the model has the means, once there are any."""
        averaged = list(zip(self._parameters(), self.means, strict=False))  # no means at first
        weights = [parameter.detach().clone() for parameter, _ in averaged]
        for parameter, mean in averaged:
            parameter.data.copy_(mean)
        try:
            yield
        finally:
            for (parameter, _), weight in zip(averaged, weights, strict=True):
                parameter.data.copy_(weight)

    def saved(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """The means, and when they began."""
        tensors = {str(index): mean.clone() for index, mean in enumerate(self.means)}
        return tensors, {"started": int(self.started), "num_updates": self.num_updates}

    def restore(self, tensors: dict[str, Tensor], plain: dict[str, int]) -> None:
        """Restore what `saved` returned."""
        self.means = [tensors[str(index)].clone() for index in range(len(tensors))]
        self.started, self.num_updates = bool(plain["started"]), plain["num_updates"]

    def _parameters(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]
