"""What a change bought, against all pairs held against each other one by one."""

from __future__ import annotations

import itertools
import random

import pytest
from scipy import stats

from ablate.compare import pairs
from ablate.errors import ConfigError
from ablate.mirror.syncing import up_to_date

BASE = {"head": "softmax", "backbone": "lstm", "backbone.units": 20, "training.valid_window": 200}


def some_trials(recorded):
    """Heads, units, seeds and corpora at random, some twice as likely as others, some not done."""
    draws = random.Random(3)
    journals = []
    space = itertools.product(("softmax", "mos"), (None, 15), (20, 30), range(1, 7), ("c0", "c1"))
    for number, (head, experts, units, seed, corpus) in enumerate(space):
        if (head == "softmax") == (experts is not None) or draws.random() < 0.2:
            continue
        config = {**BASE, "head": head, "backbone.units": units}
        config |= {"training.valid_window": draws.choice((100, 200))}
        config |= {} if experts is None else {"head.experts": experts}
        options = {"seed": seed, "corpus_digest": corpus, "nats": round(draws.gauss(4, 0.1), 6)}
        status = "pruned" if draws.random() < 0.1 else "completed"
        journals.append(recorded.trial(f"t{number}", config, status=status, **options))
    recorded.study("one", {"a": journals[::2]})
    recorded.study("two", {"b": journals[1::2]})
    return journals


def by_hand(journals, names):
    """(mean difference, t interval, pairs) of the change from softmax to mos, or 20 to 30 units."""

    def split(config):
        named = {
            k: v for k, v in config.items() if any(k == n or k.startswith(f"{n}.") for n in names)
        }
        rest = {k: v for k, v in config.items() if k not in named and k != "training.valid_window"}
        return named, rest

    deltas = []
    done = [j for j in journals if j.status == "completed"]
    for one, other in itertools.permutations(done, 2):
        (named, rest), (named_other, rest_other) = split(one.config), split(other.config)
        same = one.trial.seed == other.trial.seed
        same &= one.trial.corpus_digest == other.trial.corpus_digest and rest == rest_other
        if same and named != named_other and str(named) > str(named_other):
            losses = [j.outcome["metrics"]["valid_nll"] for j in (one, other)]
            deltas.append(losses[0] - losses[1])
    return deltas


@pytest.mark.parametrize("name", ["head", "backbone.units"])
def test_pairs_are_those_found_one_by_one(recorded, name):
    journals = some_trials(recorded)
    found = pairs.exchange(up_to_date(recorded.workspace), [name])
    expected = by_hand(journals, [name])
    assert len(expected) > 5
    (change,) = found.changes
    deltas = change.difference.deltas
    same_way = sorted(abs(d) for d in deltas) == pytest.approx(sorted(abs(d) for d in expected))
    assert same_way and change.difference.num_pairs == len(expected)
    assert abs(change.difference.mean) == pytest.approx(abs(sum(expected)) / len(expected))
    interval = stats.ttest_1samp(deltas, 0).confidence_interval(0.95)
    assert change.difference.interval == pytest.approx((interval.low, interval.high))
    assert change.studies == ("one", "two")


def test_what_differs_in_two_things_is_no_pair_for_one(recorded):
    one = recorded.trial("t1", BASE)
    other = recorded.trial("t2", {**BASE, "head": "mos", "backbone.units": 30}, nats=3.5)
    recorded.study("one", {"a": [one], "b": [other]})
    mirror = up_to_date(recorded.workspace)
    assert pairs.exchange(mirror, ["head"]).changes == ()
    assert "No two of 2" in pairs.plain_text(pairs.exchange(mirror, ["head"]))
    (change,) = pairs.exchange(mirror, ["head", "backbone"]).changes
    assert abs(change.difference.mean) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "differs",
    [
        {"seed": 2},
        {"corpus_digest": "c9"},
        {"reads_test": False},
        {"runner": "ablate.train.evaluation:Evaluation"},
    ],
)
def test_another_seed_corpus_or_runner_is_no_pair(recorded, differs):
    other = recorded.trial("t2", {**BASE, "head": "mos"}, **differs)
    recorded.study("one", {"a": [recorded.trial("t1", BASE)], "b": [other]})
    assert pairs.exchange(up_to_date(recorded.workspace), ["head"]).changes == ()


def test_what_ran_a_trial_and_whether_it_read_test_can_be_asked(recorded, asked):
    judged = recorded.trial(
        "t2", BASE, reads_test=False, runner="ablate.train.evaluation:Evaluation"
    )
    recorded.study("one", {"a": [recorded.trial("t1", BASE), judged]})
    assert asked(recorded, "SELECT reads_test, runner FROM trials ORDER BY trial") == [
        (True, "ablate.train.loop:Training"),
        (False, "ablate.train.evaluation:Evaluation"),
    ]


def test_fine_tuned_trials_are_pairs_if_those_before_are(recorded):
    heads = {head: {**BASE, "head": head} for head in ("softmax", "mos")}
    first = {h: recorded.trial(f"{h}-1", c) for h, c in heads.items()}
    tuned = {
        h: recorded.trial(f"{h}-2", {**c, "training.epochs": 3}, parents=[f"{h}-1"])
        for h, c in heads.items()
    }
    wide = recorded.trial("wide-1", {**heads["mos"], "backbone.units": 99})
    stray = recorded.trial("stray", {**heads["mos"], "training.epochs": 3}, parents=["wide-1"])
    arms = {"a": [first["softmax"], tuned["softmax"]], "b": [first["mos"], tuned["mos"]]}
    recorded.study("one", {**arms, "c": [wide, stray]})
    found = pairs.exchange(up_to_date(recorded.workspace), ["head"])
    assert sum(change.difference.num_pairs for change in found.changes) == 2


def test_an_unknown_slot_names_the_nearest(recorded):
    recorded.study("one", {"a": [recorded.trial("t1", BASE)]})
    with pytest.raises(ConfigError, match=r"Did you mean 'backbone\.units'"):
        pairs.exchange(up_to_date(recorded.workspace), ["backbone.unit"])


def test_the_change_is_told_by_what_differs():
    sep = chr(31)
    before, after = f"head=mos{sep}head.experts=15", f"head=mos{sep}head.experts=20"
    assert pairs.told(before, after) == ("head.experts=15", "head.experts=20")
    assert pairs.told("", "gate=iog") == ("not set", "gate=iog")
