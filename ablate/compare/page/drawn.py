"""A cell's interval as a small picture within a page; its numbers stand beside it."""

from __future__ import annotations

from typing import Any

from ablate.compare.formats import Drawn, text_of

WIDTH, HEIGHT, MARGIN = 170, 16, 6


class Svg(str):
    """A picture that a template writes as it is; it is made of numbers alone."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def as_html(cell: Any) -> str:
    """A cell's text, or its picture."""
    return _svg(cell) if isinstance(cell, Drawn) else text_of(cell)


def _svg(interval: Drawn) -> Svg:
    middle = HEIGHT / 2
    marks = [f'<path d="M{_x(0, interval)} 0V{HEIGHT}" stroke-opacity=".4"/>']
    if interval.ends is not None:
        low, high = (_x(end, interval) for end in interval.ends)
        marks.append(f'<path d="M{low} {middle:g}H{high}" stroke-width="2"/>')
    if interval.centre is not None:
        at = _x(interval.centre, interval)
        marks.append(f'<circle cx="{at}" cy="{middle:g}" r="3.5" fill="currentColor"/>')
    return Svg(
        f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'stroke="currentColor" aria-hidden="true">{"".join(marks)}</svg>'
    )


def _x(value: float, interval: Drawn) -> str:
    """Where a value is; what is beyond the axis goes to the edge of the picture."""
    share = min(max(value / interval.reach, -1.1), 1.1)
    half = WIDTH / 2
    return f"{min(max(half + share * (half - MARGIN), 0), WIDTH):.1f}"
