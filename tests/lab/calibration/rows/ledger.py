"""Forty tries, one after another, in one ledger, and a confirmation on held-out seeds."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import ablate
from ablate.judging.judge import draw
from tests.lab.calibration.draws import ALPHA, p_of
from tests.lab.calibration.row import Case, Limit, Row, Simulated, hold_equal, rate
from tests.lab.calibration.rows.any_time import p_at

TRIES, SEEDS = 40, 5
BY_JUDGE = 10  # draws that `ablate.judge` judges, too: each is forty judgements
POWER = Limit(least=70)

Judgement = tuple[np.ndarray, np.ndarray, int, dict[str, str]]  # base, try, first seed, names


def forty_arms(generator: np.random.Generator, num: int, *, renamed: str = "") -> Simulated:
    """Equal arms against one base; `renamed`: what has another name in each try."""
    base = generator.normal(size=(num, 1, SEEDS))
    tries = generator.normal(size=(num, TRIES, SEEDS))

    def judgements(at: int) -> Iterator[Judgement]:
        for number, values in enumerate(tries[at]):
            names = {renamed: f"{renamed} {number}"} if renamed else {}
            yield base[at, 0], values, 0, {"arm": f"try {number}", **names}

    return _in_turn(p_of(tries - base), judgements)


def base_again(generator: np.random.Generator, num: int) -> Simulated:
    """One arm; its base is run again, on the same seeds, forty times."""
    bases = generator.normal(size=(num, TRIES, SEEDS))
    arm = generator.normal(size=(num, 1, SEEDS))

    def judgements(at: int) -> Iterator[Judgement]:
        yield from ((values, arm[at, 0], 0, {}) for values in bases[at])

    return _in_turn(p_of(bases - arm), judgements)


def _in_turn(p: np.ndarray, judgements: Any) -> Simulated:
    """The k-th of p [draw, try] at its share; the twin knows of k tries when it judges the k-th."""
    k = np.arange(1, TRIES + 1)
    wrong = (p * k * (k + 1) <= ALPHA).any(-1)
    hold_equal(wrong, _by_judge(len(p), judgements), "the ledger")
    return Simulated(rate(wrong), rate((p * k <= ALPHA).any(-1)))


def fresh_seeds(generator: np.random.Generator, num: int) -> Simulated:
    """One arm that equals its base, judged forty times, each time on five fresh seeds."""
    base, arm = generator.normal(size=(2, num, TRIES * SEEDS))
    deltas = arm - base

    def judgements(at: int) -> Iterator[Judgement]:
        for first in range(0, TRIES * SEEDS, SEEDS):
            of = slice(first, first + SEEDS)
            yield base[at, of], arm[at, of], first, {}

    wrong = 2 * p_of(deltas[:, :SEEDS]) <= ALPHA  # the first time, by a t-test
    for seeds in range(3, TRIES * SEEDS + 1):
        wrong |= 2 * p_at(deltas[:, :seeds]) <= ALPHA
    hold_equal(wrong, _by_judge(num, judgements), "the ledger")
    each = p_of(deltas.reshape(num, TRIES, SEEDS))
    return Simulated(rate(wrong), rate((each <= ALPHA).any(-1)))


def confirmed(generator: np.random.Generator, num: int) -> Simulated:
    """A gain of two spreads on five seeds that the ledger drew, after forty tries."""
    deltas = 2 + generator.normal(size=(num, SEEDS))
    p = p_of(deltas)
    with tempfile.TemporaryDirectory() as folder:
        ledger = str(Path(folder, "ledger.jsonl"))
        for number in range(TRIES):
            values = generator.normal(size=(2, SEEDS))
            _decides(ledger, *values, names={"arm": f"try {number}"}, seeds=range(SEEDS))
        tries = Path(ledger).read_bytes()
        decided = []
        for one in deltas[:BY_JUDGE]:
            Path(ledger).write_bytes(tries)
            seeds = draw(ledger, SEEDS)
            decided.append(_decides(ledger, np.zeros(SEEDS), one, seeds=seeds))
    hold_equal(2 * p <= ALPHA, decided, "a confirmation")
    return Simulated(rate(2 * p <= ALPHA), rate((TRIES + 1) * p <= ALPHA))


def _by_judge(num: int, judgements: Any) -> list[bool]:
    """Whether `ablate.judge` decides some try of a draw, for the first draws."""
    decided = []
    for at in range(min(num, BY_JUDGE)):
        with tempfile.TemporaryDirectory() as folder:
            ledger = str(Path(folder, "ledger.jsonl"))
            words = [
                _decides(ledger, base, arm, names=names, seeds=range(first, first + SEEDS))
                for base, arm, first, names in judgements(at)
            ]
        decided.append(any(words))
    return decided


def _decides(
    ledger: str,
    base: np.ndarray,
    arm: np.ndarray,
    *,
    names: dict[str, str] | None = None,
    seeds: Any,
) -> bool:
    name = {"base": "base", "arm": "arm", "column": "value"} | (names or {})
    rows = [
        {"arm": name[which], "seed": seed, name["column"]: value}
        for which, values in (("base", base), ("arm", arm))
        for seed, value in zip(seeds, values.tolist(), strict=True)
    ]
    judged = ablate.judge(rows, arm="arm", metric=name["column"], better="higher", ledger=ledger)
    comparison = judged.arms[1].comparison
    return comparison is not None and comparison.verdict.decided


ROW = Row(
    name="A ledger of forty tries",
    promise="However many variants one ledger has seen, and whatever they, their bases and their "
    "columns are called: of variants that equal their base, one or more are called better or worse "
    "in at most 5%.",
    draws="Normal noise, five seeds. Forty judgements with one ledger: of forty arms against one "
    "base, of one arm on fresh seeds, of one arm against a base that is run again.",
    of="ledgers with a wrong word in any of forty judgements (last line: confirmations that find "
    "a gain of two spreads)",
    limit=Limit(most=5.5),
    twin="the k-th try corrected for the k tries so far, fresh seeds and a base that is run again "
    "not counted; a confirmation corrected for the forty tries before it",
    cases=(
        Case("forty arms", forty_arms),
        Case("forty arms, another base's name each time", partial(forty_arms, renamed="base")),
        Case("forty arms, another column each time", partial(forty_arms, renamed="column")),
        Case("one arm, fresh seeds each time", fresh_seeds),
        Case("one arm, its base run again each time", base_again),
        Case("held-out confirmation", confirmed, limit=POWER),
    ),
)
