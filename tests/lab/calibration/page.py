"""docs/calibration.md, from the numbers in measured.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import compress
from typing import Any

from tests.lab.calibration.row import CHECKED, NUM, Case, Measured, Row, Simulated
from tests.lab.calibration.rows import ROWS
from tests.lab.calibration.sources import HERE
from tests.support.places import ROOT

NUMBERS = HERE / "measured.json"
PAGE = ROOT / "docs" / "calibration.md"
HEAD = f"""# Calibration

How often the statistics of a table err, beside what they promise. `make calibrate` measures all of
it, in minutes, and writes this page. `make test` fails if the code has changed since, or if a rate
is beyond its limit.

- **Measured** is a percentage of {NUM:,} simulated tables, or of as many as a column of draws says,
  with its exact 95% interval.
- **Limit** is what the rate must keep. For a promised 5% it is 5.5%, which {NUM:,} draws of a true
  rate of 5% exceed in 1%. A true rate of 5.75% exceeds it in 84%, and one of 6% in 98%.
- **Twin** is the rate of a wrong way to do the same thing, on the same draws. A check that does not
  notice its twin proves nothing, so the whole interval of each twin's rate must be beyond the
  limit. Where the wrong way does no harm, there is none.

What numpy computes for all draws is held equal to the code that makes tables on the first {CHECKED}
draws of a line: to whole tables, made of records and journals, wherever a line is about tables.
Seeds are fixed, so every number can be measured again. The rows are in
`tests/lab/calibration/rows/`, a file for each.
"""


def read() -> dict[str, Any]:
    """The numbers that were measured last; empty if there are none."""
    return json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}


def write(numbers: Mapping[str, Any]) -> None:
    """Store the numbers, and write the page of them."""
    ordered = {name: numbers[name] for name in ROWS if name in numbers}
    NUMBERS.write_text(json.dumps(ordered, indent=1) + "\n")
    PAGE.write_text(written(ordered))


def plain(digest: str, cases: Mapping[str, Simulated]) -> dict[str, Any]:
    """A row's numbers, to be stored."""
    return {"digest": digest, "cases": {what: asdict(found) for what, found in cases.items()}}


def simulated(stored: Mapping[str, Any]) -> dict[str, Simulated]:
    """The numbers of a row's cases as they were stored."""
    return {
        what: Simulated(Measured(**one["ours"]), one["twin"] and Measured(**one["twin"]))
        for what, one in stored["cases"].items()
    }


def written(numbers: Mapping[str, Any]) -> str:
    """The whole page."""
    parts = ("\n".join(_section(ROWS[name], simulated(of))) for name, of in numbers.items())
    return "\n".join([HEAD, *parts])


def _section(row: Row, found: Mapping[str, Simulated]) -> Iterator[str]:
    yield f"## {row.name}\n\n**Promised:** {row.promise}\n\n**Draws:** {row.draws}\n"
    if row.twin:
        yield f"**Twin:** {row.twin}.\n"
    cases = [case for case in row.cases if case.what in found]
    has_twin = any(found[case.what].twin for case in cases)
    has_limit = any(str(row.limit_of(case)) != "none" for case in cases)
    has_fewer = any(found[case.what].ours.num != NUM for case in cases)
    shown = [True, True, has_fewer, has_limit, has_twin]
    heads = [*compress(["", f"measured, % of {row.of}", "draws", "limit", "twin"], shown)]
    yield f"| {' | '.join(heads)} |\n|---{'|---:' * (len(heads) - 1)}|"
    for case in cases:
        yield f"| {' | '.join(compress(_cells(row, case, found[case.what]), shown))} |"
    yield ""
    for reason in dict.fromkeys(case.beyond for case in cases if case.beyond):
        yield f"**Beyond the limit:** {reason}\n"


def _cells(row: Row, case: Case, found: Simulated) -> list[str]:
    ours, limit = str(found.ours), row.limit_of(case)
    if not limit.keeps(found.ours.percent):
        ours = f"**{ours}**"
    twin = "" if found.twin is None else str(found.twin)
    return [case.what, ours, f"{found.ours.num:,}", str(limit), twin]
