"""The processes that train one trial together, each with its own rows of every batch.

The worker's process leads: it starts the others (`team.py`), tells them what to do, and alone
validates, saves and reports. Each of them has the whole model, computes the gradient of its rows,
and takes the same step from the sum of all gradients (`torch.distributed`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.linalg import vector_norm

from ablate.config.identity import Trial
from ablate.errors import CombinationError
from ablate.trial.task import Diverged, Place
from ablate.trial.training.team import Team

NOTHING: Mapping[str, Tensor] = {}
# Between weights of two processes, relative to their length. Both take the same steps, so that
# rounding adds up and is not amplified.
DRIFT = 1e-4


class Crew:
    """A process that trains alone: nobody to tell, nothing to add."""

    rank, size = 0, 1

    def begin(self, trial: Trial, place: Place) -> None:
        """Have the others build the same model."""

    def tell(self, do: str, tensors: Mapping[str, Tensor] = NOTHING, **plain: Any) -> None:
        """Have the others do the same as this process is about to."""

    def agreed(self, compute: Callable[[], float]) -> float:
        """Return a number that the leader alone computes."""
        return compute()

    def summed(self, model: nn.Module, nlls: Sequence[Tensor]) -> Sequence[Tensor]:
        """Give the model the sums of all processes' gradients; return their losses, summed."""
        return nlls

    @contextmanager
    def without_global_draws(self) -> Iterator[None]:
        """Inside, nothing may draw from the global generators: each process would draw the same for
        its own rows as the others for theirs. Looked at in updates 1, 2, 4, 8, ..."""
        yield

    def stepped(self, model: nn.Module) -> None:
        """After updates 1, 2, 4, 8, ..., compare the processes' models."""

    def compare(self, model: nn.Module) -> None:
        """Raise an error unless all processes have the same parameters and buffers."""

    def gathered(self, own: Mapping[str, Tensor]) -> list[Mapping[str, Tensor]]:
        """Return the state of every process's rows, by rank; that of this process is `own`."""
        return [own]

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Inside, an error of this process would leave the others waiting: they are ended."""
        yield


class Shared(Crew):
    """One of several processes."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self._updates = 0  # that have begun

    def summed(self, model: nn.Module, nlls: Sequence[Tensor]) -> Sequence[Tensor]:
        parameters = [p for p in model.parameters() if p.requires_grad]
        nll = torch.stack([*nlls]).sum() if nlls else parameters[0].new_zeros(())
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        given = gradients[0].new_tensor([p.grad is not None for p in parameters])
        flat = torch.cat(
            [*(each.reshape(-1) for each in gradients), given, nll.to(given.dtype)[None]]
        )
        self._add_up(flat)
        *sums, givers, nll_1 = flat.split([*(p.numel() for p in parameters), len(parameters), 1])
        trained = _trained(parameters, givers)
        for parameter, gradient in zip(parameters, sums, strict=True):
            if parameter in trained:
                parameter.grad = gradient.view_as(parameter).to(parameter.dtype)
        return [nll_1[0].double()]

    @property
    def _looks(self) -> bool:
        """Whether this update, which has begun, is one of those that are looked at."""
        return self._updates & (self._updates - 1) == 0

    def stepped(self, model: nn.Module) -> None:
        if self._looks:
            self.compare(model)

    def compare(self, model: nn.Module) -> None:
        named = dict(model.named_parameters()) | dict(model.named_buffers())
        named = {name: tensor for name, tensor in named.items() if tensor.numel()}
        far = torch.stack([self._differs(tensor.detach()) for tensor in named.values()]).float()
        self._add_up(far)
        if wrong := [name for name, count in zip(named, far.tolist(), strict=True) if count]:
            raise CombinationError(_refusal(wrong, self.size))

    def _differs(self, tensor: Tensor) -> Tensor:
        """Whether a tensor is another one in this process than in the leader."""
        own = tensor if tensor.is_floating_point() else tensor.double()
        leaders = own.clone(memory_format=torch.contiguous_format)
        self._exchange(distributed.broadcast, leaders, 0)
        distance, length = (vector_norm(x, dtype=torch.float64) for x in (own - leaders, leaders))
        return distance > DRIFT * length  # False for nan: the loss is looked at for that

    def _add_up(self, flat: Tensor) -> None:
        self._exchange(distributed.all_reduce, flat)

    def _exchange(self, how: Callable[..., Any], *what: Any) -> None:
        how(*what)

    @contextmanager
    def without_global_draws(self) -> Iterator[None]:
        self._updates += 1
        before = _global_states() if self._looks else {}
        yield
        after = _global_states() if self._looks else {}
        if drawn := [whose for whose, state in before.items() if state != after[whose]]:
            raise CombinationError(
                f"a technique draws from {drawn[0]}'s global generator (torch.nn.Dropout does from "
                f"torch's), and each of {self.size} processes would draw other numbers than one "
                "does. Instead: `masks.dropout`, or processes=1 in the scale."
            )


class Leader(Shared):
    """The worker's process."""

    def __init__(self, team: Team) -> None:
        super().__init__(0, team.size)
        self._team = team

    def begin(self, trial: Trial, place: Place) -> None:
        where = {"store": place.store.uri, "data": place.data, "code": dict(place.code)}
        self.tell("begin", trial=trial.to_plain(), **where)
        self._team.heard()

    def tell(self, do: str, tensors: Mapping[str, Tensor] = NOTHING, **plain: Any) -> None:
        self._team.tell({"do": do, **plain}, tensors)

    def agreed(self, compute: Callable[[], float]) -> float:
        number = compute()
        self._team.tell({"agreed": number}, NOTHING)
        return number

    def gathered(self, own: Mapping[str, Tensor]) -> list[Mapping[str, Tensor]]:
        self.tell("saved")
        return [own, *(message.tensors for message in self._team.heard())]

    @contextmanager
    def at_work(self) -> Iterator[None]:
        try:
            yield
        except Diverged:
            self._team.check()
            raise  # every process knows, and waits
        except BaseException:
            self._team.end()
            raise

    def _exchange(self, how: Callable[..., Any], *what: Any) -> None:
        try:
            how(*what)
        except (RuntimeError, ValueError) as error:  # closed, left, or nobody answers
            raise self._team.lost() from error


def _trained(parameters: Sequence[nn.Parameter], givers: Tensor) -> set[nn.Parameter]:
    """The parameters that some process has a gradient of: an optimizer skips the others, and would
    not skip zeros. They may be others in every update.

    `givers`: how many processes have a gradient of each.
    """
    if all(parameter.grad is not None for parameter in parameters):
        return set(parameters)  # without waiting for a GPU's count
    return {p for p, count in zip(parameters, givers.tolist(), strict=True) if count}


def _global_states() -> dict[str, Any]:
    """The state of each library's global generator, to be compared."""
    on_gpu = [torch.cuda.get_rng_state()] if torch.cuda.is_initialized() else []
    states = [torch.default_generator.get_state(), *on_gpu]
    numpys = np.random.get_state(legacy=False)["state"]
    return {
        "torch": [state.numpy().tobytes() for state in states],
        "numpy": (numpys["pos"], numpys["key"].tobytes()),
        "Python": random.getstate(),
    }


def _refusal(names: Sequence[str], size: int) -> str:
    more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
    return (
        f"{names[0]}{more} is not the same in each of the {size} processes that train the trial, "
        "although all take the same steps: a technique changes it by what only one process has, as "
        "torch.nn.BatchNorm1d does by the mean of its rows, or a generator that the trial does not "
        'seed. Instead: draw from the trial\'s streams (generator=draw("name")), or processes=1 in '
        "the scale."
    )


def crew_of(device: str, processes: int) -> Crew:
    """Return this process alone, or as the leader of others."""
    return Leader(Team.of(device, processes)) if processes > 1 else Crew()
