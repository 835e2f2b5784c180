"""The record of a planned study: its arms, their numbers of parameters and published results."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ablate import papers
from ablate.config.config import Config
from ablate.config.data_source import DataConfig
from ablate.config.identity import StageName
from ablate.config.merge import merge
from ablate.config.metrics import BITS_PER_BYTE, MORE_PARAMETERS, SPLIT, Metric
from ablate.config.resolve import NONE, kind_of, resolve
from ablate.errors import AblateError, ConfigError, StudyError, unknown, wrong_value
from ablate.results.sizes import size_on_scale
from ablate.store.study_record import ArmRecord, StudyRecord
from ablate.study.ladder import rung_fields, rung_notes
from ablate.study.small import brief_stage
from ablate.study.study import Study
from ablate.study.words import Arm, Scale, Stage, Values
from ablate.trial.user.user_code import raised, told


def arm_location(study: Study, arm: str) -> str:
    """Return the location of an arm, for the message of an error in its values."""
    return f"{study.file or study.name or 'study'}: arm '{arm}'"


def called(
    study: Study,
    word: str,
    function: Callable[[dict[str, Any]], Any],
    values: Values,
    kind: type,
    expected: str,
) -> Any:
    """Return the result of a function that the study's author wrote, for an arm's values."""
    what = f"{study.file or study.name}: {word} = {getattr(function, '__name__', function)}"
    try:
        answer = function(dict(values))  # a copy, which the function may change
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: `exit()` must not end a run without a word
        raise raised(error, what, [study.file]) from None
    if not isinstance(answer, kind):
        raise StudyError(f"{what} returned {answer!r}. Expected: {expected}.")
    return answer


def _why_not(study: Study, scale: Scale, values: Values) -> str:
    """Return why an arm's numbers are not comparable with the published ones."""
    why = scale.not_comparable
    if isinstance(why, str):
        return why
    return called(study, "not_comparable", why, values, str, "text, which says why")


def _compute(study: Study, scale: Scale, values: Values, config: Config) -> float | None:
    """Return the operations of a seed's training, where a ladder must say them."""
    if scale.ladder is None:
        return None
    if scale.ladder.compute is not None:
        expected = "the operations of a seed's training, above 0"
        number = called(study, "compute", scale.ladder.compute, values, object, expected)
        if isinstance(number, int | float) and 0 < number < math.inf:
            return float(number)
        raise StudyError(wrong_value("compute", number, expected, study.file or study.name))
    if config.kind.assembles:
        return None  # counted as it trains
    raise StudyError(
        f"{study.file or study.name}: a ladder is over compute, and trials of the task "
        f"'{config.kind.name}' count no operations. Instead: Ladder(compute=), a function of an "
        "arm's values that returns them."
    )


def make_record(
    study: Study,
    scale_name: str,
    scale: Scale,
    arms: Sequence[Arm],
    values: Mapping[str, Values],
    configs: Mapping[str, Config],
    data: str,
    command: str,
) -> StudyRecord:
    """Create the record of a study that has no planned trials yet.

    `configs` are the arms' `values`, resolved, before any stage.
    """
    corpus = configs[study.base_arm].data
    last, measured = _at_the_end(study, scale, arms, values, data)
    _check_measure(study, configs)
    metric, columns = study_metrics(study, scale, last, measured)
    rows = [
        _arm_record(study, scale, arm, last[arm.name], (metric, *columns), data) for arm in arms
    ]
    return StudyRecord(
        name=study.name,
        scale=scale_name,
        question=study.question,
        paper=study.paper,
        tables=tuple(study.tables),
        file=study.file,
        command=command,
        column=scale.column or "",
        num_searches=1 if scale.searched else None,
        folder=os.getcwd(),  # where relative paths of file and command start
        corpus=corpus.name if corpus else "",
        corpus_digest=data_digest(study, corpus, data) if corpus else "",
        level=getattr(corpus, "level", ""),  # which only texts have
        judged_by=metric,
        columns=columns,
        num_seeds=scale.seeds,
        first_seed=scale.first_seed,
        looks=_looks(scale),
        first_search=scale.search.first_seed if scale.search else 1,
        base_arm=study.base_arm,
        arms=tuple(
            replace(
                row,
                not_comparable=_why_not(study, scale, values[row.name]),
                compute=_compute(study, scale, values[row.name], configs[row.name]),
            )
            for row in rows
        ),
        trials=(),
        design=study.design.kind,
        notes=(*study.design.notes, *rung_notes(scale), *filter(None, [scale.note])),
        published_scale=scale.published,
        smoke=scale.smoke,
        margin=size_on_scale("margin", study.margin, metric, study.file or study.name or "study"),
        changed=scale.changed,
        one_of=scale.one_of,
        corpora=tuple(scale.corpora) if scale.one_of else (),
        **rung_fields(scale),
    )


def _looks(scale: Scale) -> tuple[int, ...]:
    """Return the looks before the end and the last one; nothing if that is the only one."""
    looks = scale.search.looks if scale.search else scale.looks
    return tuple(looks) if len(looks) > 1 else ()


def data_digest(study: Study, corpus: DataConfig, data: str) -> str:
    """Return the digest of what a section describes; an error names the study."""
    from ablate.config.data_source import source_of

    per_byte = any(name.endswith(BITS_PER_BYTE.name) for name in (study.metric, *study.columns))
    with told(f"{study.file or study.name}: the digest of the corpus", [study.file]):
        source = source_of(corpus, data)
        return source.digest_per_byte() if per_byte else source.digest()


def _at_the_end(
    study: Study, scale: Scale, arms: Sequence[Arm], values: Mapping[str, Values], data: str
) -> tuple[dict[str, Config], dict[str, Config]]:
    """Return the config of each arm's last stage, and that of the measuring trial of each arm that
    has one."""
    last, measured = {}, {}
    for arm in arms:
        at_end = _last_values(study, scale, arm, values[arm.name])
        last[arm.name] = _resolved(study, arm, at_end)
        further = measure_values(study, scale, arm, at_end)
        if further is not None:
            measured[arm.name] = _resolved(study, arm, further)
            _num_parameters(study, scale, arm, measured[arm.name], data)  # evaluators may refuse
    return last, measured


def study_metrics(
    study: Study, scale: Scale, configs: Mapping[str, Config], measured: Mapping[str, Config]
) -> tuple[Metric, tuple[Metric, ...]]:
    """Return the metric that decides, and the others that are shown.

    All arms report the one that decides; a column may be reported by some of them only. `configs`
    are of the arms' last trials, and `measured` of those that measure their models.
    """
    where = study.file or study.name or "study"
    base = _by_name(configs[study.base_arm])
    why_not = {name: why for c in configs.values() for name, why in c.kind.why_not.items()}
    metric = base[_known("metric", study.metric or next(iter(base)), base, where, why_not)]
    _check_decides(metric, scale, where)
    for name, config in configs.items():
        if _by_name(config).get(metric.name) != metric:
            raise StudyError(
                f"{arm_location(study, name)}: its trials report {_names(config.metrics)}, and not "
                f"{_names([metric])}, which decides. Instead: arms that all report it."
            )
    every = [*measured.values(), *configs.values(), configs[study.base_arm]]
    # Where arms differ in a column's metric, the base arm decides: it comes last.
    columns = {name: m for config in every for name, m in _by_name(config).items()}
    columns[MORE_PARAMETERS.name] = MORE_PARAMETERS
    return metric, tuple(
        columns[_known("column", n, columns, where, why_not)] for n in study.columns
    )


def _check_measure(study: Study, configs: Mapping[str, Config]) -> None:
    """Refuse evaluators of a study in which no arm has a model that they could measure."""
    if study.measure and not any(config.kind.assembles for config in configs.values()):
        kinds = " and ".join(sorted({config.kind.name for config in configs.values()}))
        raise StudyError(
            f"{study.file or study.name or 'study'}: measure = {dict(study.measure)} measures "
            f"nothing: evaluators read models that ablate assembles, and the arms are of the task "
            f"'{kinds}'. Instead: a metric that the trials report, in columns=."
        )


def _by_name(config: Config) -> dict[str, Metric]:
    return {metric.name: metric for metric in config.metrics}


def _known(
    word: str, name: str, valid: Mapping[str, Metric], where: str, why_not: Mapping[str, str]
) -> str:
    """Return the name if some trial of the study reports it."""
    if name in valid:
        return name
    evaluator = name.partition(".")[0]
    hint = ""
    if evaluator != name and word == "column":
        hint = f" No arm has evaluator.{evaluator}, and neither has the study's `measure`."
    elif name in why_not:
        hint = f" {why_not[name]}"
    raise StudyError(unknown(word, name, valid, where) + hint)


def _check_decides(metric: Metric, scale: Scale, where: str) -> None:
    """Check that a metric can decide: for each split, and for a search in one direction."""
    if metric.of != SPLIT:
        raise StudyError(
            f"{where}: metric = '{metric.name}' is of no split, and a table compares arms on test "
            f"or validation. Instead: columns=('{metric.name}',)."
        )
    if scale.search is not None and not metric.directed:
        raise StudyError(
            f"{where}: metric = '{metric.name}' has no better direction for a search to follow. "
            f"Instead: columns=('{metric.name}',), and another metric."
        )


def _names(metrics: Sequence[Metric]) -> str:
    return ", ".join(metric.shown for metric in metrics)


def _arm_record(
    study: Study, scale: Scale, arm: Arm, config: Config, metrics: Sequence[Metric], data: str
) -> ArmRecord:
    """`config` is that of its last trials, and the first of the metrics decides."""
    cells = {m.name: published_cells(study, arm, config, m) for m in metrics}
    published = {n: {s: cell.value for s, cell in own.items()} for n, own in cells.items()}
    first = published.pop(metrics[0].name)
    return ArmRecord(
        name=arm.name,
        num_parameters=_num_parameters(study, scale, arm, config, data),
        changes=dict(arm.changes),
        published=first,
        published_columns={name: values for name, values in published.items() if values},
        levels=dict(arm.levels),
        against=arm.against,
        together=any(stage.over == "seeds" for stage in (*scale.stages, *arm.then)),
        recipe=arm.recipe or (study.base if isinstance(study.base, str) else ""),
    )


def arm_stages(scale: Scale, arm: Arm) -> list[Stage]:
    """Return an arm's stages after training, with the scale's and the arm's changes to them."""
    return [_at_scale(scale, arm, stage) for stage in (*scale.stages, *arm.then)]


def _at_scale(scale: Scale, arm: Arm, stage: Stage) -> Stage:
    at_scale, of_arm = scale.stage_changes.get(stage.name, {}), arm.stages.get(stage.name, {})
    changed = replace(stage, changes={**stage.changes, **at_scale, **of_arm})
    return brief_stage(changed) if scale.brief else changed


def measure_values(study: Study, scale: Scale, arm: Arm, values: Values) -> Values | None:
    """Return the values of the trial that measures an arm's finished model; None without one.

    `values` are those of the trial that trained the model last. Nothing is measured for an arm that
    ends with an evaluation, or with one trial for all its seeds.
    """
    where = arm_location(study, arm.name)
    stages = arm_stages(scale, arm)
    trained = all(stage.trains and stage.over == "seed" for stage in stages)
    if not study.measure or not trained or study.runner or not kind_of(values, where).assembles:
        return None
    for changes in (
        {"evaluator": NONE},  # the arm's own have run at the end of its training
        study.measure,
        scale.stage_changes.get(StageName.MEASURE, {}),
        arm.stages.get(StageName.MEASURE, {}),
    ):
        values = merge(values, changes, where)
    return values if resolve(values, where).listed["evaluator"] else None


def _last_values(study: Study, scale: Scale, arm: Arm, values: Values) -> Values:
    """Return the values of an arm's last trials: after all of its stages."""
    if not kind_of(values, arm_location(study, arm.name)).assembles:
        return values  # such trials have no stages
    for stage in arm_stages(scale, arm):
        values = merge(values, stage.changes)
    return values


def _resolved(study: Study, arm: Arm, values: Values) -> Config:
    try:
        return resolve(values)
    except AblateError as error:
        raise type(error)(f"{arm_location(study, arm.name)}: {error}") from None


def _num_parameters(study: Study, scale: Scale, arm: Arm, config: Config, data: str) -> int | None:
    """Count the parameters of an arm's last model; None if it spans several models."""
    if not config.kind.assembles:
        return None  # n-gram models have counts, and functions are counted when they run
    # Such a stage trains one gate over the models of all seeds.
    if any(stage.trains and stage.over == "seeds" for stage in arm_stages(scale, arm)):
        return None
    from ablate.config.data_source import source_of

    where = arm_location(study, arm.name)
    try:
        vocabulary = source_of(config.corpus, data).vocabulary()
        return config.kind.asked.count_parameters(config, *vocabulary)
    except AblateError as error:
        raise type(error)(f"{where}: {error}") from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if study.techniques:
            raise raised(error, f"{where}: a technique", study.techniques) from None
        raise


def published_cells(
    study: Study, arm: Arm, config: Config, metric: Metric
) -> dict[str, papers.Cell]:
    """Return the published results of this metric for this arm, by split (or `metric.of`)."""
    chosen = [
        cell
        # `published` comes last: of two results for a split, the last one counts.
        for names in [*arm.also_published, *([arm.published] if arm.published else [])]
        for cell in _cells_named(study, arm, *names)
        if cell.metric in metric.published and metric.split_of(cell.split)
    ]
    corpora = list(dict.fromkeys(cell.corpus for cell in chosen))
    if len(corpora) > 1:
        if not config.kind.slots:  # a task of a study's own has no corpus that a paper names
            expected = f"(model, variant, corpus), with a corpus of {', '.join(corpora)}"
            where = arm_location(study, arm.name)
            raise StudyError(wrong_value("published", arm.published, expected, where))
        name = papers.corpus_name(config.corpus.name, config.corpus.level)
        chosen = [cell for cell in chosen if cell.corpus == name]
    return {str(metric.split_of(cell.split)): cell for cell in chosen}


def _cells_named(
    study: Study, arm: Arm, model: str, variant: str, corpus: str | None = None
) -> list[papers.Cell]:
    """Return all cells of the rows of the study's tables that have these names."""
    where = arm_location(study, arm.name)
    try:
        rows = [row for table in study.tables for row in papers.rows(study.paper, table)]
    except ConfigError as error:
        raise StudyError(f"{study.file or study.name}: {error}") from None
    if model not in (known := {row.model: None for row in rows}):
        raise StudyError(unknown("published model", model, known, where))
    rows = [row for row in rows if row.model == model]
    if variant not in (known := {row.variant: None for row in rows}):
        raise StudyError(unknown(f"published variant of {model}", variant, known, where))
    rows = [row for row in rows if row.variant == variant]
    if corpus not in (known := {None: None, **{row.corpus: None for row in rows}}):
        raise StudyError(
            unknown(f"published corpus of {model}", corpus, filter(None, known), where)
        )
    return [cell for row in rows if corpus in (None, row.corpus) for cell in row.cells]
