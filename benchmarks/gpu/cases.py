"""The table's cases, the most important first.

`needs` says how many seconds of a GPU's a case takes at most, by estimate: none was timed on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from ablate.lm.model.fast import mixture_gradient
from benchmarks import heads, recurrences
from benchmarks.gpu import update
from benchmarks.gpu.agreement import compared as agreement_of_all
from benchmarks.gpu.case import BF16_CLOSE, CLOSE, Case, Setting, Sides, checked, compiled
from benchmarks.gpu.table import Compared
from benchmarks.opponents import recurrences as loops
from benchmarks.opponents.awd import Rates, name_in_ablate
from benchmarks.opponents.heads import mixture_loss

SMALLER = 1024  # chunks that would fill a GPU's memory


def mixture(setting: Setting, words: int, *, compiles: bool) -> Sides:
    width, experts = setting.size(280, 24), setting.size(15, 3)
    tokens, words = setting.size(840, 40), setting.size(words, words // 50)
    usual = compiled(mixture_loss) if compiles else mixture_loss
    with torch.device(setting.device):
        sides = heads.mixture_sides(width, words, experts, tokens, "bfloat16", usual)
    notes = checked(*sides, BF16_CLOSE, compiles=compiles)
    operations = 3 * 2 * tokens * experts * width * words
    return Sides(ours=sides[0], theirs=sides[1], notes=notes, operations=operations)


def in_smaller_chunks(setting: Setting, words: int) -> Sides:
    """On a GPU, logits are computed in chunks of a share of its memory; how large is a guess."""
    sides = mixture(setting, words, compiles=False)

    def ours() -> Any:
        with patched_chunks(SMALLER):
            return sides.ours()

    note = f"ours in chunks of 1/{SMALLER} of a GPU's memory, not 1/{mixture_gradient.GPU_CHUNKS}"
    return replace(sides, ours=ours, notes=(note, *sides.notes))


@contextmanager
def patched_chunks(number: int) -> Iterator[None]:
    """Inside, a GPU's memory would be filled by so many chunks."""
    before = mixture_gradient.GPU_CHUNKS
    mixture_gradient.GPU_CHUNKS = number
    mixture_gradient._gpu_bytes.cache_clear()
    try:
        yield
    finally:
        mixture_gradient.GPU_CHUNKS = before
        mixture_gradient._gpu_bytes.cache_clear()


def recurrence(setting: Setting, name: str, way: str) -> Sides:
    """`way`: a loop, a loop over compiled steps, or the loop compiled as a whole."""
    loop, step = {
        "lstm": (loops.variational_lstm, loops.lstm_step),
        "rhn": (loops.highway, loops.highway_step),
        "mogrifier": (loops.mogrifier, loops.mogrifier_step),
    }[name]
    if way == "steps":
        loop = partial(loop, step=compiled(step))
    elif way == "window":
        loop = compiled(loop)
    length = setting.size(70, 6)
    with torch.device(setting.device):
        if name == "lstm":
            sides, _ = recurrences.lstm(setting.size(1150, 24), length, loop)
        elif name == "rhn":
            sides, _ = recurrences.rhn(setting.size(830, 16), setting.size(10, 3), length, loop)
        else:
            sides, _ = recurrences.mogrifier(setting.size(850, 16), 5, length, loop)
    ours, theirs = recurrences.both_ways(sides)
    notes = checked(ours, theirs, CLOSE, compiles=way != "loop")
    return Sides(ours=ours, theirs=theirs, notes=notes)


def stock_lstm(setting: Setting) -> Sides:
    units, length = setting.size(1150, 24), setting.size(70, 6)
    with torch.device(setting.device):
        unmasked = recurrences.stock_lstm(units, length, state_mask=False)
        masked = recurrences.stock_lstm(units, length, state_mask=True)
    notes = checked(*recurrences.both_ways(unmasked), CLOSE)
    ours, theirs = recurrences.both_ways(masked)
    differ = "theirs masks inputs only, ours the state too; without that mask they"
    return Sides(ours=ours, theirs=theirs, notes=(f"{differ} {notes[0]}",))


def doc(setting: Setting, precision: str) -> Sides:
    size, units = (12, (16, 16, 14)) if setting.tiny else (280, (960, 960, 620))
    words, steps, rows = setting.size(10_000, 300), setting.size(70, 6), setting.size(12, 4)
    torch.manual_seed(1)
    text = update.text_of(words, steps, rows, setting.device)
    sides = partial(update.doc, size, units, words, text, precision)
    mine, other = sides(replace(Rates(), ar=update.RATES.ar, tar=update.RATES.tar))
    names = [name for name, _ in other.model.named_parameters()]
    own = partial(mine.gradient, [name_in_ablate(name) for name in names])
    close = CLOSE if precision == "float32" else BF16_CLOSE
    notes = checked(own, partial(other.gradient, names), close)
    ours, theirs = (side.update for side in sides(update.RATES))
    differ = "each side draws its own masks; without masks loss and gradient"
    return Sides(ours=ours, theirs=theirs, notes=(f"{differ} {notes[0]}",))


def agreement(setting: Setting) -> Compared:
    return agreement_of_all(setting.device, tiny=setting.tiny)


def _mixtures(words: int) -> list[Case]:
    what = f"mixture J=15, V={words:,}"
    shared = {"name": "mixture", "what": what, "to_reach": 3.0, "memory_to_reach": 0.1}
    usual, compiling = (partial(mixture, words=words, compiles=c) for c in (False, True))
    return [
        Case(**shared, against="softmax, then mix", make=usual),
        Case(**shared, against="the same, compiled", make=compiling, compiles=True, needs=90),
    ]


def _recurrence(name: str, what: str, against: str, way: str, **more: Any) -> Case:
    make = partial(recurrence, name=name, way=way)
    return Case(name=name, what=what, against=against, make=make, **more)


WHATS = {
    "lstm": "masked LSTM 1150, 70 steps",
    "rhn": "RHN 830 x 10, 70 steps",
    "mogrifier": "Mogrifier 850, 70 steps",
}
DOC = "step of AWD-LSTM-DOC"
CASES = [
    *_mixtures(10_000),
    Case(
        name="agreement",
        what="contracts, combinations",
        against="CPU, float64",
        make=agreement,
        needs=60,
    ),
    *(
        Case(
            name="doc",
            what=f"{DOC}, {short}",
            against="plain torch",
            make=partial(doc, precision=precision),
            to_reach=3.0,
            needs=30,
        )
        for short, precision in (("bf16", "bfloat16"), ("fp32", "float32"))
    ),
    *_mixtures(33_278),
    *(_recurrence(name, what, "loop", "loop", to_reach=5.0) for name, what in WHATS.items()),
    Case(name="lstm", what=WHATS["lstm"], against="nn.LSTM (cuDNN)", make=stock_lstm, to_reach=1.0),
    *(
        _recurrence(name, what, "compiled steps", "steps", compiles=True, needs=60)
        for name, what in WHATS.items()
    ),
    Case(
        name="chunks",
        what="mixture J=15, V=10,000",
        against="softmax, then mix",
        make=partial(in_smaller_chunks, words=10_000),
        to_reach=3.0,
        memory_to_reach=0.1,
    ),
    _recurrence("lstm", WHATS["lstm"], "compiled loop", "window", compiles=True, needs=120),
]
