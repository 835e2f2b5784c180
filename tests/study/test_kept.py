"""A plan says what an arm's optimizer keeps of the settings of the one that it replaces."""

from __future__ import annotations

import pytest

from ablate import Arm, Scale, Search, Study, table
from ablate.study.kept import kept_settings
from ablate.study.plan import make_plan

ADAMW = {
    "corpus.train_tokens": 5000,
    "backbone": "lstm",
    "backbone.units": 8,
    "embedding.size": 8,
    "head": "softmax",
    "optimizer": "adamw",
    "optimizer.learning_rate": 0.01,
    "optimizer.weight_decay": 0.1,
    "optimizer.beta2": 0.98,
}
RATE = {"optimizer.learning_rate": 1.0}
SPACE = {"Rate": {"field": "optimizer.learning_rate", "range": [1.0, 10.0]}}


@pytest.fixture
def kept(data: str):
    def of(*arms: Arm, base=ADAMW, **words) -> list[str]:
        study = Study(
            question="Which?",
            base=base,
            base_arm="AdamW",
            design=table(Arm("AdamW"), *arms),
            scales={"s": Scale(**words)},
            name="kept",
        )
        return kept_settings(make_plan(study, "s", data=data))

    return of


def test_what_nobody_set_is_named_once_for_all_arms(kept):
    arms = [Arm(name, {"optimizer": "sgd", **RATE, "embedding.size": 8 + num}) for num, name in
            enumerate(["one", "two", "three", "four"])]  # fmt: skip
    assert kept(*arms) == [
        "'one', 'two', 'three' and 1 more: sgd, in place of adamw, keeps what was set for adamw: "
        "optimizer.weight_decay = 0.1. Set it in the arm if it should be another."
    ]


def test_what_the_arm_or_its_search_sets_is_not_named(kept):
    decay = {"optimizer.weight_decay": 0.0}
    assert kept(Arm("SGD", {"optimizer": "sgd", **RATE, **decay})) == []
    (rate,) = kept(Arm("SGD", {"optimizer": "sgd", **decay}))
    assert "optimizer.learning_rate = 0.01. " in rate
    assert (
        kept(Arm("SGD", {"optimizer": "sgd", **decay}), search=Search(space=SPACE, trials=2)) == []
    )


def test_a_default_is_nobodys_setting(kept):
    base = {**ADAMW, "optimizer.weight_decay": 0.0}  # as SGD's default
    assert kept(Arm("SGD", {"optimizer": "sgd", **RATE}), base=base) == []
    assert kept(Arm("wider", {"embedding.size": 9})) == []
