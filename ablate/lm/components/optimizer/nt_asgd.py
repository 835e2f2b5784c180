"""Non-monotonically triggered averaged gradient descent (Merity et al. 2018, Algorithm 1).

Plain SGD until validation is worse than the best of all epochs but the last `nonmono`; from then on
torch's ASGD averages the weights, and the averages are evaluated and saved. The rule is that of the
authors' code. So are two quirks of torch: the average leaves out the first iterate, and a window's
scaling of the learning rate takes effect one update late.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from ablate.lm.components import Optimizer, register, setting
from ablate.lm.model.optimizer import Saved, decayed_alike, parameter_groups


@dataclass(frozen=True, kw_only=True)
class NtAsgdConfig:
    """The learning rate, and when averaging starts."""

    learning_rate: float = setting(30.0, doc="learning rate, before and after the switch", low=0)
    weight_decay: float = setting(0.0, doc="L2 in the gradient, for all parameters", low=0)
    nonmono: int = setting(
        5, doc="number of latest epochs that the rule ignores (AWD 5, DOC 60)", low=0
    )
    trigger: str = setting(
        "non_monotonic",
        doc="start averaging by the rule, or at the first update (fine-tuning)",
        choices=("non_monotonic", "at_once"),
    )


def triggers(history: list[float], valid_nll: float, nonmono: int) -> bool:
    """The test of Algorithm 1, as in the code; `history` does not include this epoch's value."""
    older = history[: len(history) - nonmono]
    return len(history) > nonmono and valid_nll > min(older)


@register(
    "optimizer",
    "nt_asgd",
    config=NtAsgdConfig,
    paper="merity2018awd",
    equation="Algorithm 1",
    departures=("compares with the best of all but the last n epochs, as the code does",),
)
@final
class NtAsgd(Optimizer):
    """torch's SGD, then torch's ASGD with t0 = 0 and lambd = 0."""

    follows_gradients = True

    def __init__(self, config: NtAsgdConfig, model: nn.Module) -> None:
        self.config = config
        self.named = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self.history: list[float] = []
        self.averaging = False
        groups = decayed_alike(parameter_groups(model), config.weight_decay)
        self.torch = torch.optim.SGD(groups, lr=config.learning_rate)
        if config.trigger == "at_once":
            self._start_averaging()

    @classmethod
    def width_power(cls, config: NtAsgdConfig) -> float | None:
        return 0.0

    def epoch_ended(self, epoch: int, valid_nll: float) -> str | None:
        if self.averaging:  # as in the code, values of averages do not enter the history
            return None
        started = triggers(self.history, valid_nll, self.config.nonmono)
        self.history.append(valid_nll)
        if not started:
            return None
        self._start_averaging()
        return f"averaging starts after epoch {epoch}"

    @contextmanager
    def evaluated_weights(self, model: nn.Module) -> Iterator[bool]:
        """The averages, once there are any; the raw weights are restored afterwards.

        An update enters the average before its weights are projected back within their bounds.
        """
        state = self.torch.state
        # torch makes the averages at the first update after the switch.
        averaged = [p for p in self.named.values() if "ax" in state.get(p, {})]
        raw_weights = [parameter.detach().clone() for parameter in averaged]
        for parameter in averaged:
            parameter.data.copy_(state[parameter]["ax"])
        try:
            yield bool(averaged)
        finally:
            for parameter, weights in zip(averaged, raw_weights, strict=True):
                parameter.data.copy_(weights)

    def saved(self) -> Saved:
        tensors = {
            f"{key}/{name}": value.clone()
            for name, parameter in self.named.items()
            for key, value in self.torch.state.get(parameter, {}).items()
            if isinstance(value, Tensor)
        }
        return tensors, {"averaging": self.averaging, "history": list(self.history)}

    def restore(self, tensors: dict[str, Tensor], plain: dict) -> None:
        self.history = list(plain["history"])
        if plain["averaging"] and not self.averaging:
            self._start_averaging()
        for path, value in tensors.items():
            key, _, name = path.partition("/")
            self.torch.state[self.named[name]][key] = value.clone()

    def _start_averaging(self) -> None:
        self.averaging = True
        # Without the groups' other settings, which ASGD would take for its own. lambd = 0: the rate
        # does not fall; t0 = 0: averaging starts at once.
        kept = ("params", "rate_scale", "weight_decay")
        groups = [{key: group[key] for key in kept} for group in self.torch.param_groups]
        self.torch = torch.optim.ASGD(groups, lr=self.rate, lambd=0.0, t0=0.0)
