"""Runs the cases that fit into the time, and says what comes of each."""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu import table, timing
from benchmarks.gpu.case import Case, Setting, first_line, result_of
from benchmarks.gpu.cases import CASES
from benchmarks.gpu.facts import facts_of, heading
from benchmarks.gpu.table import FAILED, NOT_RUN, Row
from benchmarks.gpu.timing import OutOfTime, limited

LARGE, TINY = 8192, 256  # rows and columns of the product whose rate is measured
LEAST_SECONDS = 1.0  # below, no tiny case begins


def run(options: argparse.Namespace, start: float) -> int:
    """Print and write the rows one by one, after those of an earlier process; `start` is when the
    time began."""
    if options.device == "cuda" and not torch.cuda.is_available():
        print("there is no GPU here: this needs torch with CUDA or ROCm", file=sys.stderr)
        return 2
    chosen = _chosen(options.only, compiles=not options.without_compile)
    if chosen is None:
        return 2
    torch.backends.cudnn.allow_tf32 = False  # as torch's own default for products is
    file = Path(options.json)
    rows = table.rows_of(json.loads(file.read_text())) if options.after else []
    rate = timing.product_rate(options.device, TINY if options.tiny else LARGE)
    setting = Setting(options.device, options.tiny, rate)
    facts = _facts(options, chosen, rate)
    table.write(file, facts, rows)
    if not rows:
        print(heading(facts), table.HEAD, sep="\n", flush=True)
    for case in chosen[len(rows) :]:
        row = _row(case, setting, options.seconds - (time.perf_counter() - start))
        lost = _cleared(options.device)
        rows.append(row if lost is None else _without(case, FAILED, _of_lost(row, lost)))
        print(table.text_of(rows[-1]), flush=True)
        took = {"seconds": round(time.perf_counter() - start, 1)}
        table.write(file, {**facts, **took}, rows)
        if lost is not None:
            return table.LOST
    return 1 if any(row.status == FAILED for row in rows) else 0


def _facts(options: argparse.Namespace, chosen: Sequence[Case], rate: float) -> dict[str, Any]:
    return {
        **facts_of(options.device),
        "options": vars(options),
        "large_product_tflops": rate / 1e12,
        "after": options.after,
        "cases": [_names(case) for case in chosen],
    }


def _chosen(names: Sequence[str] | None, *, compiles: bool) -> list[Case] | None:
    """The cases to run; None, with a message, if there is none of a name."""
    known = dict.fromkeys(case.name for case in CASES)
    if unknown := [name for name in names or () if name not in known]:
        print(f"no case {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return None
    wanted = [case for case in CASES if names is None or case.name in names]
    return [case for case in wanted if compiles or not case.compiles]


def _row(case: Case, setting: Setting, left: float) -> Row:
    """The case's row, whatever happens; `left` are the seconds that there are."""
    try:
        if left < (LEAST_SECONDS if setting.tiny else case.needs):
            return _without(case, NOT_RUN, f"out of time: {max(left, 0):.0f} s were left")
        with limited(left):
            return result_of(case, setting)
    except OutOfTime:
        return _without(case, NOT_RUN, f"out of time: it had {left:.0f} s")
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        return _without(case, FAILED, first_line(error))


def _cleared(device: str) -> str | None:
    """Free what a case has left; if the device answers no more, return what it says."""
    gc.collect()
    try:
        if device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        torch.ones(1, device=device).sum().item()
    except Exception as error:
        return first_line(error)
    return None


def _of_lost(row: Row, lost: str) -> str:
    """What the row of a case says that has lost the device."""
    said = row.notes[0] if row.status == FAILED else lost
    return f"the device was lost: {said}"


def _names(case: Case) -> dict[str, str]:
    return {"case": case.name, "what": case.what, "against": case.against}


def _without(case: Case, status: str, why: str) -> Row:
    return Row(**_names(case), status=status, notes=(why,))
