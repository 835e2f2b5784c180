"""What is recorded of a study when it is planned: its arms, their sizes and published numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ablate.config import Config, CorpusConfig, merge, resolve
from ablate.errors import AblateError, ConfigError, StudyError, unknown
from ablate.study import Arm, Scale, Stage, Study
from ablate.study_record import ArmRecord, StudyRecord
from ablate.user_code import raised

METRICS = ("ppl", "bpc")  # of published cells that a study's table can be set beside


def place_of(study: Study, arm: str) -> str:
    """Where an error in an arm's values is."""
    return f"{study.file or study.name or 'study'}: arm '{arm}'"


def record_of(
    study: Study,
    scale_name: str,
    scale: Scale,
    arms: Sequence[Arm],
    configs: Mapping[str, Config],
    data: str,
    command: str,
) -> StudyRecord:
    """The record of a study of which no trial is planned yet."""
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
        corpus_digest="",
        level=corpus.level,
        num_seeds=scale.seeds,
        base_arm=study.base_arm,
        arms=tuple(
            _arm_record(study, study.scales[scale_name], arm, configs[arm.name], data)
            for arm in arms
        ),
        trials=(),
        design=study.design.kind,
        notes=study.design.notes,
        published_scale=scale.published,
    )


def _arm_record(study: Study, scale: Scale, arm: Arm, config: Config, data: str) -> ArmRecord:
    return ArmRecord(
        name=arm.name,
        num_parameters=_parameters(study, arm, _at_the_end(study, scale, arm, config), data),
        changes=dict(arm.changes),
        published=_published(study, arm, config.corpus),
        levels=dict(arm.levels),
        against=arm.against,
        together=any(stage.over == "seeds" for stage in (*scale.stages, *arm.then)),
    )


def stages_of(scale: Scale, arm: Arm) -> list[Stage]:
    """An arm's stages after its training, with what scale and arm change in them."""
    return [
        replace(stage, changes={**stage.changes, **at_scale, **arm.stages.get(stage.name, {})})
        for stage in (*scale.stages, *arm.then)
        for at_scale in (scale.stage_changes.get(stage.name, {}),)
    ]


def _at_the_end(study: Study, scale: Scale, arm: Arm, config: Config) -> Config | None:
    """The config that an arm's last training has; None where it trains over many models."""
    if config.ngram is not None:
        return None  # it has counts, not parameters
    later = [stage for stage in stages_of(scale, arm) if stage.kind == "train"]
    if any(stage.over == "seeds" for stage in later):
        return None
    values = dict(config.flat)
    for stage in later:
        values = merge(values, stage.changes)
    try:
        return resolve(values) if later else config
    except AblateError as error:
        raise type(error)(f"{place_of(study, arm.name)}: {error}") from None


def _parameters(study: Study, arm: Arm, config: Config | None, data: str) -> int | None:
    if config is None:
        return None
    from ablate.assemble import count_parameters
    from ablate.data.corpus import vocabulary_size

    place = place_of(study, arm.name)
    try:
        return count_parameters(config, vocabulary_size(config.corpus, data))
    except AblateError as error:
        raise type(error)(f"{place}: {error}") from None
    except Exception as error:
        if study.techniques:
            raise raised(error, f"{place}: a technique", study.techniques) from None
        raise


def _published(study: Study, arm: Arm, corpus: CorpusConfig) -> dict[str, float]:
    """The numbers of the paper's own cell for this arm, by split."""
    if arm.published is None:
        return {}
    from ablate import papers

    model, variant = arm.published
    place = place_of(study, arm.name)
    try:
        cells = [cell for table in study.tables for cell in papers.cells(study.paper, table)]
    except ConfigError as error:
        raise StudyError(f"{study.file or study.name}: {error}") from None
    if model not in (known := {cell.model: None for cell in cells}):
        raise StudyError(unknown("published model", model, known, place))
    cells = [cell for cell in cells if cell.model == model]
    if variant not in (known := {cell.variant: None for cell in cells}):
        raise StudyError(unknown(f"published variant of {model}", variant, known, place))
    chosen = [c for c in cells if c.variant == variant and c.metric in METRICS and c.split]
    if len({cell.corpus for cell in chosen}) > 1:  # a table of several: those of this scale's
        name = papers.corpus_name(corpus.name, corpus.level)
        chosen = [cell for cell in chosen if cell.corpus == name]
    return {str(cell.split): cell.value for cell in chosen}
