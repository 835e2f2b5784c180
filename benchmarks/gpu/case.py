"""A case of the table: ours against another, checked before it is timed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from benchmarks.gpu import timing
from benchmarks.gpu.table import COMPARED, MEASURED, NO_OPPONENT, NOT_RUN, Compared, Row
from benchmarks.gpu.timing import Quartiles, Work
from benchmarks.measure import agree

SECONDS, TINY_SECONDS = 4.0, 0.2  # of timing a case
BF16_CLOSE, CLOSE = 2e-2, 1e-3  # relative, by the norm of the difference


@dataclass(frozen=True)
class Setting:
    """Where, and how large, the cases are."""

    device: str
    tiny: bool
    rate: float  # operations a second of a large product in bfloat16

    def size(self, full: int, tiny: int) -> int:
        return tiny if self.tiny else full


@dataclass(frozen=True, kw_only=True)
class Sides:
    """Both sides of a case, which agree."""

    ours: Work
    theirs: Work
    notes: tuple[str, ...]
    operations: float | None = None  # of the products alone, which both sides compute


@dataclass(frozen=True, kw_only=True)
class Case:
    """A row of the table. `make` makes what is timed, or compares where there are no two sides."""

    name: str  # of `--only`; several cases may share one
    what: str
    against: str
    make: Callable[[Setting], Sides | Compared]
    to_reach: float | None = None  # times faster
    memory_to_reach: float | None = None  # a share
    needs: float = 20.0
    compiles: bool = False


class NoOpponent(Exception):
    """The other side cannot run here."""


class NotRun(Exception):
    """Ours cannot run here."""


def result_of(case: Case, setting: Setting) -> Row:
    """Check a case, and time it."""
    row = partial(Row, case=case.name, what=case.what, against=case.against)
    try:
        sides = case.make(setting)
    except NoOpponent as error:
        return row(status=NO_OPPONENT, notes=(str(error),))
    except NotRun as error:
        return row(status=NOT_RUN, notes=(str(error),))
    if isinstance(sides, Compared):
        return row(status=COMPARED, **vars(sides))
    seconds = TINY_SECONDS if setting.tiny else SECONDS
    pairs = timing.raced(setting.device, sides.ours, sides.theirs, seconds)
    mine, others = (timing.quartiles([pair[side] for pair in pairs]) for side in (0, 1))
    return row(
        status=MEASURED,
        ours_ms=mine,
        theirs_ms=others,
        faster=timing.quartiles([b / a for a, b in pairs]),
        to_reach=None if setting.tiny else case.to_reach,
        rounds=len(pairs),
        ours_mb=timing.extra_memory(setting.device, sides.ours),
        theirs_mb=timing.extra_memory(setting.device, sides.theirs),
        memory_to_reach=None if setting.tiny else case.memory_to_reach,
        share_of_products=_shares(sides, mine, others, setting.rate),
        notes=sides.notes,
    )


def _shares(
    sides: Sides, mine: Quartiles, others: Quartiles, rate: float
) -> tuple[float, float] | None:
    """How far each side's median comes to a large product's rate."""
    if sides.operations is None:
        return None
    ours, theirs = (sides.operations / (ms[1] / 1000) / rate for ms in (mine, others))
    return ours, theirs


def checked(ours: Work, theirs: Work, close: float, *, compiles: bool = False) -> tuple[str, ...]:
    """Run both sides once: they must agree. Theirs may need too much memory, or not compile."""
    start = time.perf_counter()
    try:
        other = theirs()
    except torch.OutOfMemoryError as error:
        raise NoOpponent("it needs more memory than there is") from error
    except Exception as error:
        if not compiles:
            raise
        raise NoOpponent(f"compiling failed: {first_line(error)}") from error
    spent = time.perf_counter() - start
    _agree(ours(), other, close)
    agreed = f"agree to {close:g}"
    return (agreed, f"compiled in {spent:.0f} s, not counted") if compiles else (agreed,)


def first_line(error: BaseException) -> str:
    """The class of an error, and what it says first; `agree` ends a benchmark with a text alone."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[0] if lines else "no reason given"
    return said if isinstance(error, SystemExit) else f"{type(error).__name__}: {said}"


def _agree(ours: Any, theirs: Any, close: float) -> None:
    """Of a tensor, or of a result and its gradients."""
    if isinstance(ours, torch.Tensor):
        return agree(ours, theirs, "loss", close)
    agree(ours[0], theirs[0], "outputs", close)
    return agree(ours[1], theirs[1], "gradients", close)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    torch._dynamo.reset()  # nothing that an earlier case compiled is recompiled
    return torch.compile(function, dynamic=False)
