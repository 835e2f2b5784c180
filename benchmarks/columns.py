"""The tables of docs/notes/performance.md: a column for each processor that `make bench` has seen.

    python -m benchmarks.columns

`make bench` writes a file for the processor that it runs on, and then these tables. Every comment
`<!-- rows: NAME ... -->` on the page names rows of `benchmarks/table.py`, and is followed by what
the files say of them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ablate.store.files import cpuinfo
from ablate.trial.provenance.environment import hardware

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "notes" / "performance.md"
BLOCK = re.compile(r"(<!-- rows: (?P<rows>[^>]*) -->\n).*?(<!-- end of rows -->)", re.DOTALL)


def processor(text: str | None = None) -> str:
    """What tells one kind of processor from another here: its name, its family and model, as names
    of rented machines do not say which they are, and whether it multiplies tiles (AMX)."""
    text = cpuinfo() if text is None else text
    said = dict(line.split(":", 1) for line in text.split("\n\n")[0].splitlines() if ":" in line)
    facts = {name.strip(): value.strip() for name, value in said.items()}
    parts = [facts.get("model name") or hardware()]
    if "cpu family" in facts:
        parts.append(f"family {facts['cpu family']}, model {facts.get('model', 'unknown')}")
    if "amx_tile" in facts.get("flags", "").split():
        parts.append("AMX")
    return ", ".join(parts)


def file_of(processor: str) -> Path:
    """Where the results of a processor are kept."""
    return RESULTS / f"{re.sub('[^a-z0-9]+', '-', processor.lower()).strip('-')}.json"


def read_all() -> list[dict[str, Any]]:
    """The results of all processors, by file name."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]


def rendered(page: str, results: Sequence[dict[str, Any]]) -> str:
    """The page, with its tables written again."""
    return BLOCK.sub(
        lambda found: found[1] + table(found["rows"].split(), results) + found[3], page
    )


def table(rows: Sequence[str], results: Sequence[dict[str, Any]]) -> str:
    """Some rows as a table in Markdown: a line for each figure, a column for each processor."""
    figures = [{f["what"]: f for row in rows for f in _figures(each, row)} for each in results]
    limits = {what: _limit(f) for of_one in figures for what, f in of_one.items()}
    heads = [each["machine"]["processor"] for each in results]
    lines = [["what", "limit", *heads], ["---"] * (2 + len(heads))]
    for what, limit in limits.items():
        cells = [_cell(of_one[what]) if what in of_one else "not measured" for of_one in figures]
        lines.append([what, limit, *cells])
    lines.append(["measured on", "", *(_days(each, rows) for each in results)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _figures(results: dict[str, Any], row: str) -> list[dict[str, Any]]:
    return results["rows"].get(row, {}).get("figures", [])


def _limit(figure: dict[str, Any]) -> str:
    if figure["limit"] is None:
        return "none"
    if figure["sense"] == "faster":
        return "no slower" if figure["limit"] == 1 else f"{figure['limit']:g} times faster"
    return f"{figure['limit']:g}{' s more' if figure['sense'] == 'added' else ''}"


def _cell(figure: dict[str, Any]) -> str:
    """The ratio, whether its limit is kept, and both sides."""
    sides = f"{_number(figure['ours'])} and {_number(figure['theirs'])} {figure['unit']}"
    ratio = _number(figure["ratio"])
    if figure["kept"] is not None:
        ratio += ": met" if figure["kept"] else ": **missed**"
    return f"{ratio} ({sides})"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _days(results: dict[str, Any], rows: Sequence[str]) -> str:
    days = {results["rows"][row]["began"][:10] for row in rows if row in results["rows"]}
    return ", ".join(sorted(days)) or "no day"


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(rendered(page, read_all()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
