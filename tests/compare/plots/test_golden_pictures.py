"""Every picture as it was when a person last looked at it. The whole is tests/golden/pictures.txt.

`ablate plot` draws the same; what the text leaves out depends on fonts.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ablate.compare import plots
from ablate.compare.judged import Judged
from ablate.compare.plots import static
from ablate.config.metrics import ACCURACY
from ablate.store.epoch import Epoch
from ablate.store.study_record import ArmRecord
from ablate.study.designs import factorial
from tests.support.drawn import drawn
from tests.support.golden import changes
from tests.support.studies_by_hand import ByHand
from tests.support.whole_study import judged_of, searched, whole_study

LEVELS = ("off", "some", "very much of all that there is")
LONG = "an arm whose name is too long to stand whole at the side of any picture"


def many_arms() -> ByHand:
    """Nine arms: one lost, one diverged for one seed, one of other numbers of epochs."""
    names = [*(f"arm {i}" for i in range(7)), LONG, "lost"]
    losses = {name: [4.0 + 0.01 * i, 4.02 + 0.011 * i] for i, name in enumerate(names)}
    losses["lost"] = [9.0, 9.1]
    study = ByHand(losses, "arm 0")
    study.end("arm 5-1", "diverged")
    for index, name in enumerate(names):
        study.arm_fields[name] = {"changes": {"head": "softmax"}}
        for seed in range(2):
            journal = study.journals[f"{name}-{seed}"]
            size = 10_000 * (1 + index)
            journal.outcome = replace(journal.outcome, num_parameters=size)
            journal.epochs = [
                Epoch(1 + e, {"valid_nll": losses[name][seed] + 0.4 / (1 + e)}, tokens=500)
                for e in range(3 + (index == 3))
            ]
    return study


def next_to_the_paper() -> ByHand:
    study = ByHand({"base": [4.1] * 3, "other": [4.0, 4.01, 4.0], "bad": [7.0, 7.1, 6.9]})
    study.record_fields = {"paper": "takase2018doc", "tables": ("Table 7",), "corpus": "ptb"}
    study.record_fields |= {"published_scale": True}
    study.record_fields["arms"] = tuple(ArmRecord(name=n) for n in study.losses)
    for name, size in (("other", 22e6), ("bad", 9e6)):
        for seed, nats in enumerate(study.losses[name]):
            trial = f"{name}-{seed}"
            study.end(trial, "completed", metrics={"test_nll": nats}, num_parameters=int(size))
    return study


def by_accuracy() -> ByHand:
    """Higher is better, on a linear axis; one arm was searched."""
    losses = {"base": [0.0] * 3, "better": [0.0] * 3, "worse": [0.0] * 3}
    study = ByHand(losses)
    study.record_fields = {"judged_by": ACCURACY, "columns": ()}
    values = {"base": (0.61, 0.62, 0.6), "better": (0.7, 0.72, 0.69), "worse": (0.4, 0.42, 0.39)}
    for name, seeds in values.items():
        for seed, share in enumerate(seeds):
            metrics = {"valid_accuracy": share + 0.01, "test_accuracy": share}
            study.end(f"{name}-{seed}", "completed", metrics=metrics)
            study.journals[f"{name}-{seed}"].epochs = [
                Epoch(1 + e, {"valid_accuracy": share - 0.1 / (1 + e)}) for e in range(3)
            ]
    draws = random.Random(2)
    found = searched(study, "better", draws)
    for trial in found.trials:
        journal = study.journals[trial]
        if journal.outcome and journal.metrics:
            share = {"valid_accuracy": 0.5 + 0.3 * draws.random()}
            study.end(trial, "completed", metrics=share)
            study.journals[trial].config = journal.config
    study.record_fields |= {"searches": (found,)}
    return study


def of_three_factors() -> ByHand:
    """18 arms of which nine were searched: more than a picture takes."""
    factors = {
        "a": {level: {"training.clip": 1.0 + i} for i, level in enumerate(LEVELS)},
        "b": {"1": {}, "2": {"training.window": 33}},
        "c": {level: {"training.epochs": 2 + i} for i, level in enumerate("xyz")},
    }
    arms = factorial(factors).arms
    draws = random.Random(9)
    study = ByHand(
        {arm.name: [4.0 + 0.1 * i, 4.13 + 0.1 * i, 3.98 + 0.1 * i] for i, arm in enumerate(arms)},
        arms[0].name,
    )
    study.arm_fields = {arm.name: {"levels": dict(arm.levels)} for arm in arms}
    searches = tuple(searched(study, arm.name, draws) for arm in arms[:9])
    study.record_fields = {"design": "factorial", "searches": searches}
    return study


STUDIES = {
    "a factorial of two": whole_study,
    "many arms": many_arms,
    "next to the paper": next_to_the_paper,
    "by accuracy": by_accuracy,
    "a factorial of three": of_three_factors,
}


def golden_text() -> str:
    """Every picture of every study."""
    texts = []
    for title, made in STUDIES.items():
        judged: Judged = judged_of(made())
        for name, figure in plots.described(judged).items():
            picture = drawn(static.drawn(figure))
            texts.append(f"== {title}: {name}\n{figure.caption}\n{picture}\n")
    return "\n".join(texts)


@pytest.mark.golden
def test_the_pictures_are_the_golden_ones():
    assert not changes("pictures.txt", golden_text())
