"""The tables that a question may name, as views over the mirror's files.

trials     one row for every trial ever recorded
             trial, study, scale, arm, stage, seed, seed_index, in_cell (its result is its arm's)
             status      completed, diverged, pruned, failed, running or interrupted
             valid_nll, test_nll, valid_ppl, ... what it found at its end; nats a token
             num_parameters, num_epochs, started, ended, attempts, host, hardware, versions, ...
             runner, reads_test  what trained or judged it, and whether it read the test split
             corpus, corpus_digest, config_hash, result_digest, git_commit, ablate_commit, ...
             head, "head.experts", "backbone.units", ... every field of its config
epochs     one row for every epoch of every trial
             trial, study, scale, arm, seed, status, epoch, and the metrics of the epoch
arms       one row for an arm of a study on one split
             study, scale, arm, corpus, split, level, num_parameters
             num, num_lost     seeds that completed; those that did not, or not yet
             nll, nll_spread, ppl, ppl_spread, bpc     means and deviations over seeds
             published         of the paper that the arm stands for, at that scale only
studies    one row for each study at each scale: its question, command, paper, status
published  every number of the papers' tables
             paper, table_name, model, variant, corpus, split, metric, value, std,
             parameters (millions), quoted, note

A name with a dot stands in double quotes: SELECT "head.experts" FROM trials.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ablate import papers
from ablate.mirror.records import STUDY
from ablate.mirror.syncing import Mirror
from ablate.mirror.writing import fixed_trials, literal, quoted
from ablate.record.recorded import ALSO_IN

VIEWS = ("trials", "epochs", "arms", "studies", "published")
HIDDEN = ("started_ms", "ended_ms", "generation", "also_in")
PUBLISHED = {
    **dict.fromkeys(("paper", "table_name", "model", "variant", "corpus", "split"), "VARCHAR"),
    "metric": "VARCHAR",
    **dict.fromkeys(("value", "std", "parameters"), "DOUBLE"),
    "quoted": "BOOLEAN",
    "note": "VARCHAR",
}


def make_views(db: Any, mirror: Mirror, needed: Iterable[str] = VIEWS) -> None:
    """The views in a DuckDB connection; only `published` takes time, and where it is needed."""
    for name, query in _queries(mirror).items():
        db.execute(f"CREATE VIEW {name} AS {query}")
    db.execute(f"CREATE VIEW published AS {_published(full='published' in set(needed))}")


def files(mirror: Mirror) -> list[str]:
    """What the views read."""
    manifest = mirror.manifest
    names = (manifest.trials, manifest.studies, *manifest.epochs)
    return [str(mirror.folder.place(name)) for name in names]


def config_columns(mirror: Mirror) -> list[str]:
    """The columns of `trials` that are fields of a config."""
    return sorted(mirror.manifest.configs)


def _queries(mirror: Mirror) -> dict[str, str]:
    return {
        "_trials": _raw_trials(mirror),
        "trials": _trials(mirror),
        "_epochs": _raw_epochs(mirror),
        "epochs": _epochs(mirror),
        "studies": f"SELECT {', '.join(n for n in STUDY if n != 'record')} FROM {_studies(mirror)}",
        "arms": _arms(mirror),
    }


def _raw_trials(mirror: Mirror) -> str:
    """One run of each trial: the first that was begun, should a crash have left two."""
    place = literal(str(mirror.folder.place(mirror.manifest.trials)))
    first = "row_number() OVER (PARTITION BY trial ORDER BY started_ms, run_id) = 1"
    return f"SELECT * FROM read_parquet({place}) QUALIFY {first}"


def _trials(mirror: Mirror) -> str:
    manifest = mirror.manifest
    facts = [name for name in fixed_trials() if name not in HIDDEN and name != "run_id"]
    columns = [*facts, *manifest.numbers, *sorted(manifest.configs), "run_id"]
    times = [f"make_timestamp(1000 * {n}_ms) AS {n}" for n in ("started", "ended")]
    shown = [quoted(name) for name in columns]
    for name in ("num_parameters",):
        shown[columns.index(name)] = f"CAST({name} AS BIGINT) AS {name}"
    return f"SELECT {', '.join([*shown[:-1], *times, shown[-1]])} FROM _trials"


def _raw_epochs(mirror: Mirror) -> str:
    manifest = mirror.manifest
    names = ["epoch", *manifest.epoch_numbers]
    if not manifest.epochs:
        empty = ", ".join(f"CAST(NULL AS DOUBLE) AS {quoted(n)}" for n in names)
        return f"SELECT '' AS run_id, 0 AS generation, {empty} WHERE false"
    places = ", ".join(literal(str(mirror.folder.place(name))) for name in manifest.epochs)
    shown = ", ".join(quoted(name) for name in names)
    read = f"read_parquet([{places}], union_by_name = true)"
    return f"SELECT run_id, generation, {shown} FROM {read}"


def _epochs(mirror: Mirror) -> str:
    labels = ("trial", "study", "scale", "arm", "seed", "status")
    shown = ", ".join(
        [*(f"t.{n}" for n in labels), "e.epoch"]
        + [f"e.{quoted(n)}" for n in mirror.manifest.epoch_numbers]
    )
    return (
        f"SELECT {shown} FROM _epochs e JOIN _trials t "
        "ON e.run_id = t.run_id AND e.generation = t.generation"
    )


def _studies(mirror: Mirror) -> str:
    return f"read_parquet({literal(str(mirror.folder.place(mirror.manifest.studies)))})"


def _arms(mirror: Mirror) -> str:
    """Of its own trials, and of those that another study had run before (`ablate.also_in.*`)."""
    guest = f"regexp_replace({literal(ALSO_IN)} || s.study_key, '@', '.', 'g')"
    return f"""
    WITH known AS (SELECT * FROM {_studies(mirror)}),
    placed AS (
        SELECT study_key, arm, * EXCLUDE (study_key, arm) FROM _trials
        UNION ALL BY NAME
        SELECT s.study_key AS study_key,
               json_extract_string(t.also_in, '$."' || substr({guest}, {len(ALSO_IN) + 1}) || '"')
                   AS arm,
               t.* EXCLUDE (study_key, arm)
        FROM _trials t, known s
        WHERE t.also_in IS NOT NULL AND arm IS NOT NULL
    ),
    read AS (
        SELECT study_key, arm, corpus, split, status, num_parameters,
               CASE split WHEN 'valid' THEN valid_nll ELSE test_nll END AS found
        FROM placed, (VALUES ('valid'), ('test')) splits(split)
        WHERE in_cell AND arm IS NOT NULL AND stage <> 'ensemble'
    ),
    summed AS (
        SELECT study_key, arm, corpus, split,
               max(num_parameters) AS num_parameters,
               count(*) FILTER (status = 'completed' AND isfinite(found)) AS num,
               count(*) FILTER (status <> 'completed' OR NOT isfinite(found)) AS num_lost,
               avg(found) FILTER (status = 'completed' AND isfinite(found)) AS nll,
               stddev_samp(found) FILTER (status = 'completed' AND isfinite(found)) AS nll_spread,
               avg(exp(least(found, 300))) FILTER (status = 'completed' AND isfinite(found)) AS ppl,
               stddev_samp(exp(least(found, 300)))
                   FILTER (status = 'completed' AND isfinite(found)) AS ppl_spread
        FROM read GROUP BY ALL
    ),
    papers_say AS (
        SELECT study_key, arm ->> '$.name' AS arm, split, num, published
        FROM (
            SELECT study_key, unnest(CAST(record -> '$.arms' AS JSON[])) AS arm
            FROM known WHERE record IS NOT NULL AND (record ->> '$.published_scale') = 'true'
        ), (VALUES ('valid', 0), ('test', 0)) splits(split, num),
        LATERAL (SELECT CAST(json_extract(arm, '$.published.' || split) AS DOUBLE) AS published)
    )
    SELECT split_part(a.study_key, '@', 1) AS study, split_part(a.study_key, '@', 2) AS scale,
           a.arm, a.corpus, a.split, s.level, CAST(a.num_parameters AS BIGINT) AS num_parameters,
           a.num, a.num_lost, a.nll, a.nll_spread, a.ppl, a.ppl_spread, a.nll / ln(2) AS bpc,
           p.published
    FROM summed a
    LEFT JOIN known s USING (study_key)
    LEFT JOIN papers_say p
        ON p.study_key = a.study_key AND p.arm = a.arm AND p.split = a.split
    WHERE a.num + a.num_lost > 0
    """


def _published(full: bool) -> str:
    types = [f"CAST(NULL AS {kind}) AS {name}" for name, kind in PUBLISHED.items()]
    empty = f"SELECT {', '.join(types)} WHERE false"
    rows = _cells() if full else []
    if not rows:
        return empty
    values = ", ".join(f"({', '.join(map(_value, row))})" for row in rows)
    return f"{empty} UNION ALL SELECT * FROM (VALUES {values})"


def _cells() -> list[tuple[Any, ...]]:
    return [
        (
            *(paper, cell.table, cell.model, cell.variant, cell.corpus, cell.split),
            *(cell.metric, cell.value, cell.std, cell.parameters, cell.quoted, cell.note),
        )
        for paper in papers.ids()
        for cell in papers.load(paper).cells
    ]


def _value(value: Any) -> str:
    if value is None:
        return "NULL"
    return literal(value) if isinstance(value, str) else str(value)
