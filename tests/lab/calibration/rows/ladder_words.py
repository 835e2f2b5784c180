"""The words of a ladder for an arm that saves a share of the base's compute, always the same or one
that changes, while the curves of both arms flatten."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ablate.compare.judged import Judged
from ablate.compare.statistics import equivalent
from ablate.compare.statistics.ladder import OverRow, over_rungs
from ablate.compare.statistics.power_law import PowerLaw, fit
from tests.lab.calibration.draws import ALPHA, holm, p_of
from tests.lab.calibration.row import CHECKED, Case, Limit, Row, Simulated, hold_equal, rate
from tests.lab.calibration.rows.ladder_equivalent import EXPONENT, FLOOR, HEIGHT, SHARED
from tests.support.studies_by_hand import ByHand

COMPUTE = 10.0 ** np.arange(4)
RUNGS = ("1", "2", "3", "4")
BEYOND = 10.0
LARGEST, SLOPE, CARRIED = -3, -2, -1  # of the tests, after the gains by rung
DECIDED, INTERVAL = "a word for equal arms", "interval at 10 times the largest"


class Saving(NamedTuple):
    """What the base needs on the largest rung, over what the arm uses, and by what this is
    multiplied for ten times the compute."""

    largest: float
    change: float = 1.0

    @property
    def on_rungs(self) -> np.ndarray:
        """The saving on each rung."""
        return self.largest * self.change ** (np.log10(COMPUTE) - np.log10(COMPUTE[-1]))

    def __str__(self) -> str:
        changes = "" if self.change == 1 else f" and {self.change:g} times that for ten times"
        return f"{self.largest:g} times{changes}"


class Drawn(NamedTuple):
    """Losses [ladder, seed, rung]."""

    base: np.ndarray
    arm: np.ndarray


def losses(
    generator: np.random.Generator, num: int, seeds: int, noise: float, saving: Saving
) -> Drawn:
    """Of the base and of the arm."""
    common, *own = generator.normal(0, noise, (3, num, seeds, len(COMPUTE)))
    base, arm = (np.sqrt(SHARED) * common + np.sqrt(1 - SHARED) * one for one in own)
    return Drawn(
        FLOOR + HEIGHT * COMPUTE**-EXPONENT + base,
        FLOOR + HEIGHT * (saving.on_rungs * COMPUTE) ** -EXPONENT + arm,
    )


def words(
    generator: np.random.Generator,
    num: int,
    *,
    word: str,
    seeds: int,
    noise: float,
    saving: Saving,
    has_twin: bool,
) -> Simulated:
    """How often a ladder's verdict on the arm has a word."""
    drawn = losses(generator, num, seeds, noise, saving)
    logs, known = _savings(drawn)
    each = np.concatenate([drawn.arm - drawn.base, -_lines(logs)], -1).swapaxes(-1, -2)
    means, p = each.mean(-1), p_of(each)
    said = known & _said(word, np.where(holm(p) <= ALPHA, np.sign(means), 0))
    tables = (_over(*both).verdict for both in zip(*(one[:CHECKED] for one in drawn), strict=True))
    hold_equal(said, [_in_verdict(word, verdict) for verdict in tables], word)
    if not has_twin:
        return Simulated(rate(said))
    if word == DECIDED:
        return Simulated(rate(said), rate(_said(word, np.where(p <= ALPHA, np.sign(means), 0))))
    return Simulated(rate(said), rate(_of_nats(drawn, word)))


def _savings(drawn: Drawn) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the saving [ladder, seed, rung], and which ladders have them."""
    logs, known = np.zeros_like(drawn.base), np.zeros(len(drawn.base), bool)
    for index, (base, arm) in enumerate(zip(*drawn, strict=True)):
        if (np.diff(base.mean(0)) < 0).all():
            law = fit(COMPUTE.tolist(), base.mean(0).tolist(), above_zero=True)
            found = equivalent.savings(law, base, arm, COMPUTE.tolist())
            if not law.problem and found is not None and not _is_off(law, base):
                logs[index], known[index] = found, True
    logs[~known] = np.random.default_rng(0).normal(size=logs[~known].shape)  # not used
    return logs, known


def _is_off(law: PowerLaw, base: np.ndarray) -> bool:
    """Whether t-tests over seeds tell the base's means from the curve."""
    moves = law.weights(COMPUTE)
    left = base - law.at(COMPUTE) - (base - base.mean(0)) @ moves.T
    return bool((p_of(left.T) <= ALPHA / (len(moves) - round(np.trace(moves)))).any())


def _lines(of_seeds: np.ndarray) -> np.ndarray:
    """On the largest rung, the slope, and what is carried, by a solver that knows no formula of
    ours."""
    logs = np.log10(COMPUTE)
    at_1, slope = np.linalg.lstsq(np.stack([np.ones_like(logs), logs], -1), np.eye(len(logs)))[0]
    ends = np.stack([np.eye(len(logs))[-1], slope, at_1 + slope * np.log10(BEYOND * COMPUTE[-1])])
    return of_seeds @ ends.T


def _of_nats(drawn: Drawn, word: str) -> np.ndarray:
    """The word by the line through the differences of losses."""
    lines = _lines(drawn.arm - drawn.base).swapaxes(-1, -2)
    signs = np.where(p_of(lines) <= ALPHA, np.sign(lines.mean(-1)), 0)
    return _said("shrinks", signs) if word == "shrinks" else signs[:, CARRIED] > 0


def _said(word: str, signs: np.ndarray) -> np.ndarray:
    """Whether the verdict has the word; `signs` are those of what the tests decided."""
    largest, slope, carried = signs[:, LARGEST], signs[:, SLOPE], signs[:, CARRIED]
    worse, holds = largest > 0, (largest < 0) & (carried < 0)
    return {
        "worse": worse,
        "holds": holds,
        "shrinks": slope > 0,
        "grows": slope < 0,
        "grows or shrinks": slope != 0,
        DECIDED: worse | holds | (slope != 0),
    }[word]


def _in_verdict(word: str, verdict: str) -> bool:
    said = verdict.split(", ")
    if word == DECIDED:
        return bool({"worse", "holds", "grows", "shrinks"} & {*said})
    return any(one in said for one in word.split(" or "))


def intervals(
    generator: np.random.Generator, num: int, *, seeds: int, noise: float, saving: Saving
) -> Simulated:
    """How often the interval of what the base needs at ten times the largest rung's compute misses
    the truth."""
    drawn = losses(generator, num, seeds, noise, saving)
    truth = saving.largest * saving.change ** np.log10(BEYOND)
    logs, known = _savings(drawn)
    missed = known & (p_of(_lines(logs)[..., CARRIED] - np.log10(truth)) <= ALPHA)
    tables = (_over(*both) for both in zip(*(one[:CHECKED] for one in drawn), strict=True))
    hold_equal(missed, [_misses(row.beyond, truth) for row in tables], INTERVAL)
    reach = HEIGHT * (BEYOND * COMPUTE[-1]) ** -EXPONENT
    nats = _lines(drawn.arm - drawn.base)[..., CARRIED] - reach * (truth**-EXPONENT - 1)
    return Simulated(rate(missed[known]), rate(p_of(nats) <= ALPHA))


def _misses(found: equivalent.Equivalent | None, truth: float) -> bool:
    """No number and an open end miss nothing."""
    if found is None:
        return False
    above = found.low is not None and found.low > truth
    return above or (found.high is not None and found.high < truth)


def _over(base: np.ndarray, arm: np.ndarray) -> OverRow:
    """The row over all rungs of the table that studies with these losses have."""
    fields = {"one_of": "s", "rungs": RUNGS, "beyond": BEYOND}
    summaries = []
    for index, name in enumerate(RUNGS):
        study = ByHand({"base": base[:, index].tolist(), "a": arm[:, index].tolist()})
        study.record_fields = {**fields, "scale": f"s.{name}", "sizes": {"size": name}}
        study.arm_fields = {key: {"compute": float(COMPUTE[index])} for key in ("base", "a")}
        summaries.append(Judged(study.record, study.journals))
    (row,) = over_rungs(summaries).over
    return row


QUIET, LOUD = 0.002, 0.01  # the surer a wrong line is, the less noise there is
SMALL, MIDDLE, TWICE = Saving(1.2), Saving(1.5), Saving(2.0)
GROWING, SHRINKING = Saving(2.0, 1.3), Saving(2.0, 0.7)
NONE = Limit()


def _word(
    what: str, saving: Saving, seeds: int, noise: float, *, limit: Limit | None = None
) -> Case:
    # With five seeds, words without a correction err hardly more: 5.9% for equal arms.
    alike = saving.largest == 1 and (what == "worse" or seeds > 3)
    has_twin = limit is None and not alike
    draws = partial(words, word=what, seeds=seeds, noise=noise, saving=saving, has_twin=has_twin)
    named = what if what == DECIDED else f"`{what}`"
    return Case(f"{named}, {saving}, {seeds} seeds, noise {noise:g}", draws, limit=limit)


def _interval(saving: Saving, seeds: int, noise: float) -> Case:
    draws = partial(intervals, seeds=seeds, noise=noise, saving=saving)
    return Case(f"{INTERVAL}, {saving}, {seeds} seeds, noise {noise:g}", draws)


ROW = Row(
    name="Words of a ladder",
    promise="An arm that always saves the same share of the base's compute is said to `shrink` or "
    "`grow` in at most 5%, and is called `worse` in at most 5%; one that is the base's equal is "
    "given any word other than `not shown to hold` in at most 5%. The interval of what the base "
    "needs at ten times the largest rung's compute misses the truth in 5%, whether the saving is "
    "constant or a power of the compute. How often a true word is found depends on the saving "
    "and the noise.",
    draws=f"Losses E + A C^-a of {FLOOR:g} + {HEIGHT:g} C^-{EXPONENT:g} nats on four rungs, each "
    "with ten times the compute of the one before. On the largest rung the base needs so many "
    "times the arm's compute to get there. A fifth of the noise's variance is shared by a seed's "
    "arms. A ladder in which a number of what the base needs is missing has no word, and does not "
    "count among intervals.",
    of="ladders with the word, or intervals that miss",
    limit=Limit(most=5.5),
    twin="a line through the differences in nats; for equal arms, words without a correction",
    cases=(
        *(_word(DECIDED, Saving(1.0), seeds, LOUD) for seeds in (3, 5)),
        _word("worse", Saving(1.0), 3, LOUD),
        _word("worse", MIDDLE, 5, QUIET),
        *(_word("shrinks", saving, 5, LOUD) for saving in (SMALL, TWICE)),
        _word("grows or shrinks", TWICE, 5, QUIET, limit=Limit(most=5.5)),
        *(_interval(saving, 5, LOUD) for saving in (SMALL, TWICE, GROWING, SHRINKING)),
        _interval(MIDDLE, 3, LOUD),
        *(_word("holds", saving, 5, LOUD, limit=NONE) for saving in (SMALL, MIDDLE, SHRINKING)),
        *(_word("holds", saving, 5, LOUD, limit=Limit(least=80)) for saving in (TWICE, GROWING)),
        _word("grows", GROWING, 5, LOUD, limit=NONE),
        _word("shrinks", SHRINKING, 5, LOUD, limit=NONE),
    ),
)
