"""`ablate table compare STUDY...|PAPER...` for a program: our numbers and published ones.

A study has a row for each arm, a paper one for each model of its tables (several, where its number
of parameters depends on the corpus). A column is a corpus and split, and a published number is in
the row of one of our arms only if the study ran at a scale that is comparable with it. For a
reader, `table/beside_paper.py` has the tables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ablate import papers
from ablate.compare.across.query import reading
from ablate.compare.formats import Table, table_of_values
from ablate.compare.statistics.verdicts import as_printed, declared, published_cells
from ablate.compare.text.figures import count, decimal
from ablate.config.metrics import ARMS, KNOWN, PERPLEXITY, SPLIT, SPLITS, TRAIN, Metric
from ablate.errors import ConfigError, RecordError, unknown
from ablate.record.mirror.arms import ARM_COLUMNS, metric_of
from ablate.record.mirror.syncing import Mirror
from ablate.record.mirror.writing import rows_of
from ablate.results.verdict import not_comparable
from ablate.store import study_record
from ablate.store.replication import counted
from ablate.store.study_record import StudyRecord

Key = tuple[str, str, str, str]  # of a column: corpus, split, unit, and OURS or PUBLISHED
OURS, PUBLISHED = "ours", "published"
OF_STUDY = "_arms WHERE study_key = $1 ORDER BY arm, split DESC"
# Of several metrics with one published name, the first counts.
KNOWN_AS = {name: metric for metric in reversed(KNOWN) for name in metric.published}


@dataclass
class Row:
    """An arm or a model, and its values."""

    source: str
    name: str
    parameters: float | None
    values: dict[Key, str] = field(default_factory=dict)


def side_by_side(mirror: Mirror, names: Sequence[str], split: str | None = None) -> Table:
    """Return our numbers next to published numbers, on a single split or both, as a wide table."""
    with reading(mirror, ["arms"]) as db:
        rows = _rows(db, names)
    if split is not None:
        for row in rows:
            row.values = {key: text for key, text in row.values.items() if key[1] == split}
    return _table([row for row in rows if row.values or split is None])


def _rows(db: Any, names: Sequence[str]) -> list[Row]:
    recorded = rows_of(db, ("study_key", "judged_by"), "_studies ORDER BY 1")
    metrics = {row["study_key"]: metric_of(row) for row in recorded}
    keys = [*metrics]
    ours = [None if name in papers.ids() else _key(name, keys) for name in names]
    units = {name: metric.shown for name, metric in KNOWN_AS.items()} | {
        n: metrics[key].shown for key in ours if key for n in metrics[key].published
    }
    rows: list[Row] = []
    for name, key in zip(names, ours, strict=True):
        rows += _paper(name, units) if key is None else _study(db, key, metrics[key], units)
    return rows


def _key(name: str, keys: list[str]) -> str:
    matching = [key for key in keys if name in (key, key.split("@")[0])]
    if len(matching) == 1:
        return matching[0]
    raise ConfigError(unknown("study or paper", name, matching or [*keys, *papers.ids()]))


def _study(db: Any, key: str, metric: Metric, units: Mapping[str, str]) -> list[Row]:
    rows: dict[str, Row] = {}
    record = _record(db, key)
    imported = record.imported if record else ""
    source = f"{key}, imported from {imported}" if imported else key
    cells = rows_of(db, [*ARM_COLUMNS], OF_STUDY, [key])
    for arm in (row for row in cells if row["decides"]):
        row = rows.setdefault(arm["arm"], Row(source, arm["arm"], arm["num_parameters"]))
        split = "" if imported else arm["split"]  # what was imported has none
        column = (arm["corpus"] or "", split, metric.shown)
        if arm["num"] or arm["split"] == "valid":
            row.values[*column, OURS] = _measured(arm, metric)
        if arm["published"] is not None:
            row.values[*column, PUBLISHED] = _printed(
                record, arm["arm"], arm["split"], metric, arm["published"]
            )
    if record is not None:
        _add_columns(rows, record, units, [row for row in cells if not row["decides"]])
    return list(rows.values())


def _record(db: Any, key: str) -> StudyRecord | None:
    """The record of a study; one that still runs may have none."""
    ((text,),) = db.sql("SELECT record FROM _studies WHERE study_key = ?", params=[key]).fetchall()
    try:
        return None if text is None else study_record.from_plain(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise RecordError(f"the record of the study {key} cannot be read: {error}.") from error


def _add_columns(
    rows: Mapping[str, Row],
    record: StudyRecord,
    units: Mapping[str, str],
    cells: Sequence[dict[str, Any]],
) -> None:
    """Add the study's other metrics, and their published numbers."""
    for metric in record.columns:
        unit = next((units[name] for name in metric.published if name in units), metric.shown)
        of_metric = [cell for cell in cells if cell["metric"] == metric.name]
        for arm in (arm for arm in record.arms if arm.name in rows):
            own = {c["split"]: _measured(c, metric) for c in of_metric if c["arm"] == arm.name}
            theirs = arm.published_columns.get(metric.name, {}) if record.published_scale else {}
            for split in metric.splits:
                column = (record.corpus, split if split in (*SPLITS, TRAIN) else "", unit)
                if split in own:
                    rows[arm.name].values[*column, OURS] = own[split]
                if split in theirs:
                    text = _printed(record, arm.name, split, metric, theirs[split])
                    rows[arm.name].values[*column, PUBLISHED] = text


def _measured(arm: dict[str, Any], metric: Metric) -> str:
    """mean±spread with the number of seeds, and of searches if the arm was tuned; seeds that failed
    or are still to run are counted too."""
    if metric.of == ARMS:  # no seed's luck changes it
        return decimal(arm["mean"], metric.digits)
    planned = arm["num"] + arm["num_lost"]
    seeds = f"n={arm['num']}" if not arm["num_lost"] else f"{arm['num']} of {planned}"
    if arm["num_searches"]:
        seeds += f", {counted(arm['num_searches'], 'search')}"
    if not arm["num"]:
        return f"({seeds})"
    mean, spread, digits = arm["mean"], arm["spread"], metric.digits
    around = "" if spread is None else f"±{decimal(spread, digits)}"
    return f"{decimal(mean, digits)}{around} ({seeds})"


def _printed(
    record: StudyRecord | None, arm: str, split: str, metric: Metric, published: float
) -> str:
    """A published number as its paper prints it, and why our arm is not comparable, if so."""
    text = as_printed(record, split, metric, published)
    if record is None:
        return text
    cells = [c for c in published_cells(record, split, metric) if c.value == published]
    return f"{text}{_why_not(declared(record, arm, cells))}"


def _why_not(reason: str) -> str:
    return f" ({not_comparable(reason)})" if reason else ""


def _paper(paper: str, units: Mapping[str, str]) -> list[Row]:
    rows: dict[tuple[str, str, str, float | None], Row] = {}
    for cell in papers.load(paper).cells:
        metric = KNOWN_AS[cell.metric]
        name = f"{cell.model} {cell.variant}".strip()
        source = f"{paper}, {cell.table}"
        size = None if cell.parameters is None else 1e6 * cell.parameters  # papers print millions
        model = (cell.table, cell.model, cell.variant, cell.parameters)
        row = rows.setdefault(model, Row(source, name, size))
        spread = "" if cell.std is None else f"±{cell.std:g}"
        quoted = " (quoted)" if cell.quoted else ""
        split = (cell.split or "") if metric.of == SPLIT else ""
        key = (cell.corpus, split, units[cell.metric], PUBLISHED)
        text = f"{cell.printed}{spread}{quoted}"
        row.values[key] = f"{text}{_why_not(cell.not_comparable)}"
    return list(rows.values())


def _table(rows: list[Row]) -> Table:
    keys = {key for row in rows for key in row.values}
    columns = sorted(keys, key=lambda key: (key[0], key[1] != "valid", key[2], key[1], key[3]))
    places = ((f"{corpus} {split}".strip(), kind) for corpus, split, _, kind in columns)
    headings = [", ".join(filter(None, parts)) for parts in places]
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
