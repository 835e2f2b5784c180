"""LaTeX for the booktabs package: a table environment, its notes below in small print."""

from __future__ import annotations

import re

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
    """A table without a title is a tabular alone."""
    needs = "% needs \\usepackage{booktabs}"
    if not table.title:
        return "\n".join([needs, *_tabular(table)])
    label = re.sub("[^A-Za-z0-9:-]", "-", table.title.partition(" · ")[0])
    notes = [*table.warnings, *table.settings, *table.small_print("bold")]
    lines = [
        needs,
        *(f"% {printable(warning)}" for warning in table.warnings),
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{_escaped(table.question)}}}",
        f"\\label{{tab:{label}}}",
        *_tabular(table),
        *(line for other in table.further for line in ("\\par\\medskip", *_tabular(other))),
        "\\par\\smallskip\\footnotesize",
        *(f"{_escaped(note)}\\par" for note in notes),
        f"\\texttt{{{_escaped(table.reference)}}}",
        "\\end{table}",
    ]
    return "\n".join(lines)


def _tabular(table: Table) -> list[str]:
    return [
        f"\\begin{{tabular}}{{{''.join('l' if c.left else 'r' for c in table.columns)}}}",
        "\\toprule",
        f"{' & '.join(map(_escaped, table.headings))} \\\\",
        "\\midrule",
        *(f"{' & '.join(map(_cell, row))} \\\\" for row in table.rows),
        "\\bottomrule",
        "\\end{tabular}",
    ]


def _cell(cell: object) -> str:
    text = _escaped(text_of(cell))
    return f"\\textbf{{{text}}}" if isinstance(cell, Best) else text


def _escaped(text: str) -> str:
    """The text as LaTeX prints it, whatever the encoding."""
    return "".join(_TEX.get(char, char) for char in printable(text))
