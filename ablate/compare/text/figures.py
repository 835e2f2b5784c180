"""How numbers are written in tables and on screen."""

from __future__ import annotations

from functools import partial

from ablate.config.metrics import Metric

NONE = "–"
MOST_PERCENT = 1000  # a larger change is written as a ratio: ×12


def count(number: float | None) -> str:
    """1234567 -> 1.23M."""
    if number is None:
        return NONE
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * size:  # 999.6k in three digits is 1M
            return f"{number / size:.3g}{letter}"
    return str(round(number))


def duration(seconds: float) -> str:
    """95 -> 1m35s."""
    whole = round(seconds)  # first: 59.6 s are 1m00s and not 60s
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def decimal(number: float, digits: int) -> str:
    """Return a number with this many digits, or in powers of ten if it is huge."""
    return f"{number:.{digits}f}" if abs(number) < 1e7 else f"{number:.1e}"


def signed(number: float, digits: int) -> str:
    """A number with its sign, the minus as wide as a plus."""
    text = decimal(abs(number), digits)
    return f"{'−' if number < 0 else '+'}{text}"


def changed(metric: Metric, delta: float, ends: tuple[float, float] | None, digits: int) -> str:
    """A difference as `Metric.change` gives it, with its interval: `−9.2% [−13.3, −4.9]`.

    `digits` are those of a difference that is not in percent.
    """
    if metric.in_percent:
        sizes = [abs(number) for number in (delta, *(ends or ()))]
        write = partial(_percent, digits=1 if max(sizes) >= 1 and min(sizes) >= 0.05 else 2)
        text = f"{write(delta)}{'' if delta >= MOST_PERCENT else '%'}"
    else:
        write = partial(signed, digits=digits)
        text = write(delta)
    return text if ends is None else f"{text} [{', '.join(map(write, ends))}]"


def _percent(percent: float, digits: int) -> str:
    """A change in percent, or a ratio if it is large."""
    if percent >= MOST_PERCENT:
        return f"×{decimal(1 + percent / 100, 0)}"
    return signed(percent, digits)


def shown(metric: Metric, loss: float) -> str:
    """A loss as the number that people read."""
    return decimal(metric.show(loss), metric.digits)
