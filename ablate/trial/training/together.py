"""Trainings of one config with several seeds, whose updates are computed as one batch of models.

The weights of the models are stacked, and so are their windows, states and masks; `torch.func.vmap`
runs one forward pass of all models at once, and one backward pass gives each its gradients. All
else is each training's own: what it reads, its streams, its optimizer, its epochs and checkpoints.

    loss = sum_s loss_s(w_s),    so that d loss / d w_s is the gradient of seed s alone

Products of a batch round differently. Before its first update, a batch is held to the gradients of
its trainings by themselves. Where these differ, or a part of the model has no form for a batch, the
trainings have to run one by one (`Alone`).
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from ablate.errors import AblateError
from ablate.model.fast.batched import batched
from ablate.model.flow import State
from ablate.model.masks import Chance
from ablate.trial.training.training import Beside, Training
from ablate.trial.training.updates import Update

# How far a gradient may be from that of the training by itself, relative to its length: rounding,
# and no other mask or term.
TOLERANCE = {"float32": 1e-3, "bfloat16": 0.1}


class Alone(Exception):
    """The trainings cannot be one batch, and why."""


@dataclass(frozen=True)
class Chances(Chance):
    """The sources of the masks of all seeds, each of which draws its own as if it were alone."""

    own: tuple[Chance, ...] = ()
    seed: Tensor | None = None  # which of them: inside of vmap, all

    def generator(self, purpose: str) -> torch.Generator:
        """Refuse: what it draws would be the same for all seeds."""
        raise Alone(f"'{purpose}' is drawn by a generator of its own, and not as a mask")

    def mask(self, purpose: str, shape: tuple[int, ...], rate: float, like: Tensor) -> Tensor:
        """The seeds' masks."""
        plain = torch.empty((), dtype=like.dtype, device=like.device)
        here = {"twin": self.twin, "part": self.part, "side": self.side}
        own = [replace(chance, **here) for chance in self.own]
        return _Drawn.apply(self.seed, lambda: [c.mask(purpose, shape, rate, plain) for c in own])


Draw = Callable[[], list[Tensor]]


@final
class _Drawn(torch.autograd.Function):
    """What the seeds draw: `vmap` asks for all of it at once."""

    @staticmethod
    def forward(seed: Tensor, draw: Draw) -> Tensor:
        raise Alone("a mask was asked for outside of the batch")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Keep nothing: masks have no gradients."""

    @staticmethod
    def vmap(info: Any, in_dims: Any, seed: Tensor, draw: Draw) -> tuple[Tensor, int]:
        return torch.stack(draw()), 0


@final
class _Bound(nn.Module):
    """Calls a function, during which `functional_call` may give the model other tensors."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, function: Callable[[], Any]) -> Any:
        """Return what the function returns."""
        return function()


@dataclass(frozen=True)
class _Computed:
    """An update of a training of the batch. Nothing is taken over yet but the gradients."""

    training: Training
    update: Update
    nll: Tensor
    states: list[State]  # after each part

    def take(self) -> None:
        """Step, and carry the states on."""
        # As before an update of its own, for what a custom module draws when it steps.
        self.training.streams.seed_global("update", self.training.update)
        self.training.nll_sum += self.nll
        self.update.ended(self.states)
        self.training.step(self.update)


class Together:
    """Computes updates of trainings as one batch. Each slice may be of others: some have ended."""

    def __init__(self) -> None:
        self._is_checked = False

    def advance(self, trainings: Sequence[Training], seconds: float) -> None:
        """Train all for about `seconds`, or until the epoch of one ends. `Alone` is raised before
        anything of an update is taken over."""
        start = time.monotonic()
        ready = [training for training in trainings if not _failure(training, training.prepare)]
        try:
            self._train(ready, start + seconds)
        finally:
            share = (time.monotonic() - start) / max(len(ready), 1)
            for training in ready:
                training.beside = training.beside or Beside(share)

    def _train(self, trainings: Sequence[Training], until: float) -> None:
        way = f"torch: one batch of {len(trainings)} seeds"
        while trainings and not any(map(_waits, trainings)):
            try:
                computed = self._computed(trainings)
            except Exception as error:  # also of a user's code: it is raised again when run alone
                for training in trainings:
                    training.model.zero_grad(set_to_none=True)
                why = str(error).strip().partition("\n")[0]
                is_told = isinstance(error, Alone | AblateError)
                reason = why if is_told else f"{type(error).__name__}: {why}"
                raise Alone(reason) from error
            for each in computed:
                _failure(each.training, each.take)
                each.training.batches = list(dict.fromkeys([*each.training.batches, way]))
            if time.monotonic() > until:
                break  # after at least one update, however short the slice

    def _computed(self, trainings: Sequence[Training]) -> list[_Computed]:
        """The next update of each; those whose windows have the same length are one batch."""
        if getattr(trainings[0].config.training, "variable_window", False):
            raise Alone("each draws lengths of windows of its own (training.variable_window)")
        alike: dict[Any, list[tuple[Training, Update]]] = defaultdict(list)
        for training in trainings:
            update = training.next_update()
            shapes = [(part.targets_N.shape, part.share) for part in update.parts]
            alike[str((update.per_token, shapes))].append((training, update))
        if self._is_checked:
            return [each for batch in alike.values() for each in _batch(batch)]
        with warnings.catch_warnings():
            # What torch would compute model by model is no batch.
            warnings.filterwarnings("error", "There is a performance drop")
            computed = [each for batch in alike.values() for each in _batch(batch)]
        for each in computed:
            _check(each)
        self._is_checked = True
        return computed


def _waits(training: Training) -> bool:
    """Return whether there is something to do before the next update: an epoch's end, a failure."""
    return training.beside is not None or training.done_updates >= training.reader.num_updates


def _failure(training: Training, work: Callable[[], None]) -> bool:
    """Do a training's own work; return whether it failed, which its next slice raises."""
    try:
        work()
    except Exception as error:
        training.beside = Beside(0.0, error)
    return training.beside is not None


def _batch(chosen: Sequence[tuple[Training, Update]]) -> list[_Computed]:
    """One update of several trainings."""
    parts = range(len(chosen[0][1].parts))
    losses = [_losses(chosen, number) for number in parts]
    total = torch.stack([totals_S.sum() for totals_S, _, _ in losses]).sum()
    nll_S = torch.stack([nll_S.detach().double() for _, nll_S, _ in losses]).sum(0)
    total.backward()
    _part_gradients(itertools.chain(*(training.model.parameters() for training, _ in chosen)))
    return [
        _Computed(
            training=training,
            update=update,
            nll=nll_S[index],
            states=[tuple(state_S[index] for state_S in states) for _, _, states in losses],
        )
        for index, (training, update) in enumerate(chosen)
    ]


def _part_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Give each parameter a gradient of its own: those of two biases of one sum are in the same
    memory, and would be clipped twice."""
    seen = set[int]()
    for parameter in parameters:
        if parameter.grad is not None:
            if parameter.grad.data_ptr() in seen:
                parameter.grad = parameter.grad.clone()
            seen.add(parameter.grad.data_ptr())


def _losses(chosen: Sequence[tuple[Training, Update]], number: int) -> tuple[Tensor, Tensor, State]:
    """`Training.loss_of` a part, for all seeds at once: each result has a dimension more, its
    first."""
    trainings, updates = zip(*chosen, strict=True)
    first, update, parts = trainings[0], updates[0], [each.parts[number] for each in updates]
    if not parts[0].read:
        raise Alone("batches of sentence pairs differ from seed to seed")
    own = tuple(training.chance for training in trainings)

    def loss(tensors: dict[str, Tensor], seed: Tensor, targets_N: Tensor, *read: Tensor) -> Any:
        part = replace(
            parts[0], targets_N=targets_N, run=lambda masks: first.model(read[0], read[1:], masks)
        )
        chance = Chances(own[0].streams, own[0].update, part=number, own=own, seed=seed)
        return functional_call(bound, tensors, (lambda: first.loss_of(part, update, chance),))

    bound, seeds = _Bound(first.model), torch.arange(len(own), device=first.model.device)
    targets_SN = torch.stack([part.targets_N for part in parts])
    read_S = (torch.stack(tensors) for tensors in zip(*(part.read for part in parts), strict=True))
    with batched(), _attention(first.model.device):
        return vmap(loss)(_stacked(bound, trainings), seeds, targets_SN, *read_S)


def _attention(device: torch.device) -> AbstractContextManager[Any]:
    """On a processor, torch's fused attention takes no batch of models."""
    return sdpa_kernel(SDPBackend.MATH) if device.type == "cpu" else nullcontext()


def _stacked(bound: _Bound, trainings: Sequence[Training]) -> dict[str, Tensor]:
    """All tensors of the models, by their names in `bound`. Gradients go back to each model."""
    by_model = [_tensors(_Bound(training.model)) for training in trainings]
    return {name: torch.stack([tensors[name] for tensors in by_model]) for name in _tensors(bound)}


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _trained(training: Training) -> list[nn.Parameter]:
    return [parameter for parameter in training.model.parameters() if parameter.requires_grad]


def _check(computed: _Computed) -> None:
    """Compare an update's gradients with those of the training by itself."""
    training, update = computed.training, computed.update
    before = [buffer.clone() for buffer in training.model.buffers()]
    training.streams.seed_global("update", training.update)
    totals = [
        training.loss_of(part, update, replace(training.chance, part=number))[0]
        for number, part in enumerate(update.parts)
    ]
    alone = torch.autograd.grad(torch.stack(totals).sum(), _trained(training), allow_unused=True)
    for buffer, old in zip(training.model.buffers(), before, strict=True):
        if not torch.equal(buffer, old):
            buffer.copy_(old)
            raise Alone("a buffer of the model changes in training")
    names = [name for name, each in training.model.named_parameters() if each.requires_grad]
    allowed = TOLERANCE[training.trial.precision]
    for name, ours, theirs in zip(names, _trained(training), alone, strict=True):
        if not _near(ours.grad, theirs, allowed):
            raise Alone(f"in a batch, {name} has another gradient")


def _near(ours: Tensor | None, theirs: Tensor | None, allowed: float) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    length = theirs.norm()
    # A training that diverges at once has no gradient to be compared.
    return not torch.isfinite(length) or bool((ours - theirs).norm() <= allowed * length)
