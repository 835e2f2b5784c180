"""An arm's values, from its recipe, the scale and the arm itself; and the trials made of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ablate.config.config import Config
from ablate.config.identity import OFF, SAMPLED, Trial, make_trial
from ablate.config.merge import merge
from ablate.config.resolve import kind_of, resolve_near
from ablate.config.tasks import COUNTING, DATA, EVALUATION, TRAINING, Kind
from ablate.errors import SpaceError
from ablate.space import space as spaces
from ablate.store.study_record import PlannedTrial
from ablate.study.inherit import check_rows
from ablate.study.make_record import arm_location, called
from ablate.study.planned import Plan
from ablate.study.study import Study
from ablate.study.words import Arm, Scale, Values


def arm_values(study: Study, scale: Scale, arm: Arm) -> dict[str, Any]:
    """Merge an arm's flat values: base recipe, scale, arm, then the scale's `adapt`."""
    base = base_values(study, scale, arm.recipe or study.base, arm.rows)
    where = arm_location(study, arm.name)
    of_scale = scale_values(scale, kind_of(base, where), base)
    values = merge(merge(base, of_scale, where), arm.changes, where)
    return merge(values, _adapted(study, scale, values), where) if scale.adapt else values


def transferred(study: Study, scale: Scale, values: dict[str, Any], arm: str) -> dict[str, Any]:
    """Apply the rule by which a ladder transfers settings to its rungs, after all else."""
    if scale.ladder is None or scale.ladder.transfer is None:
        return values
    rule, expected = scale.ladder.transfer, "a dict of changes"
    changes = called(study, "transfer", rule, values, Mapping, expected)
    return merge(values, changes, arm_location(study, arm))


def _adapted(study: Study, scale: Scale, values: Values) -> Values:
    """Return the changes of the scale's `adapt`, a function written by the user."""
    return called(study, "adapt", scale.adapt or dict, values, Mapping, "a dict of changes")


def scale_values(scale: Scale, kind: Kind, base: Values) -> dict[str, Any]:
    """Return the scale's changes, with its corpus if trials of this kind read one."""
    # A base that names its corpus, or a task of a study's own, reads that, unless the scale names
    # another one than the default, which is a text.
    names = kind.function is not None or f"{DATA}.name" in base
    own = names and scale.corpus == Scale.corpus and not scale.corpora
    corpus = {} if own or DATA not in kind.sections else {f"{DATA}.name": scale.corpus}
    return {**corpus, **scale.changes, **(kind.brief if scale.brief else {})}


def base_values(
    study: Study, scale: Scale, base: str | Values, rows: Values | None = None
) -> dict[str, Any]:
    """Return a recipe's values for the scale, with the given rows fixed."""
    if not isinstance(base, str):
        return dict(base)
    space = find_space(study, base.partition(":")[0])  # `column_for` reads the part after the colon
    check_rows(space, rows or {})
    task = {"task": space.task} if space.task else {}
    return {**task, **space.values(column_for(scale, base), fixed=rows)}


def column_for(scale: Scale, base: str | Values) -> str:
    """Return the column to read of a recipe, and of the search space of its arms."""
    named = base.partition(":")[2] if isinstance(base, str) else ""
    return named or scale.column or scale.corpus


def find_space(study: Study, name: str | Values) -> spaces.Space:
    """Load a recipe or search space named in the study, or make the one that is written in it."""
    if not isinstance(name, str):
        return spaces.inline(name, Path(study.file or study.name or "study"), _task(study))
    try:
        return spaces.load(name, near=Path(study.file) if study.file else None)
    except SpaceError as error:
        raise SpaceError(f"{study.file or study.name}: {error}") from None


def _task(study: Study) -> str:
    """The task of the study's base, or ""."""
    if isinstance(study.base, str):
        return find_space(study, study.base.partition(":")[0]).task
    return str(study.base.get("task", ""))


def find_arm(study: Study, name: str) -> Arm:
    """Return the arm of this name."""
    return next(arm for arm in study.design.arms if arm.name == name)


def resolve_arm(study: Study, arm: str, values: Values) -> Config:
    """Resolve an arm's values, with files next to the study; an error names the arm."""
    return resolve_near(values, Path(study.file).parent, arm_location(study, arm))


def plan_trial(
    plan: Plan,
    values: Values,
    *,
    arm: str,
    seed: int,
    evaluates: bool = False,
    sampled: str = "",
    **labels: Any,
) -> Trial:
    """Make a trial of the plan. The study or the kind of model says how a trial trains."""
    config = resolve_arm(plan.study, arm, values)
    trains = plan.study.runner or config.kind.runner
    tags = {
        "paper": plan.study.paper,
        "tables": ", ".join(plan.study.tables),
        "key": plan.record.key,
        SAMPLED: sampled,
    }
    return make_trial(
        config,
        values={**values, **config.files},
        seed=seed,
        corpus_digest=plan.digest_of(arm),
        threads=plan.scale.threads,
        device="cuda" if plan.scale.gpus else "cpu",
        precision=plan.scale.precision,
        compile=OFF if evaluates or trains != TRAINING else plan.scale.compile,
        runner=EVALUATION if evaluates else trains,
        arm=arm,
        study=plan.study.name,
        scale=plan.scale_name,
        modules=plan.study.techniques,
        tags={name: value for name, value in tags.items() if value},
        # A caller may keep less: no trial of a search is built on.
        **{"keep": "nothing" if evaluates else "weights", **labels},
    )


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
        epochs=0 if trial.runner in (EVALUATION, COUNTING) else trial.config.num_epochs,
    )
