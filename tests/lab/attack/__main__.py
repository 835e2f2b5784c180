"""Runs the attacks and prints what they counted: `make attack`.

    python -m tests.lab.attack [--seed N] [--quick] [--only MODULE...]

A line for each kind: tried, lost, doubled, wrong, tracebacks, hangs. The exit status is 0 only if
all but the first are 0; what failed is printed, with how to repeat it.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from pathlib import Path

from tests.lab.attack.tally import Tally

TRIES = {"inputs": 1000, "records": 200, "files": 5, "kills": 60}  # of each kind; `kills` in all
QUICK = {"inputs": 50, "records": 20, "files": 1, "kills": 5}
COUNTS = ("tried", "lost", "doubled", "wrong", "tracebacks", "hangs")
SHOWN = 20  # examples of a kind


def modules() -> list[str]:
    """The attacks that there are."""
    return [name for name in TRIES if (Path(__file__).parent / f"{name}.py").is_file()]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.attack", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="another seed makes other attacks")
    parser.add_argument("--quick", action="store_true", help="a few of each, in about two minutes")
    parser.add_argument("--only", nargs="+", choices=modules(), default=modules())
    options = parser.parse_args()
    tries = QUICK if options.quick else TRIES
    tallies: list[Tally] = []
    print(line("kind", *COUNTS), flush=True)
    for name in options.only:
        module = importlib.import_module(f"tests.lab.attack.{name}")
        for tally in module.attack(options.seed, tries[name]):
            tallies.append(tally)
            print(line(tally.kind, *(str(getattr(tally, count)) for count in COUNTS)), flush=True)
    for tally in tallies:
        for example in tally.examples[:SHOWN]:
            print(f"\n{tally.kind}: {example}".encode(errors="replace").decode())
    return int(any(getattr(tally, count) for tally in tallies for count in COUNTS[1:]))


def line(kind: str, *counts: str) -> str:
    return f"{kind:<36}" + "".join(f"{count:>12}" for count in counts)


if __name__ == "__main__":
    sys.exit(main())
