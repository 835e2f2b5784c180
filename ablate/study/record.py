"""The record of a planned study: its arms, their numbers of parameters and published results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ablate.config.metrics import Metric
from ablate.config.resolve import Config, merge, resolve
from ablate.config.sections import CorpusConfig
from ablate.errors import AblateError, ConfigError, StudyError, unknown
from ablate.store.study_record import ArmRecord, StudyRecord
from ablate.study.words import Arm, Scale, Stage, Study
from ablate.trial.user_code import RAISED, raised


def arm_location(study: Study, arm: str) -> str:
    """Return the location of an arm, for the message of an error in its values."""
    return f"{study.file or study.name or 'study'}: arm '{arm}'"


def make_record(
    study: Study,
    scale_name: str,
    scale: Scale,
    arms: Sequence[Arm],
    configs: Mapping[str, Config],
    data: str,
    command: str,
) -> StudyRecord:
    """Create the record of a study that has no planned trials yet."""
    from ablate.data.corpus import corpus_digest

    corpus: CorpusConfig | None = configs[study.base_arm].sections.get("corpus")
    metric, columns = study_metrics(study, configs)
    return StudyRecord(
        name=study.name,
        scale=scale_name,
        question=study.question,
        paper=study.paper,
        tables=tuple(study.tables),
        file=study.file,
        command=command,
        corpus=corpus.name if corpus else "",
        corpus_digest=corpus_digest(corpus, data) if corpus else "",
        level=corpus.level if corpus else "",
        judged_by=metric,
        columns=columns,
        num_seeds=scale.seeds,
        first_seed=scale.first_seed,
        base_arm=study.base_arm,
        arms=tuple(_arm_record(study, scale, arm, configs[arm.name], metric, data) for arm in arms),
        trials=(),
        design=study.design.kind,
        notes=study.design.notes,
        published_scale=scale.published,
    )


def study_metrics(study: Study, configs: Mapping[str, Config]) -> tuple[Metric, tuple[Metric, ...]]:
    """Return the metric that decides, and the others that are shown; all arms must report them."""
    base = configs[study.base_arm].metrics
    for name, config in configs.items():
        if config.metrics != base:
            raise StudyError(
                f"{arm_location(study, name)}: its trials report {_names(config.metrics)}, and "
                f"those of the base arm {_names(base)}. Instead: arms of one metric."
            )
    where = study.file or study.name or "study"
    by_name = {metric.name: metric for metric in base}
    for word, names in (("metric", [study.metric or base[0].name]), ("column", study.columns)):
        for name in names:
            if name not in by_name:
                raise StudyError(unknown(word, name, by_name, where))
    metric = by_name[study.metric] if study.metric else base[0]
    return metric, tuple(by_name[name] for name in study.columns)


def _names(metrics: Sequence[Metric]) -> str:
    return ", ".join(metric.shown for metric in metrics)


def _arm_record(
    study: Study, scale: Scale, arm: Arm, config: Config, metric: Metric, data: str
) -> ArmRecord:
    return ArmRecord(
        name=arm.name,
        num_parameters=_num_parameters(study, arm, _last_config(study, scale, arm, config), data),
        changes=dict(arm.changes),
        published=_published(study, arm, config, metric),
        levels=dict(arm.levels),
        against=arm.against,
        together=any(stage.over == "seeds" for stage in (*scale.stages, *arm.then)),
        recipe=arm.recipe or (study.base if isinstance(study.base, str) else ""),
    )


def arm_stages(scale: Scale, arm: Arm) -> list[Stage]:
    """Return an arm's stages after training, with the scale's and the arm's changes to them."""
    return [
        replace(stage, changes={**stage.changes, **at_scale, **arm.stages.get(stage.name, {})})
        for stage in (*scale.stages, *arm.then)
        for at_scale in (scale.stage_changes.get(stage.name, {}),)
    ]


def _last_config(study: Study, scale: Scale, arm: Arm, config: Config) -> Config | None:
    """Return the config of an arm's last training, or None if it spans several models."""
    if not config.kind.slots:
        return None  # n-gram models have counts, and functions are counted when they run
    later = [stage for stage in arm_stages(scale, arm) if stage.trains]
    if any(stage.over == "seeds" for stage in later):
        return None
    values = dict(config.flat)
    for stage in later:
        values = merge(values, stage.changes)
    try:
        return resolve(values) if later else config
    except AblateError as error:
        raise type(error)(f"{arm_location(study, arm.name)}: {error}") from None


def _num_parameters(study: Study, arm: Arm, config: Config | None, data: str) -> int | None:
    if config is None:
        return None
    from ablate.data.corpus import vocabulary_size
    from ablate.model.assemble import count_parameters

    where = arm_location(study, arm.name)
    try:
        return count_parameters(config, vocabulary_size(config.corpus, data))
    except AblateError as error:
        raise type(error)(f"{where}: {error}") from None
    except RAISED as error:
        if study.techniques:
            raise raised(error, f"{where}: a technique", study.techniques) from None
        raise


def _published(study: Study, arm: Arm, config: Config, metric: Metric) -> dict[str, float]:
    """Return the published result for this arm, by split."""
    if arm.published is None:
        return {}
    from ablate import papers

    model, variant = arm.published
    where = arm_location(study, arm.name)
    try:
        cells = [cell for table in study.tables for cell in papers.cells(study.paper, table)]
    except ConfigError as error:
        raise StudyError(f"{study.file or study.name}: {error}") from None
    if model not in (known := {cell.model: None for cell in cells}):
        raise StudyError(unknown("published model", model, known, where))
    cells = [cell for cell in cells if cell.model == model]
    if variant not in (known := {cell.variant: None for cell in cells}):
        raise StudyError(unknown(f"published variant of {model}", variant, known, where))
    chosen = [c for c in cells if c.variant == variant and c.metric in metric.published and c.split]
    several = len({cell.corpus for cell in chosen}) > 1
    if several and "corpus" in config.sections:
        name = papers.corpus_name(config.corpus.name, config.corpus.level)
        chosen = [cell for cell in chosen if cell.corpus == name]
    return {str(cell.split): cell.value for cell in chosen}
