"""`ablate report STUDY`: everything about a study on one HTML page that needs nothing else.

The table as `ablate table --format html` has it, effects included, what the tests found in full,
frozen beside re-tuned deltas, every picture inlined as SVG, what each arm changes, and every
trial. No script, no font, no address of another machine: it can be sent, kept, and read in ten
years.
"""

from __future__ import annotations

import base64
import html as markup
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ablate import kept, plots
from ablate.compare import export, provenance
from ablate.compare.cells import fate
from ablate.compare.figures import count, duration, number
from ablate.compare.in_full import IN_FULL, in_full
from ablate.compare.other_scales import frozen_beside_tuned
from ablate.compare.rows import SPLITS, Summary
from ablate.plots import Material
from ablate.plots.show import material_of, pictures, save, written
from ablate.store import Store
from ablate.study_record import StudyRecord
from ablate.workspace import Workspace

FILE = "report.html"
LONG = 40  # characters of a cell that may take several lines
STYLE = (
    "body{max-width:66em;padding:0 1em}h2{margin-top:2em}figure{margin:1.5em 0}"
    "figure img{max-width:100%}figcaption{font-size:.85em;color:#333;max-width:52em}"
    "td,th{font-size:.9em}details table td{font-family:monospace}pre{white-space:pre-wrap}"
    "td:last-child,th:last-child{text-align:left}td{white-space:nowrap}"
    "td.long{white-space:normal;min-width:18em}"
)
TITLES = {
    "deltas": "What each arm bought",
    "curves": "Learning curves",
    "parameters": "Parameters",
    "interactions": "Interactions",
    "budget": "Best found against budget",
    "search": "What was searched",
}


def report(workspace: Workspace, study: str) -> str:
    """Write the page, and say where."""
    material = material_of(workspace, study)
    file = workspace.study_folder(material.record.key) / FILE
    save(file, page(material, workspace.store).encode())
    return f"{file}\n(one file; open it in any browser)"


def page(material: Material, store: Store) -> str:
    """The whole page. The table's contents are kept, so that its footnote leads somewhere."""
    contents = export.contents(material.summary, material.journals)
    key = export.table_hash(contents)
    provenance.keep(store, key, contents)
    table = export.html(material.summary, key)
    sections = [
        *_tests(material.summary),
        *_frozen_and_tuned(material, store),
        *_pictures(material),
        *_arms(material),
        *_trials(material, store),
        *_again(material.record),
    ]
    table = table.replace("</style>", f"{STYLE}</style>", 1)
    return table.replace("</html>", "\n".join([*sections, "</html>"]))


def _tests(summary: Summary) -> list[str]:
    found = in_full(summary)
    note = f"<p><small>{_text(IN_FULL)}</small></p>"
    return [] if found is None else ["<h2>Tests in full</h2>", *grid(*found), note]


def _frozen_and_tuned(material: Material, store: Store) -> list[str]:
    """The same study at its other scales, where one is tuned and the other is not."""
    lines = [line for each in frozen_beside_tuned(material.summary, store) for line in grid(*each)]
    if not lines:
        return []
    note = (
        "The same arms with settings as listed, and each tuned at the same budget. What is there "
        "on the left and gone on the right was the settings' doing."
    )
    return ["<h2>Frozen and re-tuned</h2>", *lines, f"<p><small>{note}</small></p>"]


def _pictures(material: Material) -> Iterable[str]:
    for name, figure in pictures(material).items():
        data = base64.b64encode(written(figure, "svg")).decode()
        caption = _text(plots.get(name).caption(material))
        yield (
            f'<h2>{TITLES[name]}</h2><figure><img alt="{caption}" '
            f'src="data:image/svg+xml;base64,{data}"><figcaption>{caption}</figcaption></figure>'
        )


def _arms(material: Material) -> list[str]:
    """What each arm changes, and what it cost."""
    titles = ["arm", "parameters", "tokens a seed", "training in all", "changes"]
    costs = {arm.name: arm for arm in material.summary.arms}
    rows = []
    for arm in material.record.arms:
        changes = ", ".join(f"{k} = {json.dumps(v)}" for k, v in arm.changes.items()) or "nothing"
        found = costs.get(arm.name)
        spent = ["", ""]
        if found is not None:
            spent = [count(found.cost_of_one.tokens), duration(found.cost_of_all.seconds)]
        parameters = found.num_parameters if found else arm.num_parameters
        rows.append([arm.name, count(parameters), *spent, changes])
    return ["<h2>Arms</h2>", *grid(titles, rows)]


def _trials(material: Material, store: Store) -> list[str]:
    """Every trial, folded up; and how often the test split was looked at again."""
    titles = ["trial", "arm", "stage", "seed", "status", *SPLITS]
    places = {place.id: place for place in material.record.trials}
    rows, again = [], 0
    for trial, journal in material.journals.items():
        place = places.get(trial)
        stage = place.stage if place else "search"
        again += kept.num_readings(store, trial)
        metrics = (journal.outcome or {}).get("metrics", {})
        losses = [_loss(metrics, split, material) for split in SPLITS]
        found = [trial, journal.trial.arm, stage, str(journal.trial.seed), fate(journal), *losses]
        rows.append(found)
    note = (
        f"Kept log-probabilities of the test split were read again {again} "
        f"time{'s' if again > 1 else ''}, after the study's own reading."
    )
    return [
        "<h2>Trials</h2>",
        *([f"<p>{note}</p>"] if again else []),
        f"<details><summary>{len(rows)} trials</summary>",
        *grid(titles, rows),
        "</details>",
    ]


def _loss(metrics: Mapping[str, Any], split: str, material: Material) -> str:
    nats = number(metrics.get(f"{split}_nll"))
    return "" if nats is None else material.unit.text(nats)


def _again(record: StudyRecord) -> list[str]:
    if not record.command:
        return []
    return ["<h2>Again</h2>", f"<pre>{_text(record.command)}</pre>"]


def grid(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table of texts."""
    head = "".join(f"<th>{_text(title)}</th>" for title in titles)
    body = ["".join(_cell(cell) for cell in row) for row in rows]
    lines = [f"<tr>{row}</tr>" for row in body]
    return ["<table>", f"<thead><tr>{head}</tr></thead>", "<tbody>", *lines, "</tbody></table>"]


def _cell(text: str) -> str:
    kind = ' class="long"' if len(text) > LONG else ""
    return f"<td{kind}>{_text(text)}</td>"


def _text(text: str) -> str:
    return markup.escape(text)
