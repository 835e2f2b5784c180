"""Training's forward pass, compiled by torch (`compile="inductor"`).

What is compiled is one function: from a window and its masks to the loss. Random numbers come from
streams named by update, which no compiler can follow. So the first window of each shape is computed
eagerly and notes which masks it draws; for later windows of that shape the masks are drawn
beforehand, and are inputs of the compiled function.

An attempt's first update is computed both ways. If the two differ by more than `AGREEMENT`, or if
torch cannot compile it, the attempt is eager, and `why_not` says why. Evaluation is eager.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ablate.config.identity import Trial
from ablate.errors import AblateError, TrialError
from ablate.lm.model.flow import State
from ablate.lm.model.language_model import LanguageModel
from ablate.lm.model.masks import Chance, Masks
from ablate.lm.training.updates import Part, Update
from ablate.store.files import cache_folder, private_folder

AGREEMENT = {"float32": 1e-4, "bfloat16": 3e-2}  # of loss and gradients, relative to their size
BACKEND: dict[str, Any] = {"options": {"fallback_random": True}}  # arguments of torch.compile
CACHE = "TORCHINDUCTOR_CACHE_DIR"
Forwarded = tuple[State, Tensor, Tensor | None]  # the state after, the loss, the penalties
Forward = Callable[[Part, Chance], Forwarded]
Backward = Callable[..., list[Tensor]]  # of an update, a chance, and at will a forward pass
Masked = list[tuple[str, float, Tensor]]  # masks, each with its purpose and rate
Draw = tuple[Chance, str, tuple[int, ...], float, Tensor]  # by which chance, and what of `keep`


@dataclass(frozen=True)
class RecordingMasks(Chance):
    """Draws masks as ever, and notes them."""

    noted: list[Draw] = field(default_factory=list)

    def keep(self, purpose: str, shape: Iterable[int], rate: float, like: Tensor) -> Tensor:
        plain = Chance(self.streams, self.update, self.twin, self.part, self.side)
        self.noted.append((plain, purpose, tuple(shape), rate, like.new_empty(0).detach()))
        return plain.keep(*self.noted[-1][1:])


@dataclass(frozen=True)
class DrawnMasks(Chance):
    """Hands out masks that are drawn already, in the order in which the window asks for them."""

    masks: Masked = field(default_factory=list)

    def keep(self, purpose: str, shape: Iterable[int], rate: float, like: Tensor) -> Tensor:
        expected, its_rate, mask = self.masks.pop(0)
        if (expected, its_rate) != (purpose, rate):
            raise TrialError(
                f"windows of one shape draw different masks ('{purpose}'), which cannot be "
                'compiled. Instead: compile="off" in the scale.'
            )
        return mask

    def generator(self, purpose: str) -> torch.Generator:
        raise TrialError(f"'{purpose}' is drawn inside the forward pass")


class Compiled:
    """The compiled forward pass of a training; `why_not` says why it is eager after all."""

    def __init__(
        self, trial: Trial, model: LanguageModel, forward: Forward, backward: Backward
    ) -> None:
        self.why_not: str | None = None
        self.updates = 0  # that were compiled
        self._precision, self._model = trial.precision, model
        self._forward, self._backward = forward, backward
        self._known: dict[Any, list[Draw]] = {}  # shapes of an update -> the masks that it draws
        self._function: Callable[..., Forwarded] | None = None  # None: not compiled yet

    @property
    def computed_by(self) -> list[str]:
        """What compiled any update, for records."""
        return [f"compiled: inductor, torch {torch.__version__}"] if self.updates else []

    def backward(self, update: Update, chance: Chance) -> list[Tensor]:
        """The update's gradients and losses, with the compiled forward pass if that is possible."""
        if self.why_not is not None:
            return self._backward(update, chance)
        if _shapes(update) in self._known:
            self.updates += 1
            return self._compiled(update, chance)
        noting = RecordingMasks(**vars(chance))
        losses = self._backward(update, noting)
        self._known[_shapes(update)] = noting.noted
        if self._function is None:
            try:
                self._start(update, chance, losses)
            except Exception as error:  # of the compiler, or of code that it cannot follow
                self.why_not = _reason(error)
        return losses

    def _start(self, update: Update, chance: Chance, losses: list[Tensor]) -> None:
        """Compile, and compare an update with what was computed eagerly, which stays as it is."""
        if not _shapes(update):
            raise TrialError("batches of sentence pairs are of too many lengths")
        _use_own_cache()
        torch.compiler.reset()  # which forgets what was compiled for trials before
        self._function = torch.compile(self._whole, **BACKEND)
        gradients = {parameter: parameter.grad for parameter in self._model.parameters()}
        buffers = {name: buffer.clone() for name, buffer in self._model.named_buffers()}
        self._model.zero_grad(set_to_none=True)
        devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
        try:
            with torch.random.fork_rng(devices):
                chance.streams.seed_global("update", chance.update)
                again = self._compiled(replace(update, ended=lambda states: None), chance)
            self._check("loss", list(zip(losses, again, strict=True)))
            self._check("gradients", [(old, new.grad) for new, old in gradients.items()])
        finally:
            for parameter, gradient in gradients.items():
                parameter.grad = gradient
            for name, buffer in self._model.named_buffers():
                buffer.copy_(buffers[name])

    def _compiled(self, update: Update, chance: Chance) -> list[Tensor]:
        noted, function = self._known[_shapes(update)], self._function

        def forward(part: Part, own: Chance) -> Forwarded:
            masks = [_drawn(draw, own.update) for draw in noted if draw[0].part == own.part]
            return function(part.run, part.targets_N, masks)  # type: ignore[misc]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler's
            return self._backward(update, chance, forward)

    def _whole(self, run: Callable[[Masks], Any], targets_N: Tensor, masks: Masked) -> Forwarded:
        """What is compiled. The chance has neither streams nor an update, which would change."""
        chance = DrawnMasks(streams=None, update=None, masks=list(masks))  # type: ignore[arg-type]
        return self._forward(Part(share=1.0, targets_N=targets_N, run=run), chance)

    def _check(self, name: str, pairs: Sequence[tuple[Tensor | None, Tensor | None]]) -> None:
        """Raise an error if tensors are not those that were computed eagerly."""
        difference, largest = _difference(pairs), AGREEMENT[self._precision]
        if not difference <= largest:  # nor if it is not a number
            raise TrialError(
                f"compiled and eager {name} differ by {difference:.1e} of their size, and "
                f"{largest:g} is allowed"
            )


def _drawn(draw: Draw, update: int) -> tuple[str, float, Tensor]:
    """The mask of another update, with the purpose and the rate that it is for."""
    chance, purpose, shape, rate, like = draw
    return purpose, rate, replace(chance, update=update).keep(purpose, shape, rate, like)


def _difference(pairs: Sequence[tuple[Tensor | None, Tensor | None]]) -> float:
    """The length of all differences, relative to that of the first of each pair. None is 0."""
    zero = torch.zeros((), dtype=torch.float64)
    both = [[zero if x is None else x.detach().double() for x in pair] for pair in pairs]
    apart = sum(float((one - other).square().sum()) for one, other in both)
    size = sum(float(one.square().sum()) for one, _ in both)
    return math.sqrt(apart / size if size else apart)


def _shapes(update: Update) -> tuple[Any, ...]:
    """The shapes of an update's windows, on which those of its masks depend; () if it has none."""
    if not all(part.read for part in update.parts):
        return ()
    return tuple(tuple(part.read[0].shape) for part in update.parts)


def _use_own_cache() -> None:
    """Have torch keep machine code where nobody else can put any, unless the user says where."""
    # torch itself sets the variable, when an optimizer is made, to a folder that anybody may make.
    chosen = Path(os.environ.get(CACHE, "torchinductor_"))
    if chosen.name.startswith("torchinductor_"):
        os.environ[CACHE] = str(private_folder(private_folder(cache_folder() / "ablate") / "torch"))


def _reason(error: Exception) -> str:
    """Why training is eager, in a line."""
    if isinstance(error, AblateError):
        return str(error)
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0].strip()}"[:300]
