"""Parallel coordinates of a search: every trial is a line over its settings, to its loss."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ablate.compare.material import Material
from ablate.compare.plots import Plot, style
from ablate.compare.table.cells import value
from ablate.store.journal import Journal
from ablate.store.numbers import finite

MOST_ARMS, BEST = 6, 3
LOG_RANGE = 20  # an axis is logarithmic from this ratio of largest to smallest on
Setting = Any


@dataclass(frozen=True)
class Scale:
    """One axis: the position of a value on it, from 0 to 1, and its marks."""

    name: str
    marks: Sequence[tuple[float, str]]
    log: bool
    low: float
    high: float
    choices: tuple[str, ...] = ()

    def position(self, value: Setting) -> float:
        if self.choices:
            return self.choices.index(_text(value)) / max(1, len(self.choices) - 1)
        low, high, here = (self._bent(x) for x in (self.low, self.high, float(value)))
        return 0.5 if high == low else (here - low) / (high - low)

    def _bent(self, x: float) -> float:
        return math.log(x) if self.log else x


def draw(material: Material) -> Any:
    """A panel for each arm; the best three bold, trials that did not complete dotted."""
    panels = {arm.name: _trials(arm.name, material) for arm in material.record.arms}
    panels = {name: found for name, found in panels.items() if len(found) > 1 and _varied(found)}
    if not panels:
        return None
    chosen = list(panels.items())[:MOST_ARMS]
    figure, rows = style.figure(7.4, 2.4 * len(chosen) + 0.2, len(chosen), 1)
    for (axes,), (name, found) in zip(rows, chosen, strict=True):
        _panel(axes, name, found, material)
    return figure


def _panel(axes: Any, name: str, found: Sequence[Journal], material: Material) -> None:
    varied = _varied(found)
    scales = [_scale(key, [journal.config[key] for journal in found]) for key in varied]
    reached = {j.trial.id: value(j, "valid") for j in found}
    completed = sorted((j for j in found if reached[j.trial.id] is not None), key=_nats)
    last = _loss_scale([_nats(journal) for journal in completed], material)
    for journal in found:
        end = reached[journal.trial.id]
        heights = [s.position(journal.config[k]) for s, k in zip(scales, varied, strict=True)]
        if end is not None:
            heights.append(last.position(min(end, last.high)))
        rank = completed.index(journal) if journal in completed else None
        axes.plot(range(len(heights)), heights, **_look(rank, len(completed)))
    _axes(axes, [*scales, last])
    axes.set_title(f"{name}: {len(found)} trials, {len(completed)} completed", loc="left")


def _nats(journal: Journal) -> float:
    found = value(journal, "valid")
    return math.inf if found is None else found


def _look(rank: int | None, num: int) -> dict[str, Any]:
    if rank is None:
        return {"color": style.GREY, "linestyle": (0, (1, 2)), "linewidth": 0.9, "zorder": 1}
    if rank < min(BEST, max(1, num // 3)):
        dashes = style.DASHES[rank]
        return {"color": style.VERMILLION, "linestyle": dashes, "linewidth": 2, "zorder": 4 - rank}
    shade = 0.35 + 0.45 * rank / max(1, num - 1)  # the better, the darker
    return {"color": (shade, shade, 1 - 0.5 * (1 - shade)), "linewidth": 0.8, "zorder": 1}


def _axes(axes: Any, scales: Sequence[Scale]) -> None:
    axes.set_ylim(-0.06, 1.06)
    axes.set_xlim(-0.25, len(scales) - 0.75)
    axes.set_yticks([])
    axes.grid(visible=False)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="x", length=0)
    axes.set_xticks(range(len(scales)), [_title(scale.name) for scale in scales], fontsize=8)
    for place, scale in enumerate(scales):
        axes.axvline(place, color=style.BLACK, linewidth=0.8)
        for height, text in scale.marks:
            axes.annotate(
                text,
                (place, height),
                xytext=(3, 0),
                textcoords="offset points",
                fontsize=7,
                va="center",
                bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.5},
                zorder=6,
            )


def _title(name: str) -> str:
    """`optimizer.learning_rate` on two lines."""
    slot, _, rest = name.partition(".")
    return f"{slot}\n{rest}" if rest else name


def _scale(key: str, found: Sequence[Setting]) -> Scale:
    if all(finite(each) is not None for each in found):
        low, high = float(min(found)), float(max(found))
        log = low > 0 and high / low >= LOG_RANGE
        marks = [(0.0, f"{low:.3g}"), (1.0, f"{high:.3g}")]
        return Scale(key, marks, log, low, high)
    choices = tuple(dict.fromkeys(sorted(map(_text, found))))
    last = max(1, len(choices) - 1)
    marks = [(i / last, style.shortened(text, 14)) for i, text in enumerate(choices)]
    return Scale(key, marks, False, 0, 1, choices)


def _loss_scale(nats: Sequence[float], material: Material) -> Scale:
    """At most four times the spread above the median: one bad trial would hide the rest."""
    low, middle = nats[0] if nats else 0.0, nats[len(nats) // 2] if nats else 1.0
    high = min(nats[-1] if nats else 1.0, middle + 4 * max(middle - low, 1e-6))
    more = "≥ " if nats and high < nats[-1] else ""
    marks = [(0.0, material.unit.text(low)), (1.0, f"{more}{material.unit.text(high)}")]
    return Scale(f"{material.summary.unit}\nof valid", marks, False, low, high)


def _text(found: Setting) -> str:
    return "none" if found is None else str(found)


def _varied(found: Sequence[Journal]) -> list[str]:
    """The fields that all of these trials have, and that differ between them."""
    configs: list[Mapping[str, Setting]] = [journal.config for journal in found]
    shared = [key for key in configs[0] if all(key in config for config in configs)]
    return [key for key in shared if len({_text(config[key]) for config in configs}) > 1]


def _trials(arm: str, material: Material) -> list[Journal]:
    searches = [search for search in material.record.searches if search.arm == arm]
    ids = dict.fromkeys(trial for search in searches for trial in search.trials)
    found = [material.journals[trial] for trial in ids if trial in material.journals]
    return [journal for journal in found if journal.outcome is not None and journal.config]


def caption(material: Material) -> str:
    return (
        "Every trial of a search as a line, over its settings, to its result on validation "
        "(low is good). Bold: the best; dotted: stopped early, diverged or failed. "
        "Fields that only some trials have are left out."
    )


PLOT = Plot(draw=draw, caption=caption, needs="a search")
