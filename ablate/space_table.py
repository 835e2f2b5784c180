"""A search space printed as its paper's table: aligned columns of plain text."""

from __future__ import annotations

import textwrap

from ablate.space_row import Row

_GAP = "  "
_NARROWEST = 24  # columns kept for the last, wrapped one


def render(
    title: str,
    note: str,
    rows: tuple[Row, ...],
    rules: list[str],
    corpora: tuple[str, ...],
    width: int,
) -> str:
    """The printed rows in the paper's order, then all that the page does not have."""
    if sum(bool(row.by_corpus) for row in rows) * 5 < len(rows):
        corpora = ()  # a row or two that differ are no columns
    printed = [row for row in rows if row.printed]
    ours = [row for row in rows if not row.printed]
    values = list(corpora) or ["Values"]
    last = "Description" if any(row.description for row in printed) else ""
    lines = [*_wrapped(title, width), *(_wrapped(note, width) if note else []), ""]
    lines += columns(
        ["Parameter", *values, last], [_cells(r, corpora, r.description) for r in printed], width
    )
    if ours:
        table = columns(
            ["Parameter", *values, "Source"], [_cells(r, corpora, r.source) for r in ours], width
        )
        lines += ["", "Not in the printed table", *table]
    fields = [[row.name, row.field] for row in rows if row.field]
    lines += ["", *columns(["Parameter", "Field of ablate"], fields, width)]
    lines += _section("Only when", [(r.name, r.condition) for r in rows if r.condition], width)
    lines += _section("Rules between rows", [("", rule) for rule in rules], width)
    notes = [(row.name, row.note) for row in rows if row.note]
    notes += [(row.name, f"from {row.source}") for row in printed if row.source]
    lines += _section("Notes", notes, width)
    return "\n".join(lines) + "\n"


def _cells(row: Row, corpora: tuple[str, ...], last: str) -> list[str]:
    if row.same_as is not None:
        values = [f"= {row.same_as}"] * max(1, len(corpora))
    elif row.by_corpus and corpora:
        values = [str(row.by_corpus[corpus]) for corpus in corpora]
    elif row.by_corpus:
        values = ["; ".join(f"{domain} ({corpus})" for corpus, domain in row.by_corpus.items())]
    else:
        values = [str(row.domain)] * max(1, len(corpora))
    return [f"{row.name}{row.marker}", *values, last]


def columns(header: list[str], rows: list[list[str]], width: int) -> list[str]:
    """Aligned columns; the last wraps into what the others leave."""
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns[:-1]]
    left = sum(widths) + len(_GAP) * len(widths)
    room = max(_NARROWEST, width - left)
    lines = []
    for row in [header, *rows]:
        wrapped = _wrapped(row[-1], room) or [""]
        cells = [cell.ljust(size) for cell, size in zip(row, widths, strict=False)]
        lines.append(_GAP.join([*cells, wrapped[0]]).rstrip())
        lines += [" " * left + more for more in wrapped[1:]]
    rule = "-" * min(width, max(map(len, lines)))
    return [lines[0], rule, *lines[1:]]


def _section(title: str, items: list[tuple[str, str]], width: int) -> list[str]:
    if not items:
        return []
    lines = ["", title]
    for name, text in items:
        item = f"{name}: {text}" if name else text
        lines += _wrapped(item, width, "  ", "      ")
    return lines


def _wrapped(text: str, width: int, first: str = "", later: str = "") -> list[str]:
    """Lines of whole words; a name longer than the line is left whole."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )
