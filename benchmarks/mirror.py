"""Queries of many recorded trials: the mirror against `mlflow.search_runs` on the same records.

    python benchmarks/mirror.py [--trials N] [--epochs N] [--http] [--folder DIR] [--json FILE]

A generator writes the trials of twenty studies into MLflow's SQLite database in bulk, each of 40
config columns and 50 epochs. Then, in this order:

    first sync         the whole mirror made
    nothing new        a sync that finds nothing to do
    sync 100 new       100 trials more are written, and the mirror brought up to date: three times
    each question      a look for news, the question, its answer as text: the best of three
    search_runs        MLflow's own answer to "all trials", in the same run
    --http             the same by HTTP, from a copy of that mirror: nothing new, then 100 new
                       whose clocks are years behind, three times

Times are by the clock; beside them stand the processor time of this process and of the server, and
the load, since on a machine that is shared the clock says little. Exits with 1 where a limit is
exceeded: 1 s for a sync of 100 (the middle one of three) and for each question, 5 s over HTTP.
`make bench-mirror` writes benchmarks/mirror.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import random
import shutil
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PORT = int(os.environ.get("ABLATE_BENCH_PORT", "0"))
LIMIT_S, HTTP_LIMIT_S, NEW, ROUNDS = 1.0, 5.0, 100, 3
STUDIES, COLUMNS, SEEDS = 20, 40, 5
HEADS, GATES = ("softmax", "mos", "doc", "tied"), ("none", "iog")
METRICS = ("train_nll", "valid_nll", "tokens", "seconds")
START = 1_767_323_045_000
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
    parser.add_argument("--http", action="store_true", help="a server too (minutes)")
    parser.add_argument("--folder", help="keep the records and the mirror here")
    parser.add_argument("--json", help="write the figures to this file")
    return parser.parse_args()


def measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    from ablate.record.mirror.syncing import mirror_folder
    from ablate.store.workspace import make_folders, open_workspace

    workspace = open_workspace(str(folder))
    make_folders(workspace)
    writer = Writer(folder / "mlflow.db", options.epochs)
    written = timed(lambda: writer.write(options.trials))[0]
    print(
        f"{options.trials} trials, {options.epochs} epochs: written in {written:.0f} s", flush=True
    )
    figures: dict[str, Any] = {"trials": options.trials, "epochs": options.epochs}
    figures |= {"columns": COLUMNS, "python": platform.python_version(), "cores": os.cpu_count()}
    figures["load_before"] = os.getloadavg()
    figures["sqlite"] = sqlite = measure_syncs(workspace, writer, years_back=0)
    figures["questions"] = measure_questions(workspace)
    figures["search_runs_s"] = measure_search_runs(workspace)
    over = [name for name, result in figures["questions"].items() if result["s"] > LIMIT_S]
    over += ["sync 100 new"] if sqlite["sync_100_new_s"] > LIMIT_S else []
    if options.http:
        with server(workspace) as (uri, group):
            there = open_workspace(str(folder), mlflow=uri)
            shutil.copytree(mirror_folder(workspace), mirror_folder(there))
            figures["http"] = measure_syncs(there, writer, years_back=3, group=group)
        over += ["http"] if figures["http"]["sync_100_new_s"] > HTTP_LIMIT_S else []
    figures["load_after"] = os.getloadavg()
    print(f"load {figures['load_before'][0]:.1f} before, {figures['load_after'][0]:.1f} after")
    print(f"over the limits: {', '.join(over) or 'none'}")
    return {**figures, "over": over, "within_limits": not over}


def measure_syncs(
    workspace: Any, writer: Writer, years_back: int, group: int | None = None
) -> dict[str, Any]:
    from ablate.record.mirror.syncing import mirror_folder

    figures: dict[str, Any] = {"first_sync_s": one_sync(workspace, "first sync", group)["s"]}
    figures["nothing_new"] = one_sync(workspace, "nothing new", group)
    figures["sync_100_new"] = []
    for _ in range(ROUNDS):
        writer.write(NEW, years_back)
        result = one_sync(workspace, f"{NEW} new", group)
        if result["read"] < NEW:
            raise SystemExit(f"only {result['read']} of {NEW} new trials were found")
        figures["sync_100_new"].append(result)
    figures["sync_100_new_s"] = statistics.median(each["s"] for each in figures["sync_100_new"])
    figures["megabytes"] = round(
        sum(f.stat().st_size for f in mirror_folder(workspace).iterdir()) / 1e6, 1
    )
    return figures


def one_sync(workspace: Any, name: str, group: int | None) -> dict[str, float]:
    """`group`: the processes of a server, whose processor time is reported too."""
    from ablate.record.mirror.syncing import update_mirror

    busy, serving = time.process_time(), processor_s(group)
    taken, mirror = timed(lambda: update_mirror(workspace))
    result = {"s": taken, "processor_s": time.process_time() - busy, "read": mirror.read}
    result |= {} if group is None else {"server_processor_s": processor_s(group) - serving}
    text = ", ".join(f"{key} {value:.2f}" for key, value in result.items())
    load = os.getloadavg()[0]
    print(f"{workspace.tracking_uri[:6]} {name}: {text}, load {load:.1f}", flush=True)
    return result


def processor_s(group: int | None) -> float:
    """Return the processor time of a group of processes, as Linux reports it."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat") if group is not None else ():
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


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


def measure_search_runs(workspace: Any) -> float:
    from ablate.record import quiet

    mlflow = quiet.load("mlflow")
    with quiet.silent_warnings():
        mlflow.set_tracking_uri(workspace.tracking_uri)
        taken, result = timed(
            lambda: mlflow.search_runs(search_all_experiments=True, max_results=100_000)
        )
    print(f"mlflow.search_runs: {taken:.1f} s for {len(result)} runs", flush=True)
    return taken


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


class Writer:
    """Writes trials as `ablate` records them, thousands at a time."""

    def __init__(self, path: Path, num_epochs: int) -> None:
        from ablate.record.client import make_database

        make_database(f"sqlite:///{path}")
        self._path, self._num_epochs, self._written = path, num_epochs, 0
        self._random = random.Random(0)
        self._rows(lambda db: self._make_studies(db))

    def write(self, num: int, years_back: int = 0) -> None:
        for first in range(0, num, 500):
            some = range(self._written, self._written + min(500, num - first))
            self._rows(lambda db, some=some: self._trials(db, some, years_back))
            self._written = some.stop

    def _rows(self, work: Callable[[sqlite3.Connection], None]) -> None:
        with contextlib.closing(sqlite3.connect(self._path, timeout=60)) as db, db:
            db.execute("PRAGMA synchronous = OFF")
            work(db)

    def _make_studies(self, db: sqlite3.Connection) -> None:
        for number in range(1, STUDIES + 1):
            key = f"study{number - 1}@laptop"
            experiment = (number, key, f"file:///nowhere/{number}", "active", START, START)
            db.execute(
                "INSERT INTO experiments (experiment_id, name, artifact_location, lifecycle_stage, "
                "creation_time, last_update_time) VALUES (?, ?, ?, ?, ?, ?)",
                experiment,
            )
            tag = "INSERT INTO experiment_tags (experiment_id, key, value) VALUES (?, ?, ?)"
            db.execute(tag, (number, "ablate.study_key", key))
            run_id = f"{number:032x}"
            self._run(db, run_id, number, START)
            tags = {"ablate.study_run": key, "ablate.mark": "finished:0", "ablate.kind": "study"}
            tags |= {"study": key.split("@")[0], "scale": "laptop", "corpus": "grammar"}
            _insert(db, "tags", [(k, v, run_id) for k, v in tags.items()])

    def _run(self, db: sqlite3.Connection, run_id: str, experiment: int, start: int) -> None:
        db.execute(
            "INSERT INTO runs (run_uuid, name, source_type, status, start_time, end_time, "
            "lifecycle_stage, artifact_uri, experiment_id, user_id, source_name, entry_point_name, "
            "source_version) "
            "VALUES (?, ?, 'UNKNOWN', 'FINISHED', ?, ?, 'active', ?, ?, '', '', '', '')",
            (run_id, run_id, start, start + 1000, f"file:///nowhere/{run_id}", experiment),
        )

    def _trials(self, db: sqlite3.Connection, numbers: range, years_back: int) -> None:
        tags, params, metrics, latest = [], [], [], []
        for number in numbers:
            run_id = f"{self._random.getrandbits(128):032x}"
            start = START + 60_000 * number - years_back * 31_536_000_000
            study_index, rest = number % STUDIES, number // STUDIES
            self._run(db, run_id, 1 + study_index, start)
            config = _config(rest)
            params += [(key, str(value), run_id) for key, value in config.items()]
            tags += [
                (k, str(v), run_id)
                for k, v in self._tags(number, study_index, rest, config).items()
            ]
            result = self._curve(run_id, start)
            metrics += result
            latest += [row for row in result if row[4] == self._num_epochs]
        _insert(db, "tags", tags)
        _insert(db, "params", params)
        columns = "(key, value, timestamp, run_uuid, step, is_nan) VALUES (?, ?, ?, ?, ?, 0)"
        db.executemany(f"INSERT INTO metrics {columns}", metrics)
        db.executemany(f"INSERT INTO latest_metrics {columns}", latest)

    def _curve(self, run_id: str, start: int) -> list[tuple]:
        best, noise = 4 + self._random.random() / 10, self._random.random() / 100
        rows = []
        for epoch in range(1, self._num_epochs + 1):
            values = (best + 1 / epoch, best + 1.1 / epoch + noise, 1000.0, 0.5 * epoch)
            named = zip(METRICS, values, strict=True)
            rows += [(name, value, start + epoch, run_id, epoch) for name, value in named]
        end = {"final_valid_nll": best, "final_test_nll": best - 0.05, "num_parameters": 1e6}
        end_point = (start + self._num_epochs, run_id, self._num_epochs)
        return [*rows, *((name, value, *end_point) for name, value in end.items())]

    def _tags(
        self, number: int, study_index: int, rest: int, config: dict[str, Any]
    ) -> dict[str, Any]:
        study = f"study{study_index}"
        return {
            "ablate.trial": f"{number:016x}",
            "ablate.kind": "trial",
            "ablate.mark": f"completed:{self._num_epochs}:1",
            "ablate.study_key": f"{study}@laptop",
            "mlflow.runName": f"trial {number}",
            "mlflow.parentRunId": f"{1 + study_index:032x}",
            "study": study,
            "scale": "laptop",
            "arm": f"{config['head']}/{config['gate']}",
            "stage": "train",
            "status": "completed",
            "seed": 1 + rest % SEEDS,
            "seed_index": rest % SEEDS,
            "in_cell": True,
            "paper": "",
            "table": "Table 3",
            "corpus": "grammar",
            "corpus_digest": "c0",
            "device": "cpu",
            "threads": 1,
            "reads_test": True,
            "runner": "training",
            "precision": "float32",
            "attempts": 1,
            "epochs": self._num_epochs,
            "host": "box",
            "versions": "torch 2.13.0",
            "git_commit": "abc",
            "result_digest": f"{number:x}",
        }


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
    varied["head.experts"] = "[3, 1, 0, 0]" if head == "doc" else 15
    fixed = {f"training.option_{i}": 0.5 * i for i in range(COLUMNS - len(varied))}
    return {**varied, **fixed}


def _insert(db: sqlite3.Connection, table: str, rows: list[tuple]) -> None:
    db.executemany(f"INSERT INTO {table} (key, value, run_uuid) VALUES (?, ?, ?)", rows)


@contextlib.contextmanager
def server(workspace: Any) -> Iterator[tuple[str, int]]:
    """Start a server for the workspace's records; yield its URI and process group."""
    from ablate.record.places import ui_command, ui_environment

    with socket.socket() as free:
        free.bind(("127.0.0.1", PORT))
        port = free.getsockname()[1]
    command = ui_command(workspace.tracking_uri, workspace.artifacts, port)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(
        command,
        env={**os.environ, **ui_environment(workspace.tracking_uri)},
        start_new_session=True,
        **quiet,
    )
    try:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2)
                break
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


if __name__ == "__main__":
    sys.exit(main())
