"""`ablate judge --item`: arms whose trainings answered the same items, right or wrong."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import special, stats

import ablate
from tests.lab.calibration.draws import ALPHA, half_width, p_of
from tests.lab.calibration.row import Case, Limit, Row, Simulated, hold_equal, rate

JUDGED = 20  # draws that are judged as files are: each takes a tenth of a second
AT_ONCE = 1_000  # draws, to bound the memory


def several(
    generator: np.random.Generator, num: int, *, seeds: int, items: int, apart: float
) -> Simulated:
    """Arms whose trainings differ by `apart` in log odds, around the same mean."""
    wrong, pasted = [], []
    for at in range(0, num, AT_ONCE):
        answers = _answers(generator, min(AT_ONCE, num - at), seeds, items, apart)
        apart_of = answers[:, 1] - answers[:, 0]
        half = np.hypot(half_width(apart_of.mean(-1)), half_width(apart_of.mean(-2)))
        wrong.append(np.abs(apart_of.mean((-2, -1))) >= half)
        pasted.append(p_of(apart_of.reshape(len(answers), -1)) <= ALPHA)
        if not at:
            by_tables = [_decides(one, with_seeds=True) for one in answers[:JUDGED]]
            hold_equal(wrong[0], by_tables, f"{seeds} trainings of {items} items")
    return Simulated(rate(np.concatenate(wrong)), rate(np.concatenate(pasted)))


def alone(generator: np.random.Generator, num: int, *, items: int) -> Simulated:
    """One training each, of which neither knows more of such items; the twin counts all items that
    the arm knows against half of them."""
    answers = _answers(generator, num, 1, items, 0.0)[:, :, 0]
    better = (answers[:, 1] > answers[:, 0]).sum(-1)
    worse = (answers[:, 1] < answers[:, 0]).sum(-1)
    p = 2 * stats.binom.cdf(np.minimum(better, worse), better + worse, 0.5)
    by_tables = [_decides(one[:, None], with_seeds=False) for one in answers[:JUDGED]]
    hold_equal(p <= ALPHA, by_tables, f"{items} items")
    means = answers.mean(-1)
    error = np.sqrt(means[:, 0] * (1 - means[:, 0]) / items)
    one_sample = np.abs(means[:, 1] - means[:, 0]) >= special.ndtri(1 - ALPHA / 2) * error
    return Simulated(rate(p <= ALPHA), rate(one_sample))


def _answers(
    generator: np.random.Generator, num: int, seeds: int, items: int, apart: float
) -> np.ndarray:
    """[draw, arm, training, item], 1 where it is right."""
    odds = generator.normal(0, 1, (num, 1, 1, items))
    odds = odds + apart * generator.normal(size=(num, 2, seeds, 1))
    return (generator.random((num, 2, seeds, items)) < special.expit(odds)).astype(float)


def _decides(answers: np.ndarray, *, with_seeds: bool) -> bool:
    rows = [
        {"arm": arm, **({"seed": seed} if with_seeds else {}), "item": item, "right": right}
        for (arm, seed, item), right in np.ndenumerate(answers)
    ]
    study = ablate.judge(rows, arm="arm", metric="right", better="higher", item="item")
    comparison = study.arms[1].comparison
    return comparison is not None and comparison.verdict.decided


ROW = Row(
    name="Items",
    promise="`ablate judge --item` calls equal arms better or worse in at most 5%: with several "
    "trainings, arms whose trainings are equal on average; with one each, trainings that know as "
    "much of such items.",
    draws="Right and wrong answers of two arms to the same items, whose difficulty varies by 1 in "
    "log odds.",
    of="judgements with a wrong word",
    limit=Limit(most=5.5),
    twin="each answer of each training as a pair; with one training each, items of one arm as if "
    "the other's accuracy were known",
    cases=(
        *(
            Case(
                f"{seeds} trainings of {items} items, {apart:g} apart",
                partial(several, seeds=seeds, items=items, apart=apart),
            )
            for seeds, items, apart in ((3, 200, 0.1), (3, 200, 0.2), (5, 500, 0.1))
        ),
        *(Case(f"one training, {items} items", partial(alone, items=items)) for items in (50, 500)),
    ),
)
