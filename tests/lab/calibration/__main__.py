"""Measures how often tables err, and writes docs/calibration.md: `make calibrate`.

    python -m tests.lab.calibration [--all] [--quick] [--only ROW...]

Rows whose code did not change since they were measured are left out, unless `--all` is given.
`--quick` makes a tenth of the draws and writes nothing. The exit status is 0 only if every rate
keeps its limit and every twin is noticed.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.lab.calibration import page
from tests.lab.calibration.row import NUM, Row, Simulated
from tests.lab.calibration.rows import ROWS
from tests.lab.calibration.run import measure
from tests.lab.calibration.sources import digest


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.calibration", description=__doc__)
    parser.add_argument("--all", action="store_true", help="measure all rows again")
    parser.add_argument("--quick", action="store_true", help="a tenth of the draws; write nothing")
    parser.add_argument("--only", nargs="+", choices=list(ROWS), default=list(ROWS))
    options = parser.parse_args()
    faults = []
    # Before anything is measured: an edit in the meantime is not of the code that runs.
    digests = {name: digest(name) for name in options.only}
    for name, now in digests.items():
        found = known(name, now) if not (options.all or options.quick) else {}
        found = found or measured(name, now, quick=options.quick)
        row = ROWS[name]
        for case in row.cases:
            faults += row.faults(case, found[case.what], few=options.quick)
    if not options.quick:
        page.write(page.read())  # its text may be new where no number is
    print(*faults, sep="\n")
    return bool(faults)


def known(name: str, now: str) -> dict[str, Simulated]:
    """The numbers of a row whose code did not change since; empty if it did."""
    stored = page.read().get(name, {})
    if stored.get("digest") != now:
        return {}
    print(f"{name}: measured before")
    return page.simulated(stored)


def measured(name: str, now: str, *, quick: bool) -> dict[str, Simulated]:
    """Measure a row, print it and, unless it is quick, store it."""
    began = time.monotonic()
    found = measure(name, NUM // 10 if quick else NUM)
    print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    show(ROWS[name], found)
    if not quick:  # row by row, so that an interrupted run keeps what it has
        page.write({**page.read(), name: page.plain(now, found)})
    return found


def show(row: Row, found: dict[str, Simulated]) -> None:
    """Print what a row's cases gave."""
    for case in row.cases:
        one = found[case.what]
        twin = "" if one.twin is None else f"twin {one.twin}"
        limit = str(row.limit_of(case))
        print(f"  {case.what:<55} {one.ours!s:<20} limit {limit:<12} {twin}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
