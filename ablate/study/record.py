"""The record of a planned study: its arms, their numbers of parameters and published results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ablate.config.resolve import Config, merge, resolve
from ablate.config.sections import CorpusConfig
from ablate.errors import AblateError, ConfigError, StudyError, unknown
from ablate.store.study_record import ArmRecord, StudyRecord
from ablate.study.words import Arm, Scale, Stage, Study
from ablate.trial.user_code import RAISED, raised

METRICS = ("ppl", "bpc")  # of published cells that a study's results can be compared with


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

    corpus = configs[study.base_arm].corpus
    return StudyRecord(
        name=study.name,
        scale=scale_name,
        question=study.question,
        paper=study.paper,
        tables=tuple(study.tables),
        file=study.file,
        command=command,
        corpus=corpus.name,
        corpus_digest=corpus_digest(corpus, data),
        level=corpus.level,
        num_seeds=scale.seeds,
        first_seed=scale.first_seed,
        base_arm=study.base_arm,
        arms=tuple(_arm_record(study, scale, arm, configs[arm.name], data) for arm in arms),
        trials=(),
        design=study.design.kind,
        notes=study.design.notes,
        published_scale=scale.published,
    )


def _arm_record(study: Study, scale: Scale, arm: Arm, config: Config, data: str) -> ArmRecord:
    return ArmRecord(
        name=arm.name,
        num_parameters=_num_parameters(study, arm, _last_config(study, scale, arm, config), data),
        changes=dict(arm.changes),
        published=_published(study, arm, config.corpus),
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
    if config.ngram is not None:
        return None  # n-gram models have counts, not parameters
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


def _published(study: Study, arm: Arm, corpus: CorpusConfig) -> dict[str, float]:
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
    chosen = [c for c in cells if c.variant == variant and c.metric in METRICS and c.split]
    if len({cell.corpus for cell in chosen}) > 1:  # the table has several corpora: take this one
        name = papers.corpus_name(corpus.name, corpus.level)
        chosen = [cell for cell in chosen if cell.corpus == name]
    return {str(cell.split): cell.value for cell in chosen}
