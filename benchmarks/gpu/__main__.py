"""The table of a GPU, on the machine that has it.

    python -m benchmarks.gpu [--json FILE] [--seconds 480] [--device cpu] [--tiny] [--only NAME ...]

The machine needs this checkout, torch and numpy, and nothing else of what ablate needs. Cases run
in the order of their importance, and those that do not fit into the time are listed. Each row is
printed, and the file written, as soon as it is known. A case that loses the device, or crashes,
costs its own row: another process goes on. Exits with 1 if a case failed, and with 2 without the
device.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time

from benchmarks.gpu.watched import watched


def main() -> int:
    start, options = time.perf_counter(), _options()
    missing = [name for name in ("torch", "numpy") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"this needs {' and '.join(missing)}: pip install torch numpy", file=sys.stderr)
        return 2
    if options.after is None:
        return watched(sys.argv[1:], options.json, start + options.seconds)
    from benchmarks.gpu.run import run  # imports torch

    return run(options, start)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.gpu", description="The table of a GPU.")
    parser.add_argument("--json", metavar="FILE", help="write the results to this file, too")
    parser.add_argument("--seconds", type=float, default=480.0, help="the time for all cases")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes: only whether it runs")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only the cases of these names")
    parser.add_argument("--without-compile", action="store_true", help="no compiled opponents")
    parser.add_argument("--after", type=int, help=argparse.SUPPRESS)  # rows of earlier processes
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
