"""Optimizers: one update from the gradients, at the rate that a schedule says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer as TorchOptimizer

Saved = tuple[dict[str, Tensor], dict]  # tensors by name, and plain data for JSON
Choose = Callable[[nn.Parameter], bool]
COUNTERS = ("step", "mu_product")  # in a parameter's state, on the CPU unless steps are fused


class Optimizer:
    """Built as `Optimizer(config, model)`, over the parameters that require a gradient.

    It drives an optimizer of torch's, `torch`, whose state is saved together with the `counters`:
    the names of its own attributes that change.
    """

    config: Any
    torch: TorchOptimizer | Several
    counters: tuple[str, ...] = ()
    # True: a step is a multiple of gradients, as SGD's, and has no size of its own. Then muP gives
    # all parameters another rate, and not hidden matrices (`ablate/lm/model/width.py`).
    follows_gradients = False

    @classmethod
    def width_power(cls, config: Any) -> float | None:
        """The power of (base width / width) by which muP multiplies the rate of hidden matrices
        (`ablate/lm/model/width.py`); None if nothing is known of that."""
        return None

    def prepare(self, tokens_per_update: int) -> None:
        """Called once, before the first update, with the number of tokens in a full window."""

    def step(self, scale: float = 1.0, rate: float | None = None) -> None:
        """One update from the current gradients, at `scale` times the rate (none: the highest)."""
        set_rate(self.torch, (self.rate if rate is None else rate) * scale)
        self.torch.step()

    def epoch_ended(self, epoch: int, valid_nll: float) -> str | None:
        """Adapt to epoch `epoch` (from 1) and its validation loss; return what changed, for the
        log."""
        return None

    @property
    def rate(self) -> float:
        """The learning rate before any schedule."""
        return self.config.learning_rate

    @contextmanager
    def evaluated_weights(self, model: nn.Module) -> Iterator[bool]:
        """Inside, the model has the weights to be evaluated and saved (such as averages); yield
        whether they are others than those that are trained."""
        yield False

    def saved(self) -> Saved:
        """All state, from which `restore` continues with the same bits: a copy of torch's state of
        each parameter, under the parameter's number and the state's name, and the counters."""
        tensors = {
            f"{index}.{name}": value.clone()
            for index, parameter in enumerate(self._parameters())
            for name, value in self.torch.state.get(parameter, {}).items()
            if isinstance(value, Tensor)
        }
        return tensors, {name: getattr(self, name) for name in self.counters}

    def restore(self, tensors: dict[str, Tensor], plain: dict) -> None:
        """Restore the state that `saved` returned. torch's own method could move or cast a
        counter."""
        for name in self.counters:  # older checkpoints also have those of schedules
            setattr(self, name, plain[name])
        parameters = [(p, group) for group in self.torch.param_groups for p in group["params"]]
        for path, value in tensors.items():
            index, _, name = path.partition(".")
            parameter, group = parameters[int(index)]
            on_cpu = name in COUNTERS and not (group.get("fused") or group.get("capturable"))
            self.torch.state[parameter][name] = (value.cpu() if on_cpu else value).clone()

    def _parameters(self) -> list[nn.Parameter]:
        return [parameter for group in self.torch.param_groups for parameter in group["params"]]


class Several:
    """Some of torch's optimizers as one: each updates the parameters of its own groups."""

    def __init__(self, *parts: TorchOptimizer) -> None:
        self.parts = parts
        self.state: defaultdict[Tensor, Any] = defaultdict(dict)
        for part in parts:
            part.state = self.state  # so that saving and restoring need not know whose one is

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups of all parts."""
        return [group for part in self.parts for group in part.param_groups]

    def step(self) -> None:
        """One update of every part."""
        for part in self.parts:
            part.step()


def every(parameter: nn.Parameter) -> bool:
    """Choose every parameter."""
    return True


def parameter_groups(model: nn.Module, chosen: Choose = every) -> list[dict]:
    """The trained parameters that are chosen, grouped for torch by their shares of the rate.

    A technique gives a parameter a share other than 1 by setting its `rate_scale` (IRLM's recurrent
    weights have a thousandth). A base width gives hidden matrices another one, `width_scale`.
    """
    by_scale: dict[tuple[float, float], list[nn.Parameter]] = {}
    for parameter in model.parameters():
        if parameter.requires_grad and chosen(parameter):
            own, width = (getattr(parameter, f"{of}_scale", 1.0) for of in ("rate", "width"))
            by_scale.setdefault((own, width), []).append(parameter)
    return [
        {"params": group, "rate_scale": own * width, "width_scale": width}
        for (own, width), group in by_scale.items()
    ]


def decayed_alike(groups: list[dict], decay: float) -> list[dict]:
    """The groups with a weight decay whose product with the rate is the same at every width."""
    return [{**group, "weight_decay": decay / group["width_scale"]} for group in groups]


def set_rate(optimizer: TorchOptimizer | Several, rate: float) -> None:
    """Set every group's learning rate to its share of `rate`."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["rate_scale"]
