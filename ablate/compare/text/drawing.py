"""An interval drawn in characters: `━━━┿●━━━`, with 0 in the middle."""

from __future__ import annotations

from ablate.compare.formats import Drawn
from ablate.compare.text.plain import printable

MARKS, IN_ASCII = "━●│┿◂▸", "-o|+<>"


def drawn(interval: Drawn, num: int, unicode: bool = True) -> str:
    """The interval in so many characters; an arrow where it goes on."""
    line, dot, zero, crossed, left, right = MARKS if unicode else IN_ASCII
    cells = [" "] * num
    cells[num // 2] = zero
    if interval.ends is not None:
        low, high = (_position(end, interval, num) for end in interval.ends)
        for at in range(max(low, 0), min(high, num - 1) + 1):
            cells[at] = crossed if at == num // 2 and _has_zero(interval.ends) else line
        cells[0] = left if low < 0 else cells[0]
        cells[-1] = right if high >= num else cells[-1]
    if interval.centre is not None:
        at = _position(interval.centre, interval, num)
        cells[min(max(at, 0), num - 1)] = left if at < 0 else right if at >= num else dot
    return "".join(cells)


def _has_zero(ends: tuple[float, float]) -> bool:
    return ends[0] <= 0 <= ends[1]


def _position(value: float, interval: Drawn, num: int) -> int:
    """The character of a value, below 0 or from `num` on where the axis has none. Only what is
    0 is in the middle."""
    place = interval.place(value)
    if abs(place) > 1:
        return -1 if value < 0 else num
    half = num // 2
    at = round(place * half)
    if at == 0 and value:
        at = 1 if value > 0 else -1
    return half + at


def axis(interval: Drawn, num: int, unicode: bool = True) -> str:
    """The heading: both ends of the axis, and 0."""
    low, high = (printable(end, unicode) for end in interval.ends_of_axis)
    half = num // 2
    return f"{low.ljust(half)}0{high.rjust(half)}"
