"""Triton's kernels against torch: the same computation of ours with the switch on, and off."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from ablate.model.triton import library
from benchmarks import heads, recurrences
from benchmarks.gpu import update
from benchmarks.gpu.case import BF16_CLOSE, CLOSE, Case, NotRun, Setting, Sides, checked
from benchmarks.gpu.timing import Work
from benchmarks.opponents import recurrences as loops


@contextmanager
def switched(how: str) -> Iterator[None]:
    """Inside, the kernels are "on" or "off"."""
    before = os.environ.get(library.SWITCH)
    os.environ[library.SWITCH] = how
    try:
        yield
    finally:
        if before is None:
            del os.environ[library.SWITCH]
        else:
            os.environ[library.SWITCH] = before


def both(device: str, run: Work, close: float) -> Sides:
    """The switch on, against off; it is not timed where no kernel computes any of it."""
    if reason := _why_not(device):
        raise NotRun(reason)
    on, off = (partial(_under, how, run) for how in ("on", "off"))
    before = library.uses()["kernels"]
    notes = checked(on, off, close)
    if library.uses()["kernels"] == before:
        raise NotRun("no kernel of Triton's took these tensors")
    return Sides(ours=on, theirs=off, notes=(f"triton {library.version()}", *notes))


def _why_not(device: str) -> str | None:
    try:
        import triton  # noqa: F401
    except Exception as error:  # also of a package that is there and broken
        return f"Triton cannot be imported: {error}"
    if device == "cpu" and not library.is_interpreted():
        return "Triton's kernels need a GPU"
    return None


def _under(how: str, run: Work) -> Any:
    with switched(how):
        return run()


def mixture(setting: Setting) -> Sides:
    sizes = setting.size(280, 24), setting.size(10_000, 200), setting.size(15, 3)
    with torch.device(setting.device):
        run, _ = heads.mixture_sides(*sizes, setting.size(840, 40), "bfloat16")
    return both(setting.device, run, BF16_CLOSE)


def augmented(setting: Setting) -> Sides:
    sizes = setting.size(650, 24), setting.size(10_000, 200), setting.size(700, 40)
    with torch.device(setting.device):
        run, _ = heads.augmented_sides(*sizes)
    return both(setting.device, run, CLOSE)


def lstm(setting: Setting) -> Sides:
    with torch.device(setting.device):
        sides, _ = recurrences.lstm(setting.size(1150, 24), setting.size(70, 6))
    return both(setting.device, recurrences.both_ways(sides)[0], CLOSE)


def scan(setting: Setting) -> Sides:
    with torch.device(setting.device):
        sides = recurrences.irlm(setting.size(70, 6), loops.diagonal)
    return both(setting.device, recurrences.both_ways(sides)[0], CLOSE)


def small_model(setting: Setting) -> Sides:
    """An update of the small model with the augmented loss: its head, its masked LSTM."""
    torch.manual_seed(1)
    words, steps, rows = setting.size(10_000, 300), setting.size(35, 4), setting.size(20, 2)
    text = update.text_of(words, steps, rows, setting.device)
    plain = {name: value for name, value in update.SMALL.items() if "regularizer" not in name}
    without_masks = update.ours(plain, words, text)
    names = [name for name, _ in without_masks.model.named_parameters()]
    sides = both(setting.device, partial(without_masks.gradient, names), CLOSE)
    ours, theirs = (
        partial(_under, how, update.ours(update.SMALL, words, text).update) for how in ("on", "off")
    )
    notes = (sides.notes[0], f"each side draws its own masks; without masks they {sides.notes[1]}")
    return Sides(ours=ours, theirs=theirs, notes=notes)


def _case(what: str, make: Callable[[Setting], Sides]) -> Case:
    return Case(name="triton", what=what, against="the same in torch", make=make)


CASES = [
    _case("Triton: mixture, V=10,000", mixture),
    _case("Triton: masked LSTM 1150", lstm),
    _case("Triton: augmented, V=10,000", augmented),
    _case("Triton: scan of the IRLM", scan),
    _case("Triton: step of small model", small_model),
]
