"""What a trial is judged by: a metric's name, which direction is better, and the scale of tests.

    Metric("accuracy", better="higher", scale="logit", factor=100, shown="accuracy in %")

A trial reports `valid_accuracy` and `test_accuracy`. Searches, tables and tests work on the
metric's `loss`: the reported value on the metric's scale, negated if higher is better, so that a
lower loss is always better. `show` turns a loss into the number that people read. Where neither
direction is better (a rank), the loss is the value itself: tables say lower or higher, but no arm
is best, nothing helps, and no search optimizes it.

A metric is of a split, unless `of` says that a trial reports it once: of the training text, or of
the model itself. The metrics of an evaluator have its name before a dot: `mixture_use.variation`.

scale     loss, if lower is better      differences on it are
linear    x                             differences
log       ln x                          ratios
logit     ln x / (1 - x)                ratios of odds, for shares between 0 and 1

A metric may say the lowest and the highest value that there is. A t interval on the linear scale
knows of neither: shown intervals are cut there, and the table says so.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ablate.config import fields
from ablate.config.fields import limited
from ablate.errors import ConfigError, TrialError, wrong_value

LARGEST_EXPONENT = 300.0  # so that squares of shown values do not overflow
LARGEST_RECORDED = 700.0  # e to the power of 710 overflows
LARGEST = 1e100  # what is reported beyond it has diverged: sums of squares would overflow
SPLITS = ("valid", "test")
SPLIT, TRAIN, MODEL, ARMS = "split", "train", "model", "arms"  # what a metric is of
SHARE = 1e-6  # shares are moved at least this far from 0 and 1, where log odds are infinite


def perplexity(nll: float, largest: float = LARGEST_RECORDED) -> float:
    """e to the power of the nats per token, as trials record it: a finite number."""
    return math.exp(min(nll, largest))


@dataclass(frozen=True)
class Metric:
    """A number that trials report for each split, and how to read it.

    Args:
        name: Trials report `valid_<name>` and `test_<name>`.
        better: `"lower"` or `"higher"`. With `"neither"`, no arm is best, nothing helps, and no
            search follows the metric.
        scale: Scale of tests and intervals: `"linear"` (differences), `"log"` (ratios), or
            `"logit"` (ratios of odds, for shares between 0 and 1).
        shown: Its name in tables, if not `name`.
        digits: Decimal places.
        factor: Multiplies what is shown: 100 for percentages.
        margin: Distance on its scale within which a published number counts as reproduced.
        reports_scaled: Trials report the metric on its scale already: nats, where tables show
            perplexity.
        published: Its names in the papers' tables.
        of: What it is reported for: `"split"` for each split; `"train"` or `"model"` once for the
            training text or the model, by evaluators; `"arms"` if tables compute it as a difference
            of two arms' models. The metrics of a task are of a split.
        lowest: The lowest value that there is, as trials report it. Shown intervals end there.
        highest: The highest value that there is.
    """

    name: str = limited()
    better: str = limited("lower", choices=("lower", "higher", "neither"))
    scale: str = limited("linear", choices=("linear", "log", "logit"))
    shown: str = ""
    digits: int = limited(2, low=0, high=9)
    factor: float = limited(1.0, low=1e-12)
    margin: float = limited(0.01, low=0)
    reports_scaled: bool = False
    published: tuple[str, ...] = ()
    of: str = limited(SPLIT, choices=(SPLIT, TRAIN, MODEL, ARMS))
    lowest: float | None = None
    highest: float | None = None

    def __post_init__(self) -> None:
        fields.check(self)
        if not self.name.strip():
            raise ConfigError(wrong_value("name", self.name, "a name", "Metric"))
        low, high = self.lowest, self.highest
        if low is not None and high is not None and low >= high:
            expected = f"more than lowest, which is {low:g}"
            raise ConfigError(wrong_value("highest", self.highest, expected, "Metric"))
        object.__setattr__(self, "shown", self.shown or self.name)

    def key(self, split: str) -> str:
        """The name under which trials report it for a split: `completion.valid_accuracy`."""
        return _key(self.name, self.of, split)

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits on which the metric is reported; or `train`, `model` or `arms`."""
        return SPLITS if self.of == SPLIT else (self.of,)

    def split_of(self, published: str | None) -> str | None:
        """Return which of `splits` a published number of this split is of; None: of none."""
        if (published in SPLITS) != (self.of == SPLIT):
            return None
        return published if self.of == SPLIT else self.of

    def sibling(self, name: str) -> Metric:
        """Another number that the same evaluator reports."""
        return replace(self, name=f"{self.name.rpartition('.')[0]}.{name}".lstrip("."))

    def by(self, evaluator: str) -> Metric:
        """Return this metric under the name that another evaluator than the trial's reports."""
        return replace(self, name=f"{evaluator}.{self.name}")

    def loss(self, reported: float) -> float:
        """A reported value as a loss; an error says why it has none."""
        return self.natural(reported if self.reports_scaled else self._scaled(reported))

    def slope(self, reported: float) -> float:
        """How much the loss rises with the reported value, at this one."""
        if self.reports_scaled or self.scale == "linear":
            return self.natural(1.0)
        if self.scale == "log":
            return self.natural(1 / max(reported, sys.float_info.min))
        inside = min(max(reported, SHARE), 1 - SHARE)
        return self.natural(1 / (inside * (1 - inside)))

    def loss_of(self, metrics: Mapping[str, Any], split: str) -> float | None:
        """The loss among a trial's metrics; None if it is missing, or no number to compute with, as
        one that is at the floor of a scale of logarithms."""
        value = metrics.get(self.key(split))
        if isinstance(value, int | float) and is_usable(value) and not self.is_at_floor(value):
            return self.loss(value)
        return None

    def is_at_floor(self, reported: float) -> bool:
        """Return whether a value is 0 on a scale of logarithms, which knows no ratio to it."""
        return self.scale == "log" and not self.reports_scaled and reported == 0

    def loss_of_shown(self, shown: float) -> float:
        """The loss of a number that people read, such as a published one."""
        return self.natural(self._scaled(shown / self.factor))

    def show(self, loss: float) -> float:
        """The number that people read."""
        value = self.natural(loss)
        if self.scale == "log":
            value = perplexity(value, LARGEST_EXPONENT)
        elif self.scale == "logit":
            value = 1 / (1 + math.exp(min(-value, LARGEST_EXPONENT)))
        return self.factor * value

    def natural(self, loss: float) -> float:
        """A loss, or a difference of losses, in the metric's own direction; and back."""
        return -loss if self.better == "higher" else loss

    def natural_interval(self, interval: tuple[float, float]) -> tuple[float, float]:
        """An interval of losses, or of their differences, in the metric's own direction."""
        low, high = sorted(map(self.natural, interval))
        return low, high

    @property
    def range(self) -> tuple[float, float]:
        """The lowest and the highest number that people can read of it; infinite without a limit.

        On a scale of logarithms or log odds, no interval leaves them.
        """
        low, high = self.lowest, self.highest
        return (
            -math.inf if low is None else self.factor * low,
            math.inf if high is None else self.factor * high,
        )

    @property
    def is_of_tokens(self) -> bool:
        """Return whether it is a mean over the tokens of a text, or a multiple of one."""
        return self.of == SPLIT and self.name in (PERPLEXITY.name, BITS_PER_BYTE.name)

    @property
    def directed(self) -> bool:
        """Return whether one direction is better."""
        return self.better != "neither"

    @property
    def scale_name(self) -> str:
        """What tests are made on: nats, accuracy, logit accuracy."""
        if self.reports_scaled:
            return "nats" if self.name == PERPLEXITY.name else self.name
        return {"linear": "", "log": "log ", "logit": "logit "}[self.scale] + self.name

    def shift(self, difference: float, at: float) -> float:
        """A difference of losses as a difference of shown values, from the shown value `at`.

        Monotone, so that an interval excludes 0 in one exactly when it does in the other.
        """
        if self.scale == "linear":
            return self.factor * self.natural(difference)
        if self.scale == "log" and self.better == "lower":  # exact for tiny differences
            return at * math.expm1(min(difference, LARGEST_EXPONENT))
        return self.show(self.loss_of_shown(at) + difference) - at

    @property
    def in_percent(self) -> bool:
        """Return whether differences are shown in percent: of ratios, or of ratios of odds."""
        return self.scale != "linear"

    def change(self, difference: float) -> float:
        """A difference of losses as tables show it: in the shown unit, or in percent.

        Monotone, so that an interval excludes 0 in one exactly when it does in the other.
        """
        natural = self.natural(difference)
        if self.in_percent:
            return 100 * math.expm1(min(natural, LARGEST_EXPONENT))
        return self.factor * natural

    def changes(self, interval: tuple[float, float] | None) -> tuple[float, float] | None:
        """An interval of differences of losses as tables show it."""
        if interval is None:
            return None
        # Sorted, since of a metric that is better if higher, a lower loss is the higher end.
        low, high = sorted(map(self.change, interval))
        return low, high

    def _scaled(self, value: float) -> float:
        if self.scale == "linear":
            return value
        if self.scale == "log":
            if value < 0:
                raise TrialError(f"{self.name} = {value:g} has no logarithm; its scale is log.")
            return math.log(value or sys.float_info.min)  # 0 is below all others
        if not 0 <= value <= 1:
            raise TrialError(
                f"{self.name} = {value:g} is not a share between 0 and 1; its scale is logit."
            )
        inside = min(max(value, SHARE), 1 - SHARE)
        return math.log(inside / (1 - inside))


def is_usable(reported: float) -> bool:
    """Return whether a reported number is finite, and not too large to compute with."""
    return abs(reported) <= LARGEST


def from_plain(plain: Mapping[str, Any]) -> Metric:
    """A recorded metric. Those recorded before metrics had limits have the limits of today."""
    metric = Metric(**plain)
    if "lowest" in plain:
        return metric
    own = metric.name.rpartition(".")[2], metric.scale, metric.shown
    limits = ((m.lowest, m.highest) for m in LIMITED if (m.name, m.scale, m.shown) == own)
    low, high = next(limits, (None, None))
    return replace(metric, lowest=low, highest=high)


@lru_cache(maxsize=10_000)  # it is asked several times for each of thousands of trials
def _key(metric: str, of: str, split: str) -> str:
    evaluator, dot, name = metric.rpartition(".")
    return f"{evaluator}{dot}{reported_name(name, of, split)}"


def reported_name(name: str, of: str, split: str) -> str:
    """The name under which a number is reported: `valid_nll`, `train_nll`, `distance`."""
    if of == SPLIT:
        return f"{split}_{name}"
    return f"{TRAIN}_{name}" if of == TRAIN else name


# Margins are about 1% of what the papers print, unless that is less than they could measure.
PERPLEXITY = Metric("nll", shown="perplexity", scale="log", reports_scaled=True, published=("ppl",))
BITS = Metric(
    "nll", shown="bits per character", digits=3, factor=1 / math.log(2), reports_scaled=True,
    published=("bpc",), lowest=0,
)  # fmt: skip
BITS_PER_BYTE = Metric("bits_per_byte", shown="bits per byte", digits=3, lowest=0)
TRAIN_PERPLEXITY = replace(PERPLEXITY, shown="train perplexity", of=TRAIN)
ACCURACY = Metric(
    "accuracy", better="higher", shown="accuracy in %", digits=1, factor=100, margin=0.005,
    published=("accuracy_percent",), lowest=0, highest=1,
)  # fmt: skip
VARIATION = Metric(
    "variation", better="neither", shown="coefficient of variation", digits=3,
    published=("coefficient_of_variation",), lowest=0,
)  # fmt: skip
RANK = Metric(
    "rank", better="neither", scale="log", digits=0, published=("rank_of_log_prob_matrix",)
)
DISTANCE = Metric(
    "distance", better="neither", shown="subspace distance", of=MODEL,
    published=("subspace_distance",), lowest=0,
)  # fmt: skip
MORE_PARAMETERS = Metric(
    "more_parameters", better="neither", shown="more parameters, M", digits=1, factor=1e-6,
    margin=0.0, of=ARMS, published=("params_diff_vs_IOG_millions",),
)  # fmt: skip
# Trials report these five between 0 and 100.
BLEU = Metric(
    "bleu", better="higher", shown="BLEU", margin=0.3, published=("BLEU",), lowest=0, highest=100
)
ROUGE_1, ROUGE_2, ROUGE_L = (
    Metric(
        f"rouge_{kind.lower()}", better="higher", shown=f"ROUGE-{kind}", margin=margin,
        published=(f"ROUGE-{kind} F1",), lowest=0, highest=100,
    )
    for kind, margin in (("1", 0.5), ("2", 0.25), ("L", 0.4))
)  # fmt: skip
BRACKET_F1 = Metric(
    "bracket_f1", better="higher", shown="bracketing F1", margin=0.3, published=("bracketing_F1",),
    lowest=0, highest=100,
)  # fmt: skip
# Of the best candidates, and of the parser's own: what a choice among them is measured by.
ORACLE_F1 = replace(BRACKET_F1, name="oracle_f1", shown="oracle F1", published=())
FIRST_F1 = replace(BRACKET_F1, name="first_f1", shown="first F1", published=())
KNOWN = (
    *(PERPLEXITY, BITS, BITS_PER_BYTE, TRAIN_PERPLEXITY, ACCURACY, VARIATION, RANK, DISTANCE),
    *(MORE_PARAMETERS, BLEU, ROUGE_1, ROUGE_2, ROUGE_L, BRACKET_F1),
)
LIMITED = (*KNOWN, ORACLE_F1, FIRST_F1)
