"""Sizes and places of an interactive figure's parts, in pixels and in shares of the plot."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ablate.compare.plots.figure import Figure, Panel

INCH, LETTER, ROW = 96, 6.2, 19  # pixels: of an inch, a letter's width, and a legend's row
ABOVE, BELOW = 24, 52  # pixels: above a panel, for its title, and below it, for its axis
WIDE = 600  # pixels: of a legend below a figure


@dataclass(frozen=True)
class Box:
    """Where a panel is, in shares of the whole plot, and which axes are its own."""

    left: float
    right: float
    bottom: float
    top: float
    number: str  # empty for the first, as plotly counts
    outer_x: bool  # the lowest panel of its column
    outer_y: bool  # the first panel of its row


def height(figure: Figure) -> int:
    """The height in pixels: as described, and of a legend's rows."""
    rows = -(-len(figure.panels) // figure.columns)
    return round(INCH * figure.height) + (_legend_rows(figure) + rows * _inside_rows(figure)) * ROW


def most_width(figure: Figure) -> int:
    """The width in pixels beyond which the picture would only be stretched."""
    return round(1.45 * INCH * figure.width)


def least_width(figure: Figure) -> int:
    """The width in pixels below which the picture has to be scrolled."""
    panels, columns = figure.panels, figure.columns
    if any(panel.parallel for panel in panels):
        return 80 * max(len(panel.x.ticks or ()) for panel in panels)
    texts = max((len(words) for panel in panels for _, words in panel.y.ticks or ()), default=0)
    plots = max(190, *(LETTER * len(panel.x.title) for panel in panels)) * columns
    return round(plots + LETTER * texts + right(figure))


def boxes(figure: Figure) -> list[Box]:
    """The place of every panel, row by row."""
    num, columns = len(figure.panels), figure.columns
    rows = -(-num // columns)
    across = 0.02 if figure.shared else 0.1
    down = (ABOVE + _inside_rows(figure) * ROW + (14 if figure.shared == "xy" else BELOW)) / max(
        1, height(figure) - sum(around(figure))
    )
    wide, high = (1 - across * (columns - 1)) / columns, (1 - down * (rows - 1)) / rows
    made = []
    for index in range(num):
        row, column = divmod(index, columns)
        left, top = column * (wide + across), 1 - row * (high + down)
        number = str(index + 1) if index else ""
        low = index + columns >= num
        made.append(Box(left, left + wide, max(0, top - high), top, number, low, column == 0))
    return made


def around(figure: Figure) -> tuple[int, int]:
    """Pixels above and below all panels."""
    titled = any(panel.title for panel in figure.panels)
    above = (ABOVE if titled else 12) + ROW * _inside_rows(figure)
    return above, BELOW + ROW * _legend_rows(figure)


def has_legend(panel: Panel) -> bool:
    """Return whether looks tell its series apart; otherwise each is named next to its point."""
    looks = [series.look for series in panel.series]
    return panel.names == "legend" or (panel.names == "ends" and len({*looks}) == len(looks))


def _legend_rows(figure: Figure) -> int:
    """Rows of the legend below a figure."""
    panel = figure.panels[0]
    if panel.names != "ends" or not has_legend(panel):
        return 0
    return math.ceil(sum(LETTER * len(end.text) + 60 for end in panel.ends) / WIDE)


def _inside_rows(figure: Figure) -> int:
    """Rows of the legends on top of panels."""
    return max(len(panel.series) if panel.names == "legend" else 0 for panel in figure.panels)


def right(figure: Figure) -> int:
    """Pixels at the right of all panels, for texts."""
    panel = figure.panels[0]
    texts = [words for panel in figure.panels for _, words in panel.margin_notes]
    if panel.names == "ends" and not has_legend(panel):
        texts += [end.text for end in panel.ends]
    return 24 + round(LETTER * max(map(len, texts), default=0))
