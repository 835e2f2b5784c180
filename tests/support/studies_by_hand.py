"""Studies made by hand: a record, and a journal for each trial that has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ablate.config.identity import Trial
from ablate.store.epoch import Epoch
from ablate.store.journal import Journal
from ablate.store.outcome import TEXT, Outcome, Status
from ablate.store.study_record import ArmRecord, PlannedTrial, StudyRecord

DIGEST = "1f2e3d4c5b6a79880123456789abcdef"


@dataclass
class ByHand:
    """A study of arms with a loss for every seed; `None` for a trial that has not run."""

    losses: Mapping[str, Sequence[float | None]]
    base_arm: str = "base"
    record_fields: dict[str, Any] = field(default_factory=dict)
    arm_fields: dict[str, dict[str, Any]] = field(default_factory=dict)
    gap: float = 0.05  # nats by which test is lower than valid
    deviations: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)  # of blocks

    def __post_init__(self) -> None:
        self.trials: list[PlannedTrial] = []
        self.journals: dict[str, Journal] = {}
        for arm, losses in self.losses.items():
            for index, nats in enumerate(losses):
                trial_id = f"{arm}-{index}"
                self.plan(trial_id, arm, index)
                if nats is not None:
                    metrics = {"valid_nll": nats + self.gap, "test_nll": nats}
                    known = (
                        {"deviations": tuple(of_seeds[index]), "deviations_of": TEXT}
                        if (of_seeds := self.deviations.get(arm))
                        else {}
                    )
                    self.end(trial_id, "completed", metrics=metrics, **known)

    def plan(
        self, trial_id: str, arm: str, index: int, stage: str = "train", **more: Any
    ) -> PlannedTrial:
        path = {"final": stage == "train", "parents": (), **more}
        planned = PlannedTrial(
            id=trial_id, arm=arm, stage=stage, seed=index + 1, seed_index=index, **path
        )
        self.trials.append(planned)
        return planned

    def end(self, trial_id: str, status: str, **outcome: Any) -> None:
        trial = Trial(id=trial_id, values={}, seed=1, corpus_digest=DIGEST)
        epochs = [
            Epoch(1, {"valid_nll": 5.0}, seconds=2.0, tokens=1000),
            Epoch(2, {"valid_nll": 4.5}, seconds=4.5, tokens=1000),
        ]
        result = Outcome(status=Status(status), **{"num_parameters": 1_234_567, **outcome})
        self.journals[trial_id] = Journal(trial, epochs=epochs, outcome=result)

    @property
    def record(self) -> StudyRecord:
        fields: dict[str, Any] = {
            "name": "mixture_layers",
            "scale": "laptop",
            "question": "From which layers should the mixture's distributions come?",
            "paper": "takase2018direct",
            "tables": ("Table 3",),
            "file": "studies/mixture_layers.py",
            "command": "ablate study studies/mixture_layers.py",
            "corpus": "grammar",
            "corpus_digest": DIGEST,
            "level": "word",
            "num_seeds": max((len(losses) for losses in self.losses.values()), default=0),
            "base_arm": self.base_arm,
            "arms": tuple(ArmRecord(name=n, **self.arm_fields.get(n, {})) for n in self.losses),
            "trials": tuple(self.trials),
        }
        return StudyRecord(**{**fields, **self.record_fields})
