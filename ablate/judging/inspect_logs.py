"""Reads the logs of Inspect (`inspect_ai`), `.eval` and `.json`: a row for each sample.

A sample's item is `task/id`. Scores have their scorer's name; CORRECT, INCORRECT, PARTIAL and
NOANSWER count as 1, 0, 0.5 and 0, as Inspect's own `value_to_float` has them. Of several epochs, a
sample's score is their mean, which is Inspect's default.

A `.eval` file is a ZIP file whose members are compressed with Zstandard in newer versions: Python
reads these from 3.14 on, and pyarrow does.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ablate.judging.plain import loaded, scalars
from ablate.results.spread import mean

ZSTANDARD = 93  # of a member of a ZIP file
LOCAL = struct.Struct("<26xHH")  # the end of a member's own header: the sizes of name and extra
VALUES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}


def is_log(content: Any) -> bool:
    """Return whether JSON is a log of Inspect."""
    return isinstance(content, dict) and {"version", "status", "eval"} <= content.keys()


def rows_of_zip(file: Path) -> list[dict[str, Any]]:
    """The rows of a `.eval` file."""
    try:
        with zipfile.ZipFile(file) as opened:
            log = _member(file, opened.getinfo("header.json"))
            samples = _member(file, opened.getinfo("summaries.json"))
    except (zipfile.BadZipFile, KeyError) as error:
        raise ValueError(f"it is no whole log: {error}") from error
    return rows({**log, "samples": samples})


def rows(log: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each sample, with its mean scores over epochs."""
    if log["status"] != "success":
        raise ValueError(
            f"its status is {log['status']!r}, so it lacks samples. Instead: `inspect eval-retry`, "
            "or leave the log out"
        )
    made, epochs = log["eval"], dict[Any, list[Mapping[str, Any]]]()
    of_eval = {
        "model": made["model"],
        "task": made["task"],
        **scalars(made.get("model_args"), "model_args."),
        **scalars(made.get("task_args"), "task_args."),
    }
    for sample in log.get("samples") or ():
        epochs.setdefault(sample["id"], []).append(sample)
    return [
        {
            **of_eval,
            "id": name,
            "item": f"{made['task']}/{name}",
            **scalars(several[0].get("metadata"), "metadata."),
            **_scores(several),
        }
        for name, several in epochs.items()
    ]


def _scores(epochs: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Scorer, or scorer.part -> the mean over epochs; None if an epoch has none."""
    of_epoch = [dict(_numbers(sample.get("scores") or {})) for sample in epochs]
    names = dict.fromkeys(name for scores in of_epoch for name in scores)
    return {
        name: mean([scores[name] for scores in of_epoch])
        if all(name in scores for scores in of_epoch)
        else None
        for name in names
    }


def _numbers(scores: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for scorer, score in scores.items():
        value = score.get("value")
        parts = value.items() if isinstance(value, dict) else [("", value)]
        for part, own in parts:
            number = VALUES.get(own, own) if isinstance(own, str) else own
            if isinstance(number, int | float):
                yield f"{scorer}.{part}".rstrip("."), float(number)


def _member(file: Path, info: zipfile.ZipInfo) -> Any:
    """A JSON member of a ZIP file."""
    if info.compress_type != ZSTANDARD:
        with zipfile.ZipFile(file) as opened:
            return loaded(opened.read(info).decode("utf-8"))
    import pyarrow as pa

    with file.open("rb") as opened:
        opened.seek(info.header_offset)
        name, extra = LOCAL.unpack(opened.read(LOCAL.size))
        opened.seek(name + extra, 1)
        compressed = opened.read(info.compress_size)
    with pa.CompressedInputStream(pa.BufferReader(compressed), "zstd") as stream:
        return loaded(stream.read().decode("utf-8"))
