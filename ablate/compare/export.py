"""A study's table for a paper: LaTeX with booktabs, HTML; and the hash that leads back.

Bold is the arm that the test finds lower than every other, and no arm otherwise. A table with
holes says so above its rows. The hash names exactly this table: the trials behind its cells, what
they found, the corpus and the code that trained them; `ablate provenance HASH` shows them.
"""

from __future__ import annotations

import html as markup
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ablate.compare import columns as shown
from ablate.compare import spreadsheet
from ablate.compare.rows import SPLITS, ArmSummary, Summary
from ablate.compare.table import explained, further, holes, setting, title
from ablate.identity import digest
from ablate.journal import Journal
from ablate.layout import printable

STYLE = (
    "body{font-family:serif;max-width:60em;margin:2em auto}table{border-collapse:collapse;"
    "border-top:2px solid;border-bottom:2px solid}thead{border-bottom:1px solid}"
    "th,td{padding:.2em .6em;text-align:right;vertical-align:bottom}"
    "th:first-child,td:first-child{text-align:left}.holes{font-weight:bold}small{color:#444}"
)
_TEX = {char: f"\\{char}" for char in "&%$#_{}"} | dict(
    zip(
        r"\~^±−×Δ–·<>…|αβγλμ",
        (
            *(r"\textbackslash{}", r"\textasciitilde{}", r"\textasciicircum{}", r"$\pm$", "$-$"),
            *(r"$\times$", r"$\Delta$", "--", r"$\cdot$", "$<$", "$>$", r"\ldots{}"),
            *(r"\textbar{}", r"$\alpha$", r"$\beta$", r"$\gamma$", r"$\lambda$", r"$\mu$"),
        ),
        strict=True,
    )
)


def contents(summary: Summary, journals: Mapping[str, Journal]) -> dict[str, Any]:
    """What a table is made of, as plain data: equal tables have equal contents."""
    arms = [
        {"name": arm.name, "trials": {trial: _result(journals.get(trial)) for trial in arm.trials}}
        for arm in summary.arms
    ]
    ensembles = {e.trial: _result(journals.get(e.trial)) for e in summary.ensembles}
    return {
        "study": summary.record.key,
        "corpus_digest": summary.record.corpus_digest,
        "alpha": summary.alpha,
        "whole": summary.whole,
        "planned": {arm.name: arm.counts.planned for arm in summary.arms},
        "arms": arms,
        "ensembles": ensembles,
    }


def _result(journal: Journal | None) -> dict[str, Any]:
    """What a trial found and by which code."""
    if journal is None or journal.outcome is None:
        return {}
    place = journal.attempts[-1] if journal.attempts else {}
    return {
        "metrics": journal.outcome.get("metrics", {}),
        "digest": journal.outcome.get("digest"),
        "code": (place.get("ablate_git") or {}).get("commit"),
    }


def table_hash(found: Mapping[str, Any]) -> str:
    """Sixteen digits that name a table by its contents."""
    return digest(found)


def footnote(key: str) -> str:
    return f"Table {key}: ablate provenance {key}"


def latex(summary: Summary, key: str) -> str:
    """A table environment for the booktabs package, its notes below in small print."""
    columns = shown.columns(summary, lambda text: text)
    splits = {split for split in SPLITS if any(c.name == split for c in columns)}

    def cell(arm: ArmSummary, column: shown.Column) -> str:
        text = tex(column.cell(arm))
        marked = arm.best and column.name == summary.split and column.name in splits
        return f"\\textbf{{{text}}}" if marked else text

    rows = [[cell(arm, column) for column in columns] for arm in summary.arms]
    missing = [f"% {printable(line)}" for line in holes(summary)]
    notes = [*holes(summary), *setting(summary), *explained(summary, marked="bold")]
    lines = [
        "% needs \\usepackage{booktabs}",
        *missing,
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{tex(summary.record.question)}}}",
        f"\\label{{tab:{re.sub('[^A-Za-z0-9:-]', '-', summary.record.key)}}}",
        *_tabular([tex(column.name) for column in columns], rows, "l" + "r" * (len(columns) - 1)),
        *_below(summary),
        "\\par\\smallskip\\footnotesize",
        *(f"{tex(note)}\\par" for note in notes),
        f"\\texttt{{{tex(footnote(key))}}}",
        "\\end{table}",
    ]
    return "\n".join(lines)


def _tabular(titles: Sequence[str], rows: Iterable[Sequence[str]], shape: str) -> list[str]:
    return [
        f"\\begin{{tabular}}{{{shape}}}",
        "\\toprule",
        f"{' & '.join(titles)} \\\\",
        "\\midrule",
        *(f"{' & '.join(row)} \\\\" for row in rows),
        "\\bottomrule",
        "\\end{tabular}",
    ]


def _below(summary: Summary) -> Iterator[str]:
    """The smaller tables: effects, and ours beside the paper's."""
    for titles, rows in further(summary):
        shape = "l" + "r" * (len(titles) - 1)
        yield "\\par\\medskip"
        yield from _tabular([tex(t) for t in titles], [[tex(c) for c in r] for r in rows], shape)


def tex(text: str) -> str:
    """As LaTeX prints it, in whichever encoding it is set."""
    return "".join(_TEX.get(char, char) for char in printable(text))


def html(summary: Summary, key: str) -> str:
    """One self-contained page."""
    columns = shown.columns(summary, lambda text: text)

    def cell(arm: ArmSummary, column: shown.Column) -> str:
        text = markup.escape(column.cell(arm))
        marked = arm.best and column.name == summary.split
        return f"<td><b>{text}</b></td>" if marked else f"<td>{text}</td>"

    rows = [[cell(arm, column) for column in columns] for arm in summary.arms]
    notes = [*setting(summary), *explained(summary, marked="bold")]
    lines = [
        "<!doctype html>",
        f'<html lang="en"><meta charset="utf-8"><title>{markup.escape(title(summary))}</title>',
        f"<style>{STYLE}</style>",
        f"<h1>{markup.escape(title(summary))}</h1>",
        f"<p>{markup.escape(summary.record.question)}</p>",
        *(f'<p class="holes">{markup.escape(line)}</p>' for line in holes(summary)),
        *_grid([column.name for column in columns], rows),
        *(line for titles, cells in further(summary) for line in _grid(titles, _cells(cells))),
        *(f"<p><small>{markup.escape(note)}</small></p>" for note in notes),
        f"<p><small><code>{markup.escape(footnote(key))}</code></small></p>",
        "</html>",
    ]
    return "\n".join(lines)


def _cells(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [[f"<td>{markup.escape(cell)}</td>" for cell in row] for row in rows]


def _grid(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    head = "".join(f"<th>{markup.escape(name)}</th>" for name in titles)
    body = [f"<tr>{''.join(row)}</tr>" for row in rows]
    return ["<table>", f"<thead><tr>{head}</tr></thead>", "<tbody>", *body, "</tbody></table>"]


WRITERS: dict[str, Callable[[Summary, str], str]] = {
    "latex": latex,
    "csv": spreadsheet.arms,
    "html": html,
}
