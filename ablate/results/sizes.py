"""Sizes of differences as study files write them: `"1%"`, or a number on the metric's scale.

A percentage is of a ratio, so it needs a metric that is compared by ratios (perplexity). Of others
a study gives the number: 0.005 is half a point of accuracy, 0.3 is 0.3 BLEU.
"""

from __future__ import annotations

import math

from ablate.config.metrics import Metric
from ablate.errors import StudyError, wrong_value


def check_size(word: str, written: str | float | None, where: str) -> None:
    """Raise unless it is a positive number or percentage; None is no size."""
    expected = "a number above 0, or a percentage such as '1%'"
    if written is None:
        return
    number = _percent(written) if isinstance(written, str) else written
    if number is None or not 0 < number < math.inf:
        raise StudyError(wrong_value(word, written, expected, where))


def size_on_scale(
    word: str, written: str | float | None, metric: Metric, where: str
) -> float | None:
    """Return the size on the scale of the metric's tests."""
    check_size(word, written, where)
    if written is None or not isinstance(written, str):
        return written
    if metric.scale != "log":
        kind = "odds" if metric.scale == "logit" else "differences"
        raise StudyError(
            f"{where}: {word} = {written!r} is a percentage, which is of ratios, and "
            f"{metric.shown} is compared by {kind}. Instead: a number on its scale; "
            f"{word}={metric.margin:g} is {shown_size(metric.margin, metric)}."
        )
    return math.log1p((_percent(written) or 0.0) / 100)


def shown_size(size: float, metric: Metric) -> str:
    """A distance on the metric's scale as people read it: `1%`, `0.05 in log odds`, `0.5`."""
    if metric.scale == "log":
        return f"{_short(100 * math.expm1(min(size, 300.0)))}%"
    if metric.scale == "logit":
        return f"{_short(size)} in log odds"
    return _short(size * metric.factor)


def _short(number: float) -> str:
    """Two digits, and all of a large number's whole ones."""
    return f"{number:.0f}" if 10 <= number < 1e6 else f"{number:.2g}"


def _percent(text: str) -> float | None:
    number, sign, rest = text.strip().partition("%")
    try:
        return float(number) if sign and not rest else None
    except ValueError:
        return None
