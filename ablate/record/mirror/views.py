"""The tables that a query may name, as views over the mirror's files.

trials     one row for every trial ever recorded
             trial, study, scale, arm, stage, seed, seed_index, in_cell (counts for its arm's
             result); a trial that arms share has the first arm whose result it is
             status      completed, diverged, pruned, failed, running or interrupted
             valid_nll, test_nll, valid_ppl, valid_accuracy, ... everything that trials concluded;
             NLL in nats per token
             num_parameters, num_epochs, started, ended, attempts, host, hardware, versions, ...
             computed_by         kernels, torch, both or neither, and why
             runner, reads_test  the task that ran it, and whether it read the test split
             corpus, corpus_digest, config_hash, result_digest, git_commit, ablate_commit, ...
             head, "head.experts", "backbone.units", ... every field of its config
epochs     one row for every epoch of every trial
             trial, study, scale, arm, seed, status, epoch, and the metrics of the epoch
arms       one row for an arm of a study on one split
             study, scale, arm, corpus, split, level, num_parameters
             num, num_lost     number of seeds that completed; that did not, or not yet
             metric, mean, spread      the metric that decides the study, as its table shows it
             nll, nll_spread, ppl, ppl_spread, bpc     of language models
             num_searches      searches that tuned the arm, whose winners these seeds confirm
             published         result of the paper that the arm reproduces, at that scale only
studies    one row for each study at each scale: question, command, paper, status, metric
published  every number in the papers' tables
             paper, table_name, model, variant, corpus, split, metric, value, std,
             parameters (millions), quoted, note

A name with a dot needs double quotes: SELECT "head.experts" FROM trials.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from functools import cache
from typing import Any

from ablate import papers
from ablate.config import metrics
from ablate.config.metrics import BITS, LARGEST, PERPLEXITY, Metric
from ablate.record.mirror.records import LABELS, TIMES, TRIAL_COLUMNS
from ablate.record.mirror.syncing import Mirror
from ablate.record.mirror.writing import literal, parquet, quoted

VIEWS = ("trials", "epochs", "arms", "studies", "published")
HIDDEN = ("started_ms", "ended_ms", "generation", "also_in")
PUBLISHED = {
    **dict.fromkeys(("paper", "table_name", "model", "variant", "corpus", "split"), "VARCHAR"),
    "metric": "VARCHAR",
    **dict.fromkeys(("value", "std", "parameters"), "DOUBLE"),
    "quoted": "BOOLEAN",
    "not_comparable": "VARCHAR",
    "note": "VARCHAR",
}


# `runs.tag_key` of a text.
TAG_KEY = r"""
    regexp_replace(
        replace(regexp_replace({text}, '\[(\d+)\]', '.\1', 'g'), '@', '.'),
        '[^\pL\pN_\-./ ]', '_', 'g'
    )
"""
# An arm's trials are those listed in its study's record, started or not. While the study runs and
# has no record yet, the trials' tags decide: those of their own study, and `ablate.also_in.*`.
# Trials of one `cell` give one result: a seed's model, and what measured it.
MEMBERS = f"""
WITH listed AS (
    SELECT study_key, planned ->> '$.id' AS trial, planned ->> '$.arm' AS arm,
           planned ->> '$.stage' AS stage, (planned ->> '$.final')::BOOLEAN AS in_cell,
           planned ->> '$.seed_index' AS cell, of_study
    FROM (
        SELECT study_key, corpus AS of_study,
               unnest(CAST(record -> '$.trials' AS JSON[])) AS planned
        FROM _studies WHERE status <> 'running'
    )
),
unlisted AS (
    SELECT study_key, {TAG_KEY.format(text="study_key")} AS tag FROM _studies
    WHERE record IS NULL OR status = 'running'
)
SELECT l.* EXCLUDE (of_study), t.* EXCLUDE (study_key, trial, arm, stage, in_cell, corpus),
       coalesce(t.corpus, max(t.corpus) OVER (PARTITION BY l.study_key), of_study) AS corpus
FROM listed l LEFT JOIN _trials t USING (trial)
UNION ALL BY NAME
SELECT t.*, coalesce(seed_index::VARCHAR, trial) AS cell
FROM _trials t JOIN unlisted USING (study_key)
UNION ALL BY NAME
SELECT s.study_key AS study_key, json_extract_string(t.also_in, '$."' || s.tag || '"') AS arm,
       t.* EXCLUDE (study_key, arm), trial AS cell
FROM _trials t, unlisted s
WHERE t.also_in IS NOT NULL AND arm IS NOT NULL
"""
# What a table needs to know of a metric. Columns have names that no config and no result has.
# What kind of trial it is: final, if it counts for a result of a study at a scale that is no smoke
# scale; else of a smoke scale, of a search, of an ensemble, or of a stage that others build on.
KINDS = """
WITH member AS (
    SELECT trial, in_cell AND NOT _smoke AS final, _smoke AS smoke
    FROM _members JOIN (
        SELECT study_key, (record ->> '$.smoke') IS NOT DISTINCT FROM 'true'
               OR split_part(study_key, '@', 2) = 'smoke' AS _smoke FROM _studies
    ) USING (study_key) WHERE trial IS NOT NULL
),
known AS (SELECT trial, bool_or(final) AS final, bool_and(smoke) AS smoke FROM member GROUP BY ALL)
SELECT trial AS _trial, CASE
    WHEN known.final THEN 'final'
    WHEN coalesce(known.smoke, scale = 'smoke') THEN 'of smoke scales'
    WHEN stage = 'search' OR stage LIKE '% search' THEN 'of searches'
    WHEN stage = 'ensemble' THEN 'of ensembles'
    WHEN known.final IS NULL AND coalesce(in_cell, true) THEN 'final'
    ELSE 'of earlier stages' END AS _kind
FROM trials LEFT JOIN known USING (trial)
"""
METRIC = f"""
SELECT DISTINCT study_key AS _study_key, _judged_by, _judged_by ->> '$.name' AS _metric,
       {TAG_KEY.format(text="regexp_extract(_judged_by ->> '$.name', '^.*[.]')")} AS _evaluator,
       {TAG_KEY.format(text="regexp_extract(_judged_by ->> '$.name', '[^.]*$')")} AS _column,
       coalesce(_judged_by ->> '$.of', 'split') AS _of,
       CAST(_judged_by ->> '$.factor' AS DOUBLE) AS _factor,
       CASE WHEN (_judged_by ->> '$.reports_scaled') = 'true' THEN _judged_by ->> '$.scale' END
           AS _reported_on
FROM ({{metrics}})
"""
DECIDING = "SELECT study_key, coalesce(judged_by, {default}) AS _judged_by FROM _studies"
FURTHER = """
SELECT study_key, unnest(CAST(record -> '$.columns' AS JSON[])) AS _judged_by
FROM _studies WHERE record IS NOT NULL
"""
CELLS = """
SELECT study_key, arm, corpus, split, metric, CAST(max(num_parameters) AS BIGINT) AS num_parameters,
       count(shown) AS num, avg(shown) AS mean, stddev_samp(shown) AS spread,
       count(*) FILTER (status IS NULL OR status <> 'completed' OR NOT ({usable}))
           AS num_lost,
       avg(nats) AS nll, stddev_samp(nats) AS nll_spread,
       avg(ppl) AS ppl, stddev_samp(ppl) AS ppl_spread, avg(nats) / ln(2) AS bpc
FROM (
    SELECT *, status = 'completed' AND {usable} AS whole,
           CASE WHEN whole AND metric = 'nll' THEN reported END AS nats,
           CASE WHEN nats IS NOT NULL THEN exp(least(nats, 300)) END AS ppl,
           CASE WHEN whole THEN _factor * CASE _reported_on
               WHEN 'log' THEN exp(least(reported, 300))
               WHEN 'logit' THEN 1 / (1 + exp(-reported))
               ELSE reported END END AS shown
    FROM (
        SELECT study_key, arm, corpus, split, metric, _factor, _reported_on, cell,
               max(num_parameters) AS num_parameters,
               any_value(reported) FILTER (in_cell) AS own,
               coalesce(own, any_value(reported)) AS reported,
               CASE WHEN own IS NULL AND max(status) FILTER (in_cell) = 'completed'
                         AND count(*) FILTER (NOT in_cell) > 0
                    THEN max(status) FILTER (NOT in_cell)
                    ELSE max(status) FILTER (in_cell) END AS status
        FROM (
            SELECT m.study_key, m.arm, m.corpus, _split AS split, m.status, m.num_parameters,
                   m.cell, m.in_cell, _metric AS metric, _factor, _reported_on,
                   {reported} AS reported
            FROM _members m JOIN {metrics} ON m.study_key = _study_key,
                 (VALUES {splits}) s(_split)
            WHERE {which} AND m.arm IS NOT NULL AND m.stage <> 'ensemble'
                  AND (_split = _of OR (_of = 'split' AND _split IN ('valid', 'test')))
        )
        GROUP BY ALL
    )
)
GROUP BY ALL HAVING num + num_lost > 0
"""
ARMS = """
WITH reproduced AS (
    SELECT study_key, item ->> '$.name' AS arm, item -> '$.published' AS published,
           nullif(item ->> '$.not_comparable', '') AS not_comparable
    FROM (SELECT study_key, unnest(CAST(record -> '$.arms' AS JSON[])) AS item
          FROM _studies WHERE (record ->> '$.published_scale') = 'true')
),
tuned AS (
    SELECT study_key, search ->> '$.arm' AS arm,
           count(DISTINCT search ->> '$.repeat') AS num_searches
    FROM (SELECT study_key, unnest(CAST(record -> '$.searches' AS JSON[])) AS search FROM _studies)
    WHERE (search ->> '$.seed_index') IS NULL GROUP BY ALL
)
SELECT split_part(study_key, '@', 1) AS study, split_part(study_key, '@', 2) AS scale,
       arm, c.corpus, split, s.level, num_parameters, num, num_lost, nll, nll_spread, ppl,
       ppl_spread, bpc, metric, mean, spread, num_searches,
       CAST(json_extract(published, '$.' || split) AS DOUBLE) AS published, not_comparable
FROM _cells c
LEFT JOIN _studies s USING (study_key)
LEFT JOIN reproduced USING (study_key, arm)
LEFT JOIN tuned USING (study_key, arm)
"""


def make_views(db: Any, mirror: Mirror, needed: Iterable[str] = VIEWS) -> None:
    """Create the views in a DuckDB connection; `published`, which takes time, only if needed."""
    for name, query in _queries(mirror).items():
        db.execute(f"CREATE VIEW {name} AS {query}")
    db.execute(f"CREATE VIEW published AS {_published(full='published' in set(needed))}")


def files(mirror: Mirror) -> list[str]:
    """The files that the views read."""
    manifest = mirror.manifest
    names = (manifest.trials, manifest.studies, *manifest.epochs)
    return [str(mirror.folder.path_to(name)) for name in names]


def config_columns(mirror: Mirror) -> list[str]:
    """The columns of `trials` that are fields of a config."""
    return sorted(mirror.manifest.configs)


def _queries(mirror: Mirror) -> dict[str, str]:
    return {
        "_trials": _raw_trials(mirror),
        "trials": _trials(mirror),
        "_epochs": _raw_epochs(mirror),
        "epochs": _epochs(mirror),
        "_studies": f"SELECT * FROM {parquet(mirror.folder, mirror.manifest.studies)}",
        "_judged": METRIC.format(metrics=DECIDING.format(default=_default_metric())),
        "_further": METRIC.format(metrics=FURTHER),
        "studies": "SELECT s.* EXCLUDE (record, judged_by, run_id), _metric AS metric, run_id "
        "FROM _studies s JOIN _judged ON study_key = _study_key",
        "_members": MEMBERS,
        "_kinds": KINDS,
        "_cells": _cells(mirror, "_judged", "m.in_cell", "('valid'), ('test')"),
        "_further_cells": _cells(
            mirror,
            "_further",
            "(m.in_cell OR m.stage = 'measure')",
            "('valid'), ('test'), ('train'), ('model')",
        ),
        "arms": ARMS,
    }


def _cells(mirror: Mirror, metrics: str, which: str, splits: str) -> str:
    """SQL for a row for each metric, arm and split, from which of the members."""
    parts = {"metrics": metrics, "which": which, "splits": splits}
    usable = f"abs(reported) <= {LARGEST}"  # NaN is larger than any number
    return CELLS.format(reported=reported(mirror, "_split"), usable=usable, **parts)


def reported(mirror: Mirror, split: str) -> str:
    """SQL for what a trial reported of a metric (`Metric.key`); `split` is SQL too."""
    cases = [
        f"WHEN {literal(column.lower())} THEN {quoted(column)}"
        for column in sorted(mirror.manifest.numbers)
        if column.startswith(("valid_", "test_")) or "." in column
    ]
    prefix = f"CASE WHEN _of = 'model' THEN '' ELSE {split} || '_' END"
    return f"CASE lower(concat(_evaluator, {prefix}, _column)) {' '.join(cases)} END"


@cache
def metric_of(judged_by: str | None) -> Metric:
    """The metric in `_judged`, which a trial whose study is not recorded does not have."""
    return metrics.from_plain(json.loads(judged_by)) if judged_by else PERPLEXITY


def _default_metric() -> str:
    """SQL for the metric of a study that was recorded before studies had one."""
    bits, perplexity = (literal(json.dumps(dataclasses.asdict(m))) for m in (BITS, PERPLEXITY))
    return f"CASE level WHEN 'character' THEN {bits} ELSE {perplexity} END"


def _raw_trials(mirror: Mirror) -> str:
    """One run of each trial: the first that was started, if a crash left two."""
    first = "row_number() OVER (PARTITION BY trial ORDER BY started_ms, run_id) = 1"
    return f"SELECT * FROM {parquet(mirror.folder, mirror.manifest.trials)} QUALIFY {first}"


def _trials(mirror: Mirror) -> str:
    manifest = mirror.manifest
    facts = [name for name in TRIAL_COLUMNS if name not in HIDDEN and name != "run_id"]
    columns = [*facts, *manifest.numbers, *sorted(manifest.configs), "run_id"]
    times = [f"make_timestamp(1000 * {n}_ms) AS {n}" for n in TIMES]
    shown = [quoted(name) for name in columns]
    name = "num_parameters"
    shown[columns.index(name)] = f"CAST({name} AS BIGINT) AS {name}"
    return f"SELECT {', '.join([*shown[:-1], *times, shown[-1]])} FROM _trials"


def _raw_epochs(mirror: Mirror) -> str:
    manifest = mirror.manifest
    names = ["epoch", *manifest.epoch_numbers]
    if not manifest.epochs:
        empty = ", ".join(f"CAST(NULL AS DOUBLE) AS {quoted(n)}" for n in names)
        return f"SELECT '' AS run_id, 0 AS generation, {empty} WHERE false"
    shown = ", ".join(quoted(name) for name in names)
    return f"SELECT run_id, generation, {shown} FROM {parquet(mirror.folder, *manifest.epochs)}"


def _epochs(mirror: Mirror) -> str:
    shown = ", ".join(
        [*(f"t.{n}" for n in LABELS), "e.epoch"]
        + [f"e.{quoted(n)}" for n in mirror.manifest.epoch_numbers]
    )
    return (
        f"SELECT {shown} FROM _epochs e JOIN _trials t "
        "ON e.run_id = t.run_id AND e.generation = t.generation"
    )


def _published(full: bool) -> str:
    types = [f"CAST(NULL AS {kind}) AS {name}" for name, kind in PUBLISHED.items()]
    empty = f"SELECT {', '.join(types)} WHERE false"
    fields = [name.removesuffix("_name") for name in PUBLISHED if name != "paper"]
    rows = [
        [paper, *(getattr(cell, field) for field in fields)]
        for paper in (papers.ids() if full else ())
        for cell in papers.load(paper).cells
    ]
    values = ", ".join(f"({', '.join(map(_value, row))})" for row in rows)
    return f"{empty} UNION ALL SELECT * FROM (VALUES {values})" if rows else empty


def _value(value: Any) -> str:
    if value is None:
        return "NULL"
    return literal(value) if isinstance(value, str) else str(value)
