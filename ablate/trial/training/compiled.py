"""Training's forward pass, compiled by torch; where that fails, it goes on eagerly and says why.

    "inductor"   torch.compile of one function: from a window and its masks to the loss
    "graphs"     the same, replayed as CUDA graphs on a GPU

Random numbers come from streams named by update, which no compiler can follow. So the first window
of each shape is computed eagerly and notes which masks it draws. For later windows of that shape
the masks are drawn beforehand, and are inputs of the compiled function. A window that is shorter
than all others, since the text ends, is always eager: it would be compiled for once an epoch.

An attempt's first window is computed both ways. If the two differ by more than `AGREEMENT`, if
something fails, or if torch compiles the same code for the ninth time, then the attempt goes on
eagerly, from the start of that update. Evaluation is eager.
"""

from __future__ import annotations

import logging
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ablate.config.identity import GRAPHS, Trial
from ablate.model.flow import State
from ablate.model.language_model import LanguageModel
from ablate.model.masks import Chance, Masks
from ablate.store.files import cache_folder, private_folder
from ablate.trial.training.updates import Part, Update

AGREEMENT = {"float32": 1e-4, "bfloat16": 3e-2}  # of loss and gradients, relative to their size
MOST_VERSIONS = 8  # of the same code, for other shapes and settings
BACKENDS: dict[str, dict[str, Any]] = {  # arguments of torch.compile
    "inductor": {"options": {"fallback_random": True}},
    GRAPHS: {
        "options": {
            "fallback_random": True,
            "triton.cudagraphs": True,
            "triton.cudagraph_skip_dynamic_graphs": True,  # a graph for each length is too many
        }
    },
}
CACHE = "TORCHINDUCTOR_CACHE_DIR"
LOGGERS = ("_dynamo", "_inductor", "_functorch", "_subclasses", "__trace")  # of torch
Forwarded = tuple[State, Tensor, Tensor | None]  # the state after, the loss, the penalties
Forward = Callable[[Part, Chance], Forwarded]
Masked = list[tuple[str, float, Tensor]]  # masks, each with its purpose and rate


class Backward(Protocol):
    """Adds up an update's gradients, and returns the losses of its parts."""

    def __call__(
        self, update: Update, chance: Chance, forward: Forward | None = None
    ) -> list[Tensor]:
        """`forward`: the eager one, unless given."""
        ...


class NotCompiled(Exception):
    """Why training goes on eagerly."""


@dataclass(frozen=True)
class Noted:
    """A mask that a window draws: by which chance, and the arguments of its `keep`."""

    chance: Chance
    purpose: str
    shape: tuple[int, ...]
    rate: float
    like: Tensor  # empty

    def drawn(self, update: int) -> tuple[str, float, Tensor]:
        """The mask of another update, with the purpose and the rate that it is for."""
        chance = replace(self.chance, update=update)
        return self.purpose, self.rate, chance.keep(self.purpose, self.shape, self.rate, self.like)


@dataclass(frozen=True)
class Noting(Chance):
    """Draws masks as ever, and notes them."""

    noted: list[Noted] = field(default_factory=list)
    others: list[str] = field(default_factory=list)  # purposes of whatever else is drawn

    def keep(self, purpose: str, shape: Iterable[int], rate: float, like: Tensor) -> Tensor:
        plain = Chance(self.streams, self.update, self.twin, self.part, self.side)
        self.noted.append(Noted(plain, purpose, tuple(shape), rate, like.new_empty(0).detach()))
        return plain.keep(purpose, shape, rate, like)

    def generator(self, purpose: str) -> torch.Generator:
        self.others.append(purpose)
        return super().generator(purpose)


@dataclass(frozen=True)
class Given(Chance):
    """Hands out masks that are drawn already, in the order in which the window asks for them."""

    masks: Masked = field(default_factory=list)

    def keep(self, purpose: str, shape: Iterable[int], rate: float, like: Tensor) -> Tensor:
        expected, its_rate, mask = self.masks.pop(0)
        if (expected, its_rate) != (purpose, rate):
            raise NotCompiled(f"windows of one shape draw different masks ({purpose})")
        return mask

    def generator(self, purpose: str) -> torch.Generator:
        raise NotCompiled(f"'{purpose}' is drawn inside the forward pass")


class Compiled:
    """The compiled forward pass of a training; `why_not` says why it is eager after all."""

    def __init__(
        self, trial: Trial, model: LanguageModel, forward: Forward, backward: Backward
    ) -> None:
        self.why_not: str | None = None
        self.updates = 0  # that were compiled
        self._trial, self._model = trial, model
        self._forward, self._backward = forward, backward
        self._known: dict[Any, list[Noted]] = {}  # shapes of an update -> the masks that it draws
        self._function: Callable[..., Forwarded] | None = None  # None: not compiled yet
        training = trial.config.sections["training"]
        self._varying = getattr(training, "variable_window", False)
        self._window = getattr(training, "window", None)
        self._rest_before = False  # whether the last window was what was left of a text

    @property
    def computed_by(self) -> list[str]:
        """What compiled any update, for records."""
        version = f"{self._trial.compile}, torch {torch.__version__}"
        return [f"compiled: {version}"] if self.updates else []

    def backward(self, update: Update, chance: Chance) -> list[Tensor]:
        """The update's gradients and losses, with the compiled forward pass if that is possible."""
        if self.why_not is not None or self._is_rest(update):
            return self._backward(update, chance)
        if _shapes(update) not in self._known:
            return self._noted(update, chance)
        put_back = _noted_buffers(self._model)
        try:
            losses = self._compiled(update, chance)
        except Exception as error:  # of the compiler, or of code that it cannot follow
            self._give_up(error)
        else:
            self.updates += 1
            return losses
        # Only here, where the error no longer holds what the failed try has in memory.
        self._model.zero_grad(set_to_none=True)
        put_back()
        _seed(chance)
        return self._backward(update, chance)

    def _is_rest(self, update: Update) -> bool:
        """Whether the window is what was left of the text, where all others are of one length."""
        lengths = {shape[0] for shape in _shapes(update)}
        is_rest = not self._varying and bool(lengths) and lengths != {self._window}
        if is_rest and self._rest_before:
            self._give_up(NotCompiled("the text has no window of training.window tokens"))
        self._rest_before = is_rest
        return is_rest

    def _noted(self, update: Update, chance: Chance) -> list[Tensor]:
        """Compute an update eagerly, to know which masks are drawn for its shapes."""
        noting = Noting(**vars(chance))
        losses = self._backward(update, noting)
        self._known[_shapes(update)] = noting.noted
        with _kept(self._model):  # the gradients stay the eager ones
            try:
                if not _shapes(update):
                    raise NotCompiled("batches of sentence pairs are of too many lengths")
                if noting.others:
                    raise NotCompiled(f"'{noting.others[0]}' is drawn inside the forward pass")
                if self._function is None:
                    self._start(update, chance, losses)
            except Exception as error:
                self._give_up(error)
        return losses

    def _start(self, update: Update, chance: Chance, losses: list[Tensor]) -> None:
        """Compile, and compare an update with what was computed eagerly."""
        _use_own_cache()
        with _quiet():
            torch.compiler.reset()  # which forgets what was compiled for trials before
        options = {"dynamic": self._varying or None, **BACKENDS[self._trial.compile]}
        self._function = torch.compile(self._whole, **options)
        gradients = {p: p.grad for p in self._model.parameters() if p.grad is not None}
        self._model.zero_grad(set_to_none=True)
        devices = [] if self._trial.device == "cpu" else [torch.cuda.current_device()]
        with torch.random.fork_rng(devices):
            _seed(chance)
            again = self._compiled(replace(update, ended=_ignored), chance)
        pairs = [(gradient, parameter.grad) for parameter, gradient in gradients.items()]
        self._check("loss", list(zip(losses, again, strict=True)))
        self._check("gradients", pairs)

    def _compiled(self, update: Update, chance: Chance) -> list[Tensor]:
        noted, function = self._known[_shapes(update)], self._function

        def forward(part: Part, own: Chance) -> Forwarded:
            masks = [n.drawn(own.update) for n in noted if n.chance.part == own.part]
            state, nll, penalties = function(part.run, part.targets_N, masks)  # type: ignore
            # Copied: the next replay of a CUDA graph writes over what this one returned.
            return tuple(tensor.detach().clone() for tensor in state), nll, penalties

        with _quiet():
            torch.compiler.cudagraph_mark_step_begin()
            return self._backward(update, chance, forward)

    def _whole(self, run: Callable[[Masks], Any], targets_N: Tensor, masks: Masked) -> Forwarded:
        """What is compiled. The chance has neither streams nor an update, which would change."""
        chance = Given(streams=None, update=None, masks=list(masks))  # type: ignore[arg-type]
        return self._forward(Part(share=1.0, targets_N=targets_N, run=run), chance)

    def _check(self, name: str, pairs: list[tuple[Tensor, Tensor | None]]) -> None:
        """Raise `NotCompiled` if tensors are not those that were computed eagerly."""
        difference, largest = _difference(pairs), AGREEMENT[self._trial.precision]
        if not difference <= largest:  # nor if it is not a number
            raise NotCompiled(
                f"compiled and eager {name} differ by {difference:.1e} of their size, and "
                f"{largest:g} is allowed"
            )

    def _give_up(self, error: Exception) -> None:
        self.why_not, self._function = _reason(error), None
        self._known.clear()


def _difference(pairs: list[tuple[Tensor, Tensor | None]]) -> float:
    """The length of all differences, relative to that of the first of each pair. None is 0."""
    both = [(one.double(), 0.0 if other is None else other.double()) for one, other in pairs]
    apart = sum(float((one - other).square().sum()) for one, other in both)
    size = sum(float(one.square().sum()) for one, _ in both)
    return math.sqrt(apart / size if size else apart)


def _shapes(update: Update) -> tuple[Any, ...]:
    """The shapes of an update's windows, on which those of its masks depend; () if it has none."""
    if not all(part.read for part in update.parts):
        return ()
    return tuple(tuple(part.read[0].shape) for part in update.parts)


def _ignored(states: list[State]) -> None:
    """The states were carried on when the update was computed eagerly."""


def _use_own_cache() -> None:
    """Have torch keep machine code where nobody else can put any, unless the user says where."""
    # torch itself sets the variable, when an optimizer is made, to a folder that anybody may make.
    chosen = Path(os.environ.get(CACHE, "torchinductor_"))
    if chosen.name.startswith("torchinductor_"):
        os.environ[CACHE] = str(private_folder(private_folder(cache_folder() / "ablate") / "torch"))


def _seed(chance: Chance) -> None:
    """Seed the global generators as for an update that begins."""
    chance.streams.seed_global("update", chance.update)


def _reason(error: Exception) -> str:
    """Why training is eager, in a line."""
    if isinstance(error, NotCompiled):
        return str(error)
    if type(error).__name__ == "FailOnRecompileLimitHit":
        return f"torch compiled the same code {MOST_VERSIONS} times, each for another case"
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip() if lines else 'no reason given'}"[:300]


@contextmanager
def _kept(model: nn.Module) -> Iterator[None]:
    """Gradients and buffers are afterwards as they were before."""
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    put_back = _noted_buffers(model)
    try:
        yield
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient
        put_back()


def _noted_buffers(model: nn.Module) -> Callable[[], None]:
    """Note all buffers; the function returned puts them back, replaced ones too."""
    noted = [
        (module, name, buffer, None if buffer is None else buffer.detach().clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
    ]

    @torch.no_grad()
    def put_back() -> None:
        for module, name, buffer, before in noted:
            module._buffers[name] = buffer
            if buffer is not None and before is not None:
                buffer.copy_(before)

    return put_back


@contextmanager
def _quiet() -> Iterator[None]:
    """Neither warnings nor log lines of the compiler, which has a limit of versions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch._dynamo.config as dynamo

        loggers = [logging.getLogger(f"torch.{name}") for name in LOGGERS]
        levels = [logger.level for logger in loggers]
        limits = {"recompile_limit": MOST_VERSIONS, "fail_on_recompile_limit_hit": True}
        try:
            for logger in loggers:
                logger.setLevel(logging.CRITICAL)
            with dynamo.patch(limits):  # type: ignore[attr-defined]
                yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
