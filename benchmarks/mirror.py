"""Queries of many trials in a store: how long the mirror takes to make, to update, and to answer.

    python benchmarks/mirror.py [--trials N] [--epochs N] [--folder DIR] [--json FILE]

A generator writes the journals of twenty studies, each of 40 config columns and 50 epochs. Then, in
this order:

    first sync         the whole mirror made
    nothing new        a sync that finds nothing to do
    sync 100 new       100 trials more are written, and the mirror brought up to date: three times
    each question      a look for news, the question, its answer as text: the best of three

Times are by the clock; beside them stand the processor time of this process and the load, since on
a machine that is shared the clock says little. Exits with 1 where a limit is exceeded: 1 s for a
sync of 100 (the middle one of three) and for each question. `make bench-mirror` writes
benchmarks/mirror.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIMIT_S, NEW, ROUNDS = 1.0, 100, 3
STUDIES, COLUMNS, SEEDS = 20, 40, 5
HEADS, GATES = ("softmax", "mos", "doc", "tied"), ("none", "iog")
STARTED = "2026-01-02T03:04:05Z"
QUESTIONS = {
    "query: the best arms": "SELECT study, arm, ppl FROM arms WHERE split = 'test' "
    "ORDER BY ppl LIMIT 10",
    "query: by a config's field": 'SELECT "backbone.units", avg(valid_nll), count(*) FROM trials '
    "WHERE status = 'completed' GROUP BY 1 ORDER BY 1",
    "query: over all epochs": "SELECT epoch, avg(valid_nll) FROM epochs GROUP BY epoch ORDER BY 1",
    "query: published beside ours": "SELECT a.arm, a.ppl, p.value FROM arms a JOIN published p "
    "ON p.split = a.split AND p.metric = 'ppl' WHERE p.corpus = 'ptb' LIMIT 20",
}


def main() -> int:
    options = _options()
    folder = Path(options.folder or tempfile.mkdtemp(prefix="ablate-mirror-"))
    try:
        figures = measure(folder, options)
    finally:
        if options.folder is None:
            shutil.rmtree(folder)
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if figures["within_limits"] else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--folder", help="keep the store and the mirror here")
    parser.add_argument("--json", help="write the figures to this file")
    return parser.parse_args()


def measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    from ablate.store.workspace import open_workspace

    workspace = open_workspace(str(folder))
    writer = Writer(workspace.store, options.trials, options.epochs)
    written = timed(lambda: writer.write(options.trials))[0]
    print(
        f"{options.trials} trials, {options.epochs} epochs: written in {written:.0f} s", flush=True
    )
    figures: dict[str, Any] = {"trials": options.trials, "epochs": options.epochs}
    figures |= {"columns": COLUMNS, "python": platform.python_version(), "cores": os.cpu_count()}
    figures["load_before"] = os.getloadavg()
    figures["store"] = store = measure_syncs(workspace, writer)
    figures["questions"] = measure_questions(workspace)
    over = [name for name, result in figures["questions"].items() if result["s"] > LIMIT_S]
    over += ["sync 100 new"] if store["sync_100_new_s"] > LIMIT_S else []
    figures["load_after"] = os.getloadavg()
    print(f"load {figures['load_before'][0]:.1f} before, {figures['load_after'][0]:.1f} after")
    print(f"over the limits: {', '.join(over) or 'none'}")
    return {**figures, "over": over, "within_limits": not over}


def measure_syncs(workspace: Any, writer: Writer) -> dict[str, Any]:
    from ablate.record.mirror.syncing import mirror_folder

    figures: dict[str, Any] = {"first_sync_s": one_sync(workspace, "first sync")["s"]}
    figures["nothing_new"] = one_sync(workspace, "nothing new")
    figures["sync_100_new"] = []
    for _ in range(ROUNDS):
        writer.write(NEW)
        result = one_sync(workspace, f"{NEW} new")
        if result["read"] < NEW:
            raise SystemExit(f"only {result['read']} of {NEW} new trials were found")
        figures["sync_100_new"].append(result)
    figures["sync_100_new_s"] = statistics.median(each["s"] for each in figures["sync_100_new"])
    figures["megabytes"] = round(
        sum(f.stat().st_size for f in mirror_folder(workspace).iterdir()) / 1e6, 1
    )
    return figures


def one_sync(workspace: Any, name: str) -> dict[str, float]:
    from ablate.record.mirror.syncing import update_mirror

    busy = time.process_time()
    taken, mirror = timed(lambda: update_mirror(workspace))
    result = {"s": taken, "processor_s": time.process_time() - busy, "read": mirror.read}
    text = ", ".join(f"{key} {value:.2f}" for key, value in result.items())
    print(f"{name}: {text}, load {os.getloadavg()[0]:.1f}", flush=True)
    return result


def measure_questions(workspace: Any) -> dict[str, dict[str, float]]:
    """Run each query as its command does: update the mirror, query it, format the result."""
    from ablate.commands.compare import compare
    from ablate.commands.query import query

    queries: dict[str, Callable[[], str]] = {
        name: lambda sql=sql: query(workspace, sql, "text") for name, sql in QUESTIONS.items()
    }
    for slots in ("head", "head,gate", "backbone.units"):
        queries[f"compare --except {slots}"] = lambda slots=slots: compare(
            workspace, (), slots, "valid", "text"
        )
    queries["compare STUDY PAPER"] = lambda: compare(
        workspace, ("study0", "takase2018doc"), None, "valid", "text"
    )
    figures = {}
    for name, question in queries.items():
        question()  # imports
        figures[name] = min((answered(question) for _ in range(ROUNDS)), key=lambda each: each["s"])
        took = figures[name]
        print(f"{name}: {took['s']:.2f} s, processor {took['processor_s']:.2f} s", flush=True)
    return figures


def answered(query: Callable[[], str]) -> dict[str, float]:
    busy = time.process_time()
    taken = timed(query)[0]
    return {"s": taken, "processor_s": time.process_time() - busy}


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


class Writer:
    """Writes journals as workers write them, without waiting for the disk."""

    def __init__(self, store: Any, num: int, num_epochs: int) -> None:
        from ablate.store import study_record

        self._store, self._num_epochs, self._written = store, num_epochs, 0
        self._random = random.Random(0)
        for number in range(STUDIES):
            study_record.write(store, _study(number, num + ROUNDS * NEW))

    def write(self, num: int) -> None:
        from ablate.store import checksum

        for number in range(self._written, self._written + num):
            key = f"trials/{_id(number)}/journal.json"
            plain = {**self._journal(number), checksum.FIELD: checksum.BLANK}
            data = json.dumps(plain, indent=1, sort_keys=True).encode()
            path = self._store.folder / key
            path.parent.mkdir(parents=True)
            path.write_bytes(b"".join(checksum.pieces(data, checksum.start_of(key))))
        self._written += num

    def _journal(self, number: int) -> dict[str, Any]:
        best, config = 4 + self._random.random() / 10, _config(number // STUDIES)
        planned = _planned(number)
        trial = {"id": _id(number), "values": config, "seed": planned.seed, "corpus_digest": "c0"}
        trial |= {"study": f"study{number % STUDIES}", "scale": "laptop", "arm": planned.arm}
        metrics = {"valid_nll": best, "test_nll": best - 0.05}
        outcome = {"status": "completed", "metrics": metrics, "num_parameters": 1_000_000}
        return {
            "trial": trial,
            "config": {**config, "corpus.name": "grammar"},
            "attempts": [{"started": STARTED, "host": "box", "versions": {"torch": "2.13.0"}}],
            "deaths": [],
            "epochs": [self._epoch(epoch, best) for epoch in range(1, self._num_epochs + 1)],
            "outcome": {**outcome, "digest": f"{number:x}"},
        }

    def _epoch(self, epoch: int, best: float) -> dict[str, Any]:
        losses = {"train_nll": best + 1 / epoch, "valid_nll": best + 1.1 / epoch}
        return {"epoch": epoch, "tokens": 1000.0, "seconds": 0.5 * epoch, **losses}


def _id(number: int) -> str:
    return f"{number:016x}"


def _study(number: int, num: int) -> Any:
    from ablate.store.study_record import ArmRecord, StudyRecord

    trials = tuple(_planned(trial) for trial in range(number, num, STUDIES))
    names = dict.fromkeys(trial.arm for trial in trials)
    return StudyRecord(
        name=f"study{number}",
        scale="laptop",
        question="Which?",
        paper="",
        tables=("Table 3",),
        file="study.py",
        command="ablate study study.py",
        corpus="grammar",
        corpus_digest="c0",
        level="word",
        num_seeds=SEEDS,
        base_arm=next(iter(names)),
        arms=tuple(ArmRecord(name=name) for name in names),
        trials=trials,
    )


def _planned(number: int) -> Any:
    from ablate.store.study_record import PlannedTrial

    rest = number // STUDIES
    config = _config(rest)
    return PlannedTrial(
        id=_id(number),
        arm=f"{config['head']}/{config['gate']}",
        stage="train",
        seed=1 + rest % SEEDS,
        seed_index=rest,
        final=True,
    )


def _config(rest: int) -> dict[str, Any]:
    """Forty columns; head, gate and widths vary, so that there are pairs."""
    rest //= SEEDS
    head, rest = HEADS[rest % len(HEADS)], rest // len(HEADS)
    gate, rest = GATES[rest % len(GATES)], rest // len(GATES)
    varied = {
        "head": head,
        "gate": gate,
        "backbone": "lstm",
        "backbone.units": 100 + 50 * (rest % 5),
    }
    varied["optimizer.learning_rate"] = 0.1 * (1 + rest // 5)
    varied["head.experts"] = [3, 1, 0, 0] if head == "doc" else 15
    fixed = {f"training.option_{i}": 0.5 * i for i in range(COLUMNS - len(varied))}
    return {**varied, **fixed}


if __name__ == "__main__":
    sys.exit(main())
