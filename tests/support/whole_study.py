"""Studies by hand, with all that a picture may show."""

from __future__ import annotations

import random
from dataclasses import replace

from ablate.compare.judged import Judged
from ablate.store.epoch import Epoch
from ablate.store.study_record import SearchRecord
from ablate.study.designs import factorial
from tests.support.studies_by_hand import ByHand

TWO = {"off": {}, "on": {}}


def whole_study(first: str = "a") -> ByHand:
    """A 2 x 2 factorial of four seeds, learnt in three epochs, every arm searched."""
    design = factorial({first: TWO, "b": TWO})
    draws = random.Random(5)
    names = [arm.name for arm in design.arms]
    losses = {
        arm.name: [
            4.2 - 0.1 * (arm.levels[first] == "on") + seed + draws.gauss(0, 0.01)
            for seed in (0.0, 0.02, -0.01, 0.03)
        ]
        for arm in design.arms
    }
    study = ByHand(losses, base_arm=names[0])
    searches = []
    for number, name in enumerate(names):
        study.arm_fields[name] = {
            "levels": {**next(a.levels for a in design.arms if a.name == name)},
            "num_parameters": 1000 * (number + 1),
            "changes": {"head": "softmax"},
        }
        searches.append(searched(study, name, draws))
    for trial, journal in study.journals.items():
        num_parameters = 1000 * (1 + names.index(trial.rsplit("-", 1)[0]))
        journal.outcome = replace(journal.outcome, num_parameters=num_parameters)
        last = journal.metrics.get("valid_nll", 5.0)
        journal.epochs = [
            Epoch(i + 1, {"valid_nll": last + 0.3 * (2 - i)}, seconds=i + 1.0, tokens=500)
            for i in range(3)
        ]
    study.record_fields = {"design": "factorial", "searches": tuple(searches)}
    return study


def searched(study: ByHand, arm: str, draws: random.Random) -> SearchRecord:
    ids = []
    for index in range(5):
        trial = f"{arm}-{10 + index}"
        ids.append(trial)
        metrics = {"valid_nll": 4.3 + draws.random()}
        status = "pruned" if index == 3 else "completed"
        study.end(trial, status, metrics={} if index == 3 else metrics)
        journal = study.journals[trial]
        journal.config = {
            "optimizer.learning_rate": 10 ** draws.uniform(-3, 0),
            "head.tied": draws.random() < 0.5,
            "training.epochs": 3,
        }
        journal.trial = replace(journal.trial, values=journal.config)
    return SearchRecord(arm=arm, repeat=0, num_trials=5, trials=tuple(ids), chosen=ids[0])


def judged_of(study: ByHand) -> Judged:
    return Judged(study.record, study.journals)
