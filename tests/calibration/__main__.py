"""Measures how often tables err, and writes docs/calibration.md: `make calibrate`.

    python -m tests.calibration [--all] [--quick] [--only ROW...]

Rows whose code did not change since they were measured are left out, unless `--all` is given.
`--quick` makes a tenth of the draws and writes nothing. The exit status is 0 only if every rate
keeps its limit and every twin is noticed.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.calibration import page
from tests.calibration.row import NUM, Row, Simulated
from tests.calibration.rows import ROWS
from tests.calibration.run import measure
from tests.calibration.sources import digest


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.calibration", description=__doc__)
    parser.add_argument("--all", action="store_true", help="measure all rows again")
    parser.add_argument("--quick", action="store_true", help="a tenth of the draws; write nothing")
    parser.add_argument("--only", nargs="+", choices=list(ROWS), default=list(ROWS))
    options = parser.parse_args()
    numbers, faults = page.read(), []
    for name in options.only:
        now = digest(name)
        old = numbers.get(name, {}).get("digest") == now
        if old and not (options.all or options.quick):
            found = page.simulated(numbers[name])
            print(f"{name}: measured before")
        else:
            began = time.monotonic()
            found = measure(name, NUM // 10 if options.quick else NUM)
            print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
            show(ROWS[name], found)
            numbers[name] = page.plain(now, found)
        row = ROWS[name]
        faults += [
            fault
            for case in row.cases
            for fault in row.faults(case, found[case.what], few=options.quick)
        ]
    if not options.quick:
        page.write(numbers)
    print(*faults, sep="\n")
    return bool(faults)


def show(row: Row, found: dict[str, Simulated]) -> None:
    """Print what a row's cases gave."""
    for case in row.cases:
        one = found[case.what]
        twin = "" if one.twin is None else f"twin {one.twin}"
        limit = str(row.limit_of(case))
        print(f"  {case.what:<55} {one.ours!s:<20} limit {limit:<12} {twin}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
