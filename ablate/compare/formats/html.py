"""HTML: one page that needs no other file."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from ablate.compare.formats import Best, Table, text_of

LONG = 40  # characters of a cell that may take several lines
STYLE = (
    "body{font-family:serif;max-width:60em;margin:2em auto}table{border-collapse:collapse;"
    "border-top:2px solid;border-bottom:2px solid}thead{border-bottom:1px solid}"
    "th,td{padding:.2em .6em;text-align:right;vertical-align:bottom}"
    "th:first-child,td:first-child{text-align:left}.holes{font-weight:bold}small{color:#444}"
)


def write(table: Table) -> str:
    """Return the table as a page of its own."""
    title, question, reference = map(escape, (table.title, table.question, table.reference))
    lines = [
        "<!doctype html>",
        f'<html lang="en"><meta charset="utf-8"><title>{title}</title>',
        f"<style>{STYLE}</style>",
        *([f"<h1>{title}</h1>"] if title else []),
        *([f"<p>{question}</p>"] if question else []),
        *(f'<p class="holes">{escape(warning)}</p>' for warning in table.warnings),
        *grid(table),
        *(line for other in table.further for line in _titled(other)),
        *small([*table.settings, *table.small_print("bold")]),
        *([f"<p><small><code>{reference}</code></small></p>"] if reference else []),
        "</html>",
    ]
    return "\n".join(lines)


def _titled(table: Table) -> list[str]:
    return [*([f"<h2>{escape(table.title)}</h2>"] if table.title else []), *grid(table)]


def grid(table: Table) -> list[str]:
    """The headings and rows alone."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in table.headings)
    body = [f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows]
    return ["<table>", f"<thead><tr>{head}</tr></thead>", "<tbody>", *body, "</tbody></table>"]


def small(notes: Iterable[str]) -> list[str]:
    """Return notes as paragraphs in small print."""
    return [f"<p><small>{escape(note)}</small></p>" for note in notes]


def _cell(cell: object) -> str:
    text = text_of(cell)
    kind = ' class="long"' if len(text) > LONG else ""
    text = f"<b>{escape(text)}</b>" if isinstance(cell, Best) else escape(text)
    return f"<td{kind}>{text}</td>"
