"""`make bench`: the table of speeds, ours compared with theirs.

    python -m benchmarks.table [--full] [--only ROW ...] [--strict] [--results FILE]

Each row runs in a process of its own on one core (the studies: two), both sides in turn. Prints
ours, theirs, the ratio and its limit; writes the results with a description of the machine and how
busy it was, one file for each kind of processor; draws a picture beside them, and writes the tables
of docs/notes/performance.md again. Exits with 1 where a row fails, and with --strict where a
limit is missed. The quick form is sized for less than ten minutes on two quiet cores.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import columns
from benchmarks.measure import Figure, pin


@dataclass(frozen=True)
class Row:
    """The source of a row's figures, and what they are compared with."""

    place: str  # module:function, which gives the figures
    against: str
    cores: int = 1


ROWS = {
    "command_line": Row("starting:command_line", "python -c pass"),
    "first_update": Row("starting:first_update", "stock Ray Tune", cores=2),
    "corpus": Row("starting:encoded_corpus", "reading and splitting the text"),
    "irlm": Row("recurrences:diagonal", "a per-step autograd loop"),
    "recurrences": Row("recurrences:step_by_step", "a per-step autograd loop"),
    "scans": Row("scans:against_loops", "a per-step autograd loop"),
    "mixture": Row("heads:mixture", "softmax, then mix"),
    "softmax": Row("heads:softmax", "F.cross_entropy, and linear_cross_entropy in chunks"),
    "augmented": Row("heads:augmented", "two full softmaxes"),
    "awd": Row("awd:step", "straightforward torch modules"),
    "transformer": Row("transformer:step", "a small GPT in plain torch"),
    "pairs": Row("pairs:step", "torch's modules, padded"),
    "evaluation": Row("awd:evaluation", "straightforward loops"),
    "empty_trial": Row("studies:empty_trial", "stock Tune + MLflow callback", cores=2),
    "study": Row("studies:whole_study", "plain torch + Optuna; Tune + callback", cores=2),
}


def main() -> int:
    options = _options()
    pin(options.cores)
    if options.row is not None:
        return _run_here(options.row, options.full)
    result, failed = {}, []
    for name in options.only or ROWS:
        load, started = os.getloadavg()[0], time.perf_counter()
        began = _clock(time.time())
        figures = _run_apart(name, options.full)
        if figures is None:
            failed.append(name)
            continue
        took = round(time.perf_counter() - started, 1)
        form = "full" if options.full else "quick"
        when = {"form": form, "began": began, "load": load, "took_s": took}
        result[name] = {"against": ROWS[name].against, **when}
        result[name]["figures"] = [_plain(figure) for figure in figures]
        for figure in figures:
            print(line(figure), flush=True)
        write(result, options.results)
    return _verdict(result, failed, options.strict)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="longer, with larger studies")
    parser.add_argument("--only", nargs="+", choices=list(ROWS), metavar="ROW", help=str([*ROWS]))
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a limit is missed")
    parser.add_argument("--results", type=Path, help="another file, and no page")
    parser.add_argument("--cores", type=int, default=2, help=argparse.SUPPRESS)
    parser.add_argument("--row", choices=list(ROWS), help=argparse.SUPPRESS)
    return parser.parse_args()


def _run_apart(name: str, full: bool) -> list[Figure] | None:
    """Measure a row in a separate process; if it fails, print why and return None."""
    command = [sys.executable, "-m", "benchmarks.table", "--row", name]
    command += ["--cores", str(ROWS[name].cores), *(["--full"] if full else [])]
    print(f"{name}: against {ROWS[name].against}", flush=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"  FAILED:\n{(done.stdout + done.stderr)[-3000:]}", flush=True)
        return None
    return [Figure(**plain) for plain in json.loads(done.stdout.splitlines()[-1])]


def _run_here(name: str, full: bool) -> int:
    import torch

    torch.set_num_threads(1)
    module, _, function = ROWS[name].place.partition(":")
    figures = getattr(importlib.import_module(f"benchmarks.{module}"), function)(full)
    print(json.dumps([asdict(figure) for figure in figures]))
    return 0


def line(figure: Figure) -> str:
    """Return a figure as text."""
    sides = f"{figure.ours:10.2f} {figure.theirs:10.2f} {figure.unit:3}"
    ratio = f"{figure.ratio:6.2f} {'s more' if figure.sense == 'added' else _WORDS[figure.sense]}"
    return f"  {figure.what:62} {sides} {ratio:20} {limit(figure)} {figure.note}".rstrip()


_WORDS = {"faster": "times faster", "share": "of theirs"}


def limit(figure: Figure) -> str:
    """Return the limit of a figure, and whether it is met."""
    if figure.limit is None:
        return ""
    sign = ">=" if figure.sense == "faster" else "<="
    return f"{sign} {figure.limit:g}: {'kept' if figure.kept else 'MISSED'}"


def _plain(figure: Figure) -> dict[str, Any]:
    return {**asdict(figure), "kept": figure.kept}


def write(result: dict[str, Any], other: Path | None) -> None:
    """Write rows into the file of this processor, in place of those that it has of them, and the
    page. With another file, write that alone."""
    path = other or columns.file_of(columns.processor())
    before = json.loads(path.read_text())["rows"] if path.exists() else {}
    rows = {name: {**before, **result}[name] for name in ROWS if name in {**before, **result}}
    results = {"machine": machine(), "rows": rows}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
    from benchmarks.picture import draw

    draw(results, path.with_suffix(".png"))
    if other is None:
        columns.main()


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds))


def machine() -> dict[str, Any]:
    """Describe the machine and versions of the figures."""
    from ablate.lm.model.fast.product import prefers_mkl, prefers_onednn
    from ablate.lm.model.native import library

    packages = ("torch", "ray", "optuna", "mlflow", "numpy", "pyarrow")
    return {
        "processor": columns.processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
        "products_by": "oneDNN" if prefers_onednn() else "MKL" if prefers_mkl() else "torch.mm",
        "kernels": library.version(),
    }


def _verdict(result: dict[str, Any], failed: Sequence[str], strict: bool) -> int:
    figures = [figure for row in result.values() for figure in row["figures"]]
    missed = [figure["what"] for figure in figures if figure["kept"] is False]
    judged = sum(figure["kept"] is not None for figure in figures)
    print(f"{judged - len(missed)} of {judged} limits kept")
    for what in missed:
        print(f"  missed: {what}")
    for name in failed:
        print(f"  failed: {name}")
    return 1 if failed or (strict and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
