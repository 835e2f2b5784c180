"""Groups of arms that cannot be told apart, beside tests of every pair."""

from __future__ import annotations

import itertools
import json
import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import ablate
from ablate.cli import main
from ablate.judging.groups import groups, letters


@given(st.integers(1, 7), st.randoms(use_true_random=False))
def test_two_share_a_letter_unless_they_are_apart(num, rng):
    names = [f"arm {i}" for i in range(num)]
    apart = [pair for pair in itertools.combinations(names, 2) if rng.random() < 0.5]
    found = {name: {*own.split()} for name, own in letters(names, apart).items()}
    for one, other in itertools.combinations(names, 2):
        assert bool(found[one] & found[other]) == ((one, other) not in apart)
    assert all(found.values()) and "a" in found[names[0]]


def judged(losses: np.ndarray):
    """A row for each arm and seed."""
    rows = [
        {"arm": f"arm {arm}", "seed": seed, "loss": float(loss)}
        for (arm, seed), loss in np.ndenumerate(losses)
    ]
    return ablate.judge(rows, arm="arm", metric="loss", better="lower")


def test_pairs_are_apart_where_holms_t_tests_over_all_of_them_say_so():
    draws, pairs = np.random.default_rng(5), [*itertools.combinations(range(5), 2)]
    decided = 0
    for _ in range(20):
        losses = 3 + draws.normal(size=(1, 6)) + draws.normal(size=(5, 6)) * 0.3
        losses += draws.choice((0, 0.5, 1.5), (5, 1))
        p = np.array([stats.ttest_rel(losses[a], losses[b]).pvalue for a, b in pairs])
        order = np.argsort(p)
        adjusted = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
        apart = {pairs[at] for at, holm in zip(order, adjusted, strict=True) if holm <= 0.05}
        found = {name: {*own.split()} for name, own in groups(judged(losses)).items()}
        for a, b in pairs:
            assert bool(found[f"arm {a}"] & found[f"arm {b}"]) == ((a, b) not in apart)
        decided += len(apart)
    assert 20 < decided < 180


def test_arms_that_lost_seeds_are_told_apart_from_none():
    losses = np.random.default_rng(1).normal(size=(3, 6)) * 0.01 + np.array([[1.0], [2.0], [3.0]])
    assert groups(judged(losses)) == {"arm 0": "a", "arm 1": "b", "arm 2": "c"}
    losses[1, 2] = np.nan
    assert groups(judged(losses)) == {"arm 0": "a", "arm 1": "a b", "arm 2": "b"}


def test_a_table_has_them_in_every_format(tmp_path, capsys):
    rng = random.Random(0)
    lines = [f"{arm},{s},{i + rng.random() / 9}" for i, arm in enumerate("xy") for s in range(5)]
    (tmp_path / "runs.csv").write_text("\n".join(["arm,seed,loss", *lines]))
    command = ["judge", str(tmp_path / "runs.csv"), "--arm", "arm", "--metric", "loss"]
    command += ["--better", "lower", "--groups"]
    assert main(command) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[-1] for row in rows if row[:1] in (["x"], ["y"])][:2] == ["a", "b"]
    assert main([*command, "--format", "json"]) == 0
    assert [arm["group"] for arm in json.loads(capsys.readouterr().out)["arms"]] == ["a", "b"]
    assert main([*command, "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith(",group")
