"""The tables that a query may name, as views over the mirror's files.

trials     one row for every trial of a study: what is known of it (`ablate.results.facts`),
             every number that it concluded (NLL in nats per token), every field of its config;
             a trial that arms share has the first arm whose result it is
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

from collections.abc import Iterable
from typing import Any

from ablate import papers
from ablate.record.mirror.syncing import Mirror
from ablate.record.mirror.writing import first_runs, literal, parquet, quoted
from ablate.results.rows import LABELS, TIMES, TRIAL_COLUMNS

VIEWS = ("trials", "epochs", "arms", "studies", "published")
HIDDEN = ("started_ms", "ended_ms", "generation")
PUBLISHED = {
    **dict.fromkeys(("paper", "table_name", "model", "variant", "corpus", "split"), "VARCHAR"),
    "metric": "VARCHAR",
    **dict.fromkeys(("value", "std", "parameters"), "DOUBLE"),
    "quoted": "BOOLEAN",
    "not_comparable": "VARCHAR",
    "note": "VARCHAR",
}


STUDIES = """
SELECT * EXCLUDE (record, judged_by, run_id), judged_by ->> '$.name' AS metric, run_id
FROM _studies
"""
# An arm of which no trial has started is of the corpus that the others are of.
ALL_ARMS = """
SELECT a.* REPLACE (
    coalesce(a.corpus, max(a.corpus) OVER (PARTITION BY study_key), s.corpus) AS corpus
) FROM {arms} a LEFT JOIN _studies s USING (study_key)
"""
ARMS = """
SELECT split_part(study_key, '@', 1) AS study, split_part(study_key, '@', 2) AS scale,
       arm, a.corpus, split, s.level, num_parameters, num, num_lost, nll, nll_spread, ppl,
       ppl_spread, bpc, metric, mean, spread, num_searches, published, not_comparable
FROM _arms a LEFT JOIN _studies s USING (study_key) WHERE decides
"""


def make_views(db: Any, mirror: Mirror, needed: Iterable[str] = VIEWS) -> None:
    """Create the views in a DuckDB connection; `published`, which takes time, only if needed."""
    for name, query in _queries(mirror).items():
        db.execute(f"CREATE VIEW {name} AS {query}")
    db.execute(f"CREATE VIEW published AS {_published(full='published' in set(needed))}")


def files(mirror: Mirror) -> list[str]:
    """The files that the views read."""
    manifest = mirror.manifest
    names = (manifest.trials, manifest.studies, manifest.arms, *manifest.epochs)
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
        "studies": STUDIES,
        "_arms": ALL_ARMS.format(arms=parquet(mirror.folder, mirror.manifest.arms)),
        "arms": ARMS,
    }


def _raw_trials(mirror: Mirror) -> str:
    return first_runs(parquet(mirror.folder, mirror.manifest.trials))


def _trials(mirror: Mirror) -> str:
    manifest = mirror.manifest
    facts = [name for name in TRIAL_COLUMNS if name not in HIDDEN and name != "run_id"]
    columns = [*facts, *manifest.numbers, *sorted(manifest.configs), "run_id"]
    # Milliseconds, in DuckDB's microseconds.
    times = [f"make_timestamp(1000 * {n}_ms) AS {n}" for n in TIMES]
    shown = [quoted(name) for name in columns]
    name = "num_parameters"  # which any result may be: a float
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
