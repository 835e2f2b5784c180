"""Large studies: what a command costs as arms or trials grow. Nothing is trained.

    python -m benchmarks.sizes [--arms N ...] [--trials N] [--json FILE]

Journals are written by hand into a store of their own. Then, each in a process of its own:

    report, table     of a study of N arms, three seeds of five epochs each
    status, doctor    of a study of --trials trials, two arms
    sync              the same trials, delivered to MLflow on SQLite, once and then again

Exits with 1 where a limit is exceeded: 10 s for a report of 1,000 arms, and for 100,000 trials 2 s
for `status`, 5 s for `doctor`; a sync must deliver 115 trials a second. The limits are per trial,
so that smaller sizes are held to as much.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ARMS, TRIALS, SEEDS, EPOCHS = (50, 100, 200, 1000), 10_000, 3, 5
STARTING_S = 2.0  # of an interpreter with what a command imports: not counted as work
REPORT_S_PER_ARM, STATUS_S, DOCTOR_S, SYNC_PER_S = 10 / 1000, 2 / 100_000, 5 / 100_000, 115


def main() -> int:
    options = _options()
    folder = Path(tempfile.mkdtemp(prefix="ablate-sizes-"))
    try:
        figures = [*_arms(folder / "arms", options.arms), *_trials(folder / "t", options.trials)]
    finally:
        shutil.rmtree(folder)
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if all(figure["within_limit"] for figure in figures) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--arms", type=int, nargs="*", default=ARMS)
    parser.add_argument("--trials", type=int, default=TRIALS, help="0: only --arms")
    parser.add_argument("--json", help="write the figures to this file")
    return parser.parse_args()


def _arms(folder: Path, sizes: list[int]) -> Iterator[dict[str, Any]]:
    for num in sizes:
        workspace = folder / str(num)
        write_study(workspace / "store", num, SEEDS)
        limit = STARTING_S + REPORT_S_PER_ARM * num
        for command in ("table", "report"):
            yield _timed(workspace, num, limit, command, "many")


def _trials(folder: Path, num: int) -> Iterator[dict[str, Any]]:
    if not num:
        return
    write_study(folder / "store", 2, num // 2)
    yield _timed(folder, num, STARTING_S + STATUS_S * num, "status")
    yield _timed(folder, num, STARTING_S + DOCTOR_S * num, "doctor", refused=True)
    yield _timed(folder, num, STARTING_S + num / SYNC_PER_S, "sync")
    yield _timed(folder, num, STARTING_S + num / SYNC_PER_S, "sync")


def _timed(
    workspace: Path, num: int, limit: float, *command: str, refused: bool = False
) -> dict[str, Any]:
    """`refused`: whether the command may find something wrong, as `doctor` does on a bare disk."""
    words = [sys.executable, "-m", "ablate", *command, "--workspace", str(workspace)]
    load, start = os.getloadavg()[0], time.perf_counter()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - start
    if done.returncode and not refused:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr[-2000:]}")
    print(f"{command[0]} of {num}: {taken:.1f} s, limit {limit:.1f} s, load {load:.1f}", flush=True)
    figure = {"command": command[0], "size": num, "s": round(taken, 2), "load": round(load, 1)}
    return {**figure, "limit_s": limit, "within_limit": taken <= limit}


def write_study(folder: Path, num_arms: int, num_seeds: int) -> None:
    """Write a finished study and its journals, without the syncs that a study's writes need."""
    from ablate.store import study_record
    from ablate.store.store import Store
    from ablate.store.study_record import ArmRecord, PlannedTrial, StudyRecord

    names = [f"arm {index}" for index in range(num_arms)]
    planned = tuple(
        PlannedTrial(
            id=f"{index:08x}{seed:08x}",
            arm=arm,
            stage="train",
            seed=seed + 1,
            seed_index=seed,
            final=True,
        )
        for index, arm in enumerate(names)
        for seed in range(num_seeds)
    )
    record = StudyRecord(
        name="many",
        scale="laptop",
        question="How large may a study be?",
        paper="",
        tables=(),
        file="many.py",
        command="ablate study many.py",
        corpus="grammar",
        corpus_digest="c0",
        level="word",
        num_seeds=num_seeds,
        base_arm=names[0],
        arms=tuple(ArmRecord(name=name, num_parameters=1000 + i) for i, name in enumerate(names)),
        trials=planned,
    )
    study_record.write(Store(str(folder)), record)
    for trial in planned:
        _write_journal(folder, trial, names.index(trial.arm) if num_arms > 2 else 0)


def _write_journal(folder: Path, planned: Any, arm_index: int) -> None:
    from ablate.config.identity import Trial
    from ablate.store import checksum, journal

    loss = 4.5 + 0.3 * math.sin(arm_index) + 0.02 * math.sin(37 * arm_index + 11 * planned.seed)
    values = {"corpus.name": "grammar", "backbone": "lstm", "backbone.units": 10 + arm_index}
    config = {**values, **{f"training.option_{index}": 0.5 * index for index in range(40)}}
    trial = Trial(id=planned.id, values=values, seed=planned.seed, corpus_digest="c0")
    curve = [
        {
            "epoch": epoch,
            "train_nll": loss + 1 / epoch,
            "valid_nll": loss + 1.1 / epoch,
            "valid_ppl": math.exp(loss + 1.1 / epoch),
            "tokens": 1000,
            "seconds": 0.5 * epoch,
        }
        for epoch in range(1, EPOCHS + 1)
    ]
    plain = {
        "trial": {**trial.to_plain(), "study": "many", "scale": "laptop", "arm": planned.arm},
        "config": config,
        "attempts": [{"started": "2026-01-02T03:04:05Z", "from_epoch": 0, "computed_by": []}],
        "deaths": [],
        "epochs": curve,
        "outcome": {
            "status": "completed",
            "metrics": {"valid_nll": loss, "test_nll": loss - 0.05},
            "num_parameters": 1000 + arm_index,
            "digest": "d",
        },
        checksum.FIELD: checksum.BLANK,
    }
    key = journal.key(planned.id)
    path = folder / key
    path.parent.mkdir(parents=True)
    data = json.dumps(plain, indent=1, sort_keys=True).encode()
    path.write_bytes(b"".join(map(bytes, checksum.pieces(data, checksum.start_of(key)))))


if __name__ == "__main__":
    sys.exit(main())
