"""A running mean of the weights after every update, which is what is evaluated and saved.

    mean_n = mean_{n-1} + (w_n - mean_{n-1}) / n        n: updates since averaging started

It starts after an epoch that is the Nth in a row without a new best on validation, or at the latest
after a given epoch. Training itself uses the plain weights, under any optimizer (Melis et al.
2020, by their code). AWD's rule and its averages are the optimizer `nt_asgd`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor, nn

from ablate.config.sections import UpdatesConfig


class Averaging:
    """The mean of a model's trained parameters; empty until it starts."""

    def __init__(self, config: UpdatesConfig, model: nn.Module) -> None:
        self.after, self.by = config.average_after, config.average_by
        self.model, self.num_updates = model, 0
        self.started = self.by == 0
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
            mean.lerp_(weight, 1 / self.num_updates)

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
