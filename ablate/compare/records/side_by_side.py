"""`ablate compare STUDY...|PAPER...`: one table of our numbers and published ones.

A study has a row for each arm, a paper one for each model of its tables; a column is a corpus and
split. A published number is in the row of one of our arms only if the study ran at a scale that is
comparable with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ablate import papers
from ablate.compare.formats import Table, table_of_values
from ablate.compare.records.query import reading
from ablate.compare.statistics.replication import counted
from ablate.compare.text.figures import count, decimal
from ablate.config.metrics import BITS, PERPLEXITY, Metric
from ablate.errors import ConfigError, unknown
from ablate.record.mirror import views
from ablate.record.mirror.syncing import Mirror

METRICS = {
    **{metric.published[0]: metric.shown for metric in (PERPLEXITY, BITS)},
    "accuracy_percent": "accuracy, %",  # from here on: of no trial of a language model
    "coefficient_of_variation": "coefficient of variation",
    "rank_of_log_prob_matrix": "rank",
    "subspace_distance": "subspace distance",
}
Key = tuple[str, str, str, str]  # of a column: corpus, split, unit, and OURS or PUBLISHED
OURS, PUBLISHED = "ours", "published"


@dataclass
class Row:
    """An arm or a model, and its values."""

    source: str
    name: str
    parameters: float | None
    values: dict[Key, str] = field(default_factory=dict)


def side_by_side(mirror: Mirror, names: Sequence[str], split: str | None = None) -> Table:
    """Our numbers and the published ones in one table, of one split or both."""
    with reading(mirror, ["arms"]) as db:
        keys = [key for (key,) in db.execute("SELECT study_key FROM studies ORDER BY 1").fetchall()]
        judged = "SELECT _study_key, _judged_by FROM _judged"
        metrics = {key: views.metric_of(text) for key, text in db.execute(judged).fetchall()}
        ours = [None if name in papers.ids() else _key(name, keys) for name in names]
        units = METRICS | {
            n: metrics[key].shown for key in ours if key for n in metrics[key].published
        }
        rows: list[Row] = []
        for name, key in zip(names, ours, strict=True):
            rows += _paper(name, units) if key is None else _study(db, key, metrics[key])
    if split is not None:
        for row in rows:
            row.values = {key: text for key, text in row.values.items() if key[1] == split}
    return _table([row for row in rows if row.values or split is None])


def _key(name: str, keys: list[str]) -> str:
    matching = [key for key in keys if name in (key, key.split("@")[0])]
    if len(matching) == 1:
        return matching[0]
    raise ConfigError(unknown("study or paper", name, matching or [*keys, *papers.ids()]))


def _study(db: Any, key: str, metric: Metric) -> list[Row]:
    study, _, scale = key.partition("@")
    query = "SELECT * FROM arms WHERE study = ? AND scale = ? ORDER BY arm, split DESC"
    rows: dict[str, Row] = {}
    arms = db.sql(query, params=[study, scale])
    for values in arms.fetchall():
        arm = dict(zip(arms.columns, values, strict=True))
        row = rows.setdefault(arm["arm"], Row(key, arm["arm"], arm["num_parameters"]))
        column = (arm["corpus"] or "", arm["split"], metric.shown)
        if arm["num"] or arm["split"] == "valid":
            row.values[*column, OURS] = _measured(arm, metric)
        if arm["published"] is not None:
            row.values[*column, PUBLISHED] = decimal(arm["published"], 2)
    return list(rows.values())


def _measured(arm: dict[str, Any], metric: Metric) -> str:
    """mean±spread with the number of seeds, and of searches if it was tuned; seeds that failed or
    are still to run are counted too."""
    planned = arm["num"] + arm["num_lost"]
    seeds = f"n={arm['num']}" if not arm["num_lost"] else f"{arm['num']} of {planned}"
    if arm["num_searches"]:
        seeds += f", {counted(arm['num_searches'], 'search')}"
    if not arm["num"]:
        return f"({seeds})"
    mean, spread, digits = arm["mean"], arm["spread"], metric.digits
    around = "" if spread is None else f"±{decimal(spread, digits)}"
    return f"{decimal(mean, digits)}{around} ({seeds})"


def _paper(paper: str, units: Mapping[str, str]) -> list[Row]:
    rows: dict[tuple[str, str, str], Row] = {}
    for cell in papers.load(paper).cells:
        unit = units.get(cell.metric)
        if unit is None:  # from a task that none of the studies has: BLEU, F1
            continue
        name = f"{cell.model} {cell.variant}".strip()
        source = f"{paper}, {cell.table}"
        millions = None if cell.parameters is None else 1e6 * cell.parameters
        row = rows.setdefault((cell.table, cell.model, cell.variant), Row(source, name, millions))
        spread = "" if cell.std is None else f"±{cell.std:g}"
        quoted = " (quoted)" if cell.quoted else ""
        key = (cell.corpus, cell.split or "", unit, PUBLISHED)
        row.values[key] = f"{cell.printed}{spread}{quoted}"
    return list(rows.values())


def _table(rows: list[Row]) -> Table:
    keys = {key for row in rows for key in row.values}
    columns = sorted(keys, key=lambda key: (key[0], key[1] != "valid", key[2], key[1], key[3]))
    headings = [f"{corpus} {split}".strip() + f", {kind}" for corpus, split, _, kind in columns]
    if any(unit != PERPLEXITY.shown for _, _, unit, _ in columns):
        headings = [f"{h} ({key[2]})" for h, key in zip(headings, columns, strict=True)]
    body = [
        (
            *(row.source, row.name, None if row.parameters is None else count(row.parameters)),
            *map(row.values.get, columns),
        )
        for row in rows
    ]
    return table_of_values(["from", "arm or model", "params", *headings], body)
