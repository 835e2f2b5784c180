"""Making the trials of a plan: the arm's values, the scale's resources, the study's labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ablate.config.identity import Trial, make_trial
from ablate.config.resolve import Config, resolve
from ablate.config.tasks import COUNTING, TRAINING
from ablate.store.study_record import PlannedTrial
from ablate.study.record import arm_location
from ablate.study.values import Values
from ablate.study.words import Arm, Study

if TYPE_CHECKING:
    from ablate.study.plan import Plan


def find_arm(study: Study, name: str) -> Arm:
    return next(arm for arm in study.design.arms if arm.name == name)


def resolve_arm(study: Study, arm: str, values: Values) -> Config:
    """Resolve an arm's values; an error names the arm."""
    return resolve(values, arm_location(study, arm))


def plan_trial(
    plan: Plan, values: Values, *, arm: str, seed: int, runner: str | None = None, **labels: Any
) -> Trial:
    """Make a trial of the plan; without `runner`, the study or the kind of model determines it."""
    config = resolve_arm(plan.study, arm, values)
    usual = TRAINING if config.ngram is None else COUNTING
    return make_trial(
        config,
        values=values,
        seed=seed,
        corpus_digest=plan.corpus_digest,
        threads=plan.scale.threads,
        device="cuda" if plan.scale.gpus else "cpu",
        precision=plan.scale.precision,
        runner=runner or plan.study.runner or usual,
        arm=arm,
        **_study_labels(plan),
        **labels,
    )


def _study_labels(plan: Plan) -> dict[str, Any]:
    study = plan.study
    tags = {"paper": study.paper, "tables": ", ".join(study.tables), "key": plan.record.key}
    return {
        "study": study.name,
        "scale": plan.scale_name,
        "modules": study.techniques,
        "tags": {name: value for name, value in tags.items() if value},
    }


def planned_trial(trial: Trial, arm: str, seed_index: int, *, final: bool) -> PlannedTrial:
    """Describe the trial's role in the study, for its record."""
    return PlannedTrial(
        id=trial.id,
        arm=arm,
        stage=trial.stage,
        seed=trial.seed,
        seed_index=seed_index,
        final=final,
        parents=tuple(trial.parent_ids()),
    )
