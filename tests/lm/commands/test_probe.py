"""Which way a machine trains fastest."""

from __future__ import annotations

import pytest

from ablate import Arm, Scale, Search, Study, table
from ablate.lm.commands.probe import show_probe, ways
from ablate.study.plan import largest_trial, make_plan

TINY = {"corpus.train_tokens": 2000, "corpus.eval_tokens": 200, "training.epochs": 1}
SPACE = """
paper = "none"
tables = ["T"]

["Rate"]
field = "optimizer.learning_rate"
range = [0.1, 10.0]
"""
SMALL, LARGE = Arm("small", {"backbone.units": 4}), Arm("large", {"backbone.units": 12})


def plan_of(tmp_path, **words):
    study = Study(
        question="Which?",
        base={"embedding.size": 8, "backbone": "lstm", "head": "softmax", "optimizer": "sgd"},
        design=table(SMALL, LARGE),
        base_arm="small",
        scales={"s": Scale(seeds=1, changes=TINY, **words)},
    )
    return make_plan(study, data=str(tmp_path))


def test_the_ways_use_every_core():
    assert ways(1) == [(1, 1)]
    assert ways(8) == [(1, 8), (2, 4), (4, 2), (8, 1)]
    assert ways(6) == [(1, 6), (2, 3), (4, 1)]


@pytest.mark.slow
def test_a_way_is_measured_in_processes_that_train(tmp_path, monkeypatch):
    monkeypatch.setattr("ablate.lm.commands.probe.SECONDS", 0.3)
    lines = show_probe(plan_of(tmp_path), str(tmp_path), cores=1).splitlines()
    ((threads, workers, rate, _),) = (line.split() for line in lines if line[:1].isdigit())
    assert (threads, workers) == ("1", "1") and float(rate) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rates", "printed"),
    [
        (
            {1: 2.0, 2: 1.0},
            "threads=1 in scale 's' is the fastest here, and is what the scale",
        ),
        ({1: 1.96, 2: 2.0}, "but 1, which the scale sets, is about as fast."),
        ({1: 1.0, 2: 2.0}, "; the scale sets 1. Change it before the study starts"),
    ],
)
def test_what_differs_by_little_is_no_reason_to_change(tmp_path, monkeypatch, rates, printed):
    monkeypatch.setattr("ablate.lm.commands.probe._rate", lambda trial, *_: rates[trial.threads])
    assert printed in show_probe(plan_of(tmp_path), str(tmp_path), cores=2)


@pytest.mark.slow
def test_of_a_searched_arm_that_which_its_search_departs_from_is_measured(tmp_path):
    space = tmp_path / "space.toml"
    space.write_text(SPACE)
    plan = plan_of(tmp_path, search=Search(space=str(space), trials=3))
    assert plan.trials == ()
    trial = largest_trial(plan)
    assert (trial.arm, trial.stage, trial.parents) == ("large", "search", ())
