"""`ablate report STUDY`: everything about a study on one HTML page that needs no other file.

The table as in `ablate table --format html`, effects included, all tests in full, frozen next to
re-tuned deltas, every picture inlined as SVG, what each arm trained with, and every trial. No
script, no font, no address of another machine: it can be sent, archived, and read in ten years.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from html import escape

from ablate.compare import plots
from ablate.compare.formats import Table, html, table_of
from ablate.compare.material import Material
from ablate.compare.plots import as_trained, pictures, written
from ablate.compare.table import provenance
from ablate.compare.table.other_scales import READING, tables_of_other_scales
from ablate.compare.table.rows import Summary
from ablate.compare.table.study_table import every_test, study_table
from ablate.compare.text.figures import count, duration, shown
from ablate.config.identity import StageName
from ablate.config.metrics import SPLITS
from ablate.results.replication import counted
from ablate.results.result import result_of
from ablate.store import findings, tokens
from ablate.store.store import Store

FILE = "report.html"
STYLE = (
    "body{max-width:66em;padding:0 1em}h2{margin-top:2em}figure{margin:1.5em 0}"
    "figure img{max-width:100%}figcaption{font-size:.85em;color:#333;max-width:52em}"
    "td,th{font-size:.9em}details table td{font-family:monospace}pre{white-space:pre-wrap}"
    "td:last-child,th:last-child{text-align:left}td{white-space:nowrap}"
    "td.long{white-space:normal;min-width:18em}"
)


def page(material: Material, store: Store) -> str:
    """The whole page. The table's contents are stored, so that its footnote leads somewhere."""
    key = provenance.save(store, material.summary, material.journals)
    table = html.write(study_table(material.summary, reference=provenance.reference(key)))
    command = material.record.command
    sections = [
        *_tests(material.summary),
        *_frozen_and_tuned(material, store),
        *_pictures(material),
        *_analyses(material, store),
        *_arms(material),
        *_trials(material, store),
        *(["<h2>To run it again</h2>", f"<pre>{escape(command)}</pre>"] if command else []),
    ]
    table = table.replace("</style>", f"{STYLE}</style>", 1)
    return table.replace("</html>", "\n".join([*sections, "</html>"]))


def _tests(summary: Summary) -> list[str]:
    table = every_test(summary)
    if table is None:
        return []
    return ["<h2>Tests in full</h2>", *html.grid(table), *html.small(table.notes)]


def _frozen_and_tuned(material: Material, store: Store) -> list[str]:
    """The same study at its other scales, where one is tuned and the other is not."""
    tables = tables_of_other_scales(material.summary, store)
    lines = [line for table in tables for line in html.grid(table)]
    return ["<h2>Frozen and re-tuned</h2>", *lines, *html.small([READING])] if lines else []


def _pictures(material: Material) -> Iterable[str]:
    for name, figure in pictures(material).items():
        data = base64.b64encode(written(figure, "svg")).decode()
        caption = escape(plots.get(name).caption(material))
        yield (
            f'<h2>{plots.get(name).TITLE}</h2><figure><img alt="{caption}" '
            f'src="data:image/svg+xml;base64,{data}"><figcaption>{caption}</figcaption></figure>'
        )


def _analyses(material: Material, store: Store) -> Iterable[str]:
    """What the study's analyses found, with what the paper shows there."""
    for finding in findings.read(store, material.record.key):
        yield f"<h2>{escape(finding.title)}</h2>"
        yield from html.small([f"Paper: {finding.paper}"] if finding.paper else [])
        if finding.svg:
            data = base64.b64encode(finding.svg.encode()).decode()
            title = escape(finding.title)
            yield f'<figure><img alt="{title}" src="data:image/svg+xml;base64,{data}"></figure>'
        yield from html.small(finding.notes)
        yield from _folded(f"{len(finding.rows)} rows", table_of(finding.columns, finding.rows))


def _arms(material: Material) -> list[str]:
    """What each arm cost, and trained with."""
    changed = "differs from the base arm in, as trained"
    read = ["tokens a seed"] if material.record.level else []
    titles = ["arm", "parameters", *read, "training in all", changed]
    differences = as_trained.differences(material.record, material.journals)
    summaries = {arm.name: arm for arm in material.summary.arms}
    rows = []
    for arm in material.record.arms:
        shown, spent = summaries.get(arm.name), ["" for _ in (*read, "seconds")]
        if shown is not None:
            spent = [*(count(shown.tokens) for _ in read), duration(shown.seconds)]
        num_parameters = (shown or arm).num_parameters
        rows.append([arm.name, count(num_parameters), *spent, differences[arm.name]])
    values = as_trained.base_values(material.record, material.journals)
    return [
        "<h2>Arms</h2>",
        *html.grid(table_of(titles, rows)),
        *_folded("The values of the base arm", table_of(["field", "value"], values)),
    ]


def _trials(material: Material, store: Store) -> list[str]:
    """Every trial, folded up; and how often the test split was read again."""
    titles = ["trial", "arm", "stage", "seed", "status", *SPLITS]
    stages = {trial.id: trial.stage for trial in material.record.trials}
    rows, again, metric = [], 0, material.record.metric
    for trial, journal in material.journals.items():
        stage = stages.get(trial, StageName.SEARCH)
        again += tokens.num_readings(store, trial)
        losses = [metric.loss_of(journal.metrics, split) for split in SPLITS]
        values = ["" if loss is None else shown(metric, loss) for loss in losses]
        rows.append(
            [
                trial,
                journal.trial.arm,
                stage,
                journal.trial.seed,
                result_of(journal).fate(metric),
                *values,
            ]
        )
    note = (
        f"Saved log-probabilities of the test split were read again {counted(again, 'time')}, "
        "after the study's own reading."
    )
    return [
        "<h2>Trials</h2>",
        *([f"<p>{note}</p>"] if again else []),
        *_folded(f"{len(rows)} trials", table_of(titles, rows)),
    ]


def _folded(title: str, table: Table) -> list[str]:
    return [f"<details><summary>{title}</summary>", *html.grid(table), "</details>"]
