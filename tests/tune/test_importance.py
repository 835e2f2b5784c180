"""Importances of a search whose answer is known: one hyperparameter makes the loss, one nothing."""

from __future__ import annotations

import dataclasses
import random

import optuna
import pytest

from ablate.commands.importance import plain_text
from ablate.errors import TrialError
from ablate.store.study_record import SearchRecord, StudyRecord
from ablate.tune.search import importance
from ablate.tune.search.arm import open_storage
from ablate.tune.search.importance import importances

RATE = optuna.distributions.FloatDistribution(0.0, 1.0)
RECORD = StudyRecord(
    name="s",
    scale="x",
    question="?",
    paper="",
    tables=(),
    file="s.py",
    command="",
    corpus="grammar",
    corpus_digest="c0",
    level="word",
    num_seeds=1,
    base_arm="a",
    arms=(),
    trials=(),
    searches=(SearchRecord(arm="a", repeat=1, num_trials=60),),
)


@pytest.fixture
def searched(tmp_path):
    """60 completed trials ruled by `rate`; 30 stopped early, whose loss `noise` rules."""
    url = f"folder:{tmp_path}"
    study = optuna.create_study(
        study_name="s@x/a/1/0123", storage=open_storage(url, RECORD.key), direction="minimize"
    )
    draws = random.Random(1)
    for number in range(90):
        rate, noise = draws.random(), draws.random()
        params, distributions = {"rate": rate, "noise": noise}, {"rate": RATE, "noise": RATE}
        if number % 2:
            params["own"], distributions["own"] = draws.random(), RATE
        made = {"params": params, "distributions": distributions}
        if number < 60:
            study.add_trial(optuna.trial.create_trial(value=(rate - 0.3) ** 2, **made))
        else:
            state = optuna.trial.TrialState.PRUNED
            early = {"intermediate_values": {1: 100 * noise}}
            study.add_trial(optuna.trial.create_trial(state=state, **early, **made))
    return url


@pytest.mark.slow
def test_what_made_the_loss_is_found_by_both(searched, monkeypatch):
    monkeypatch.setattr(importance, "NUM_RESAMPLES", 4)
    (result,) = importances(RECORD, searched)
    assert (result.num_completed, result.num_other) == (60, 30)
    assert result.num_with == {"rate": 60, "noise": 60, "own": 30}
    assert set(result.shares) == {"PED-ANOVA", "fANOVA"}
    for shares in result.shares.values():
        assert shares["rate"] > 0.8 and shares["noise"] < 0.2 and shares["own"] < 0.2
    for evaluator, shares in result.shares.items():
        floor, ranges = result.floors[evaluator], result.ranges[evaluator]
        assert shares["rate"] > floor >= 0 and ranges["rate"][0] > floor
        assert ranges["noise"][0] < floor  # no more than chance gives
        assert all(low <= high for low, high in ranges.values())
    text = plain_text(RECORD.key, [result])
    assert text.splitlines()[5].split()[0] == "rate"
    assert "a random number, at most" in text
    assert "search 2: 60 completed trials, 30 others" in text


def test_few_trials_say_nothing(tmp_path):
    storage = open_storage(f"folder:{tmp_path}", RECORD.key)
    optuna.create_study(study_name="s@x/a/1/0123", storage=storage)
    (result,) = importances(RECORD, f"folder:{tmp_path}")
    assert result.shares == {}
    assert "0 completed trials are too few" in plain_text(RECORD.key, [result])


def test_four_completed_trials_are_enough(tmp_path):
    storage = open_storage(f"folder:{tmp_path}", RECORD.key)
    study = optuna.create_study(study_name="s@x/a/1/0123", storage=storage)
    for number in range(4):
        (before,) = importances(RECORD, f"folder:{tmp_path}")
        assert before.shares == {} and before.num_completed == number
        place = {"params": {"rate": number / 4}, "distributions": {"rate": RATE}}
        study.add_trial(optuna.trial.create_trial(value=number / 2, **place))
    (result,) = importances(RECORD, f"folder:{tmp_path}")
    assert all(shares == {"rate": pytest.approx(1)} for shares in result.shares.values())
    assert set(result.shares) == {"PED-ANOVA", "fANOVA"} and not result.note


def test_each_search_of_an_arm_has_its_own(tmp_path):
    """As those of how to evaluate the models of two seeds."""
    storage = open_storage(f"folder:{tmp_path}", RECORD.key)
    for number, name in enumerate(("0123", "4567")):
        study = optuna.create_study(study_name=f"s@x/a/0/{name}", storage=storage)
        for _ in range(number + 1):
            study.add_trial(optuna.trial.create_trial(value=1.0))
    searches = tuple(
        SearchRecord(arm="a", repeat=0, num_trials=2, seed_index=index, key=f"a/0/{name}")
        for index, name in enumerate(("0123", "4567"))
    )
    found = importances(dataclasses.replace(RECORD, searches=searches), f"folder:{tmp_path}")
    assert [one.num_completed for one in found] == [1, 2]


def test_a_study_without_a_search_is_told(tmp_path):
    with pytest.raises(TrialError, match="has no search"):
        importances(dataclasses.replace(RECORD, searches=()), f"folder:{tmp_path}")


def test_a_search_that_is_elsewhere_is_told(tmp_path):
    with pytest.raises(TrialError, match="Use --workspace or --searches"):
        importances(RECORD, f"folder:{tmp_path}")
