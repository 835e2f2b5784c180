"""LaTeX for the booktabs package: a table environment, its notes below in small print."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ablate.compare.formats import Best, Table, text_of
from ablate.compare.text.plain import printable

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


def write(table: Table) -> str:
    """A table without a title is a tabular alone, or several."""
    table = table.without_drawings()
    needs = "% needs \\usepackage{booktabs}"
    if not table.title:
        return "\n".join([needs, *_tabulars(table)])
    # Characters such as % and & would break a label.
    label = re.sub("[^A-Za-z0-9:-]", "-", table.title.partition(" · ")[0])
    notes = [*table.warnings, *table.settings, *table.small_print("bold")]
    lines = [
        needs,
        *(f"% {printable(warning)}" for warning in table.warnings),
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{_escaped(table.question)}}}",
        f"\\label{{tab:{label}}}",
        *_tabulars(table),
        "\\par\\smallskip\\footnotesize",
        *(f"{_escaped(note)}\\par" for note in notes),
        f"\\texttt{{{_escaped(table.reference)}}}",
        "\\end{table}",
    ]
    return "\n".join(lines)


def _tabulars(table: Table) -> list[str]:
    """The table, and the tables below it."""
    further = (line for other in table.further for line in _below(other))
    return [*_tabular(table), *further]


def _below(table: Table) -> list[str]:
    title = [f"{_escaped(table.title)}\\par\\smallskip"] if table.title else []
    return ["\\par\\medskip", *title, *_tabular(table)]


def _tabular(table: Table) -> list[str]:
    return [
        f"\\begin{{tabular}}{{{''.join('l' if c.left else 'r' for c in table.columns)}}}",
        "\\toprule",
        _row(map(_escaped, table.headings)),
        "\\midrule",
        *(_row(map(_cell, row)) for row in table.rows),
        "\\bottomrule",
        "\\end{tabular}",
    ]


def _row(cells: Iterable[str]) -> str:
    """After a rule or a row, TeX takes [ and * for an option of it, unless {} comes before."""
    text = " & ".join(cells)
    return f"{'{}' if text.startswith(('[', '*')) else ''}{text} \\\\"


def _cell(cell: object) -> str:
    text = _escaped(text_of(cell))
    return f"\\textbf{{{text}}}" if isinstance(cell, Best) else text


def _escaped(text: str) -> str:
    """The text as LaTeX prints it, whatever the encoding."""
    return "".join(_TEX.get(char, char) for char in printable(text))
