"""Reads what lm-evaluation-harness writes with `--log_samples`: a row for each document of a task.

    samples_<task>_<date>.jsonl    a line for each document and filter, with its metrics
    results_<date>.json            beside it: the model, its arguments and the seeds

A document's item is `task/doc_id`, since every task numbers its own from 0. A metric has its name,
and after a dot that of its filter, if that is not `none`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ablate.judging.plain import loaded, scalars

SAMPLES = "samples_*.jsonl"
DATE = len("2026-11-28T18-14-41.264676")
SEEDS = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
OWN = ("doc_id", "target")  # numbers of a line that are no metrics, where it does not name these


def is_line(row: Any) -> bool:
    """Return whether a line of JSON is one of the harness's."""
    return isinstance(row, dict) and {"doc_id", "doc", "resps"} <= row.keys()


def rows(file: Path, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each document of the task."""
    date = file.stem[-DATE:]
    task, made = (
        file.stem[len("samples_") : -DATE - 1],
        _made(file.with_name(f"results_{date}.json")),
    )
    documents: dict[Any, dict[str, Any]] = {}
    for line in lines:
        at = line["doc_id"]
        row = documents.setdefault(at, {**made, "task": task, "item": f"{task}/{at}", **_of(line)})
        row |= _metrics(line)
    return [*documents.values()]


def _made(results: Path) -> dict[str, Any]:
    """What a results file says of the model; nothing if it is not there."""
    if not results.exists():
        return {}
    config = loaded(results.read_text("utf-8")).get("config", {})
    arguments = config.get("model_args")
    if isinstance(arguments, str):  # of earlier versions: "pretrained=a,revision=b"
        arguments = dict(part.split("=", 1) for part in arguments.split(",") if "=" in part)
    seeds = {name: config[name] for name in SEEDS if name in config}
    return {"model": config.get("model"), **seeds, **scalars(arguments, "model_args.")}


def _of(line: Mapping[str, Any]) -> dict[str, Any]:
    return {"doc_id": line["doc_id"], **scalars(line["doc"], "doc.")}


def _metrics(line: Mapping[str, Any]) -> dict[str, Any]:
    names = line.get("metrics") or [name for name in line if name not in OWN]
    filtered = line.get("filter", "none")
    end = "" if filtered == "none" else f".{filtered}"
    return {f"{name}{end}": line[name] for name in names if _is_number(line.get(name))}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def files(folder: Path) -> Iterator[Path]:
    """Every file of samples below a folder."""
    yield from sorted(folder.rglob(SAMPLES))
