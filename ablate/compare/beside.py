"""`ablate compare STUDY...|PAPER...`: one table, ours beside published, by corpus and split.

A study gives a row for each arm, a paper one for each model of its tables; a column is a corpus
and split. A paper's number stands beside an arm of ours only where the study ran at the scale
that may be compared with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ablate import papers
from ablate.compare.figures import count, decimal
from ablate.compare.query import Answer, reading
from ablate.errors import ConfigError, unknown
from ablate.mirror.syncing import Mirror

METRICS = {
    "ppl": "perplexity",
    "bpc": "bits per character",
    "accuracy_percent": "accuracy, %",  # from here on: no trial's own, so published alone
    "coefficient_of_variation": "coefficient of variation",
    "rank_of_log_prob_matrix": "rank",
    "subspace_distance": "subspace distance",
}
Place = tuple[str, str, str]  # corpus, split, unit


@dataclass
class Row:
    """An arm or a model, and what is known of it by place."""

    source: str
    name: str
    parameters: float | None
    ours: dict[Place, str] = field(default_factory=dict)
    published: dict[Place, str] = field(default_factory=dict)


def beside(mirror: Mirror, names: Sequence[str], split: str | None = None) -> Answer:
    """Ours and theirs in one table, of one split or both, ready to be written in any form."""
    with reading(mirror, ["arms"]) as db:
        keys = [key for (key,) in db.execute("SELECT study_key FROM studies ORDER BY 1").fetchall()]
        rows: list[Row] = []
        for name in names:
            rows += _paper(name) if name in papers.ids() else _study(db, _key(name, keys))
    return _answer(rows if split is None else _of(split, rows))


def _of(split: str, rows: list[Row]) -> list[Row]:
    """What is known of one split; a row without it is none."""
    for row in rows:
        row.ours, row.published = (
            {place: text for place, text in known.items() if place[1] == split}
            for known in (row.ours, row.published)
        )
    return [row for row in rows if row.ours or row.published]


def _key(name: str, keys: list[str]) -> str:
    matching = [key for key in keys if name in (key, key.split("@")[0])]
    if len(matching) == 1:
        return matching[0]
    raise ConfigError(unknown("study or paper", name, matching or [*keys, *papers.ids()]))


def _study(db: Any, key: str) -> list[Row]:
    study, _, scale = key.partition("@")
    query = "SELECT * FROM arms WHERE study = ? AND scale = ? ORDER BY arm, split DESC"
    found = db.execute(query, [study, scale])
    names = [column[0] for column in found.description]
    rows: dict[str, Row] = {}
    for values in found.fetchall():
        arm = dict(zip(names, values, strict=True))
        row = rows.setdefault(arm["arm"], Row(key, arm["arm"], arm["num_parameters"]))
        place = (arm["corpus"], arm["split"], _unit(arm["level"]))
        if arm["num"] or arm["split"] == "valid":
            row.ours[place] = _measured(arm)
        if arm["published"] is not None:
            row.published[place] = decimal(arm["published"], 2)
    return list(rows.values())


def _unit(level: str | None) -> str:
    return METRICS["bpc" if level == "character" else "ppl"]


def _measured(arm: dict[str, Any]) -> str:
    """mean±spread over so many seeds; what is lost or to come is counted."""
    planned = arm["num"] + arm["num_lost"]
    seeds = f"n={arm['num']}" if not arm["num_lost"] else f"{arm['num']} of {planned}"
    if not arm["num"]:
        return f"({seeds})"
    character = arm["level"] == "character"
    mean, spread = (arm["bpc"], None) if character else (arm["ppl"], arm["ppl_spread"])
    digits = 3 if character else 2
    around = "" if spread is None else f"±{decimal(spread, digits)}"
    return f"{decimal(mean, digits)}{around} ({seeds})"


def _paper(paper: str) -> list[Row]:
    rows: dict[tuple[str, str, str], Row] = {}
    for cell in papers.load(paper).cells:
        unit = METRICS.get(cell.metric)
        if unit is None:  # of another task: BLEU, F1
            continue
        name = f"{cell.model} {cell.variant}".strip()
        source = f"{paper}, {cell.table}"
        millions = None if cell.parameters is None else 1e6 * cell.parameters
        row = rows.setdefault((cell.table, cell.model, cell.variant), Row(source, name, millions))
        spread = "" if cell.std is None else f"±{cell.std:g}"
        quoted = " (quoted)" if cell.quoted else ""
        row.published[cell.corpus, cell.split or "", unit] = f"{cell.printed}{spread}{quoted}"
    return list(rows.values())


def _answer(rows: list[Row]) -> Answer:
    places = list(dict.fromkeys(place for row in rows for place in (*row.ours, *row.published)))
    places.sort(key=lambda place: (place[0], place[1] != "valid", place[2]))
    columns = []
    for place in places:
        kinds = (("ours", "ours"), ("published", "published"))
        columns += [(place, k, t) for k, t in kinds if any(place in getattr(r, k) for r in rows)]
    titles = [f"{c} {split}".strip() + f", {title}" for (c, split, _), _, title in columns]
    if any(unit != METRICS["ppl"] for _, _, unit in places):
        titles = [
            f"{title} ({place[2]})" for title, (place, _, _) in zip(titles, columns, strict=True)
        ]
    body = [
        (
            *(row.source, row.name, None if row.parameters is None else count(row.parameters)),
            *(getattr(row, kind).get(place) for place, kind, _ in columns),
        )
        for row in rows
    ]
    return Answer(["from", "arm or model", "params", *titles], body)
