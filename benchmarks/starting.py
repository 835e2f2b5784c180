"""What is waited for before anything is trained: command line, corpus, and a study's start."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import MB, Figure
from benchmarks.text import corpus_name

# Both measure in a process of their own, after their imports, and say seconds and private bytes.
PRELUDE = """
import json, os, sys, time
def private():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))
"""
OURS = """
import torch
from pathlib import Path
from ablate.lm.sections import CorpusConfig
from ablate.lm.data.corpus import open_corpus
config, folder = CorpusConfig(name=sys.argv[1]), Path(sys.argv[2])
before, start = private(), time.thread_time()
corpus = open_corpus(config, folder)
streams = {split: corpus.stream(split) for split in ("train", "valid", "test")}
used = time.thread_time() - start
used_bytes = private() - before
tokens = sum(int(stream.sum()) and len(stream) for stream in streams.values())
print(json.dumps({"s": used, "private": used_bytes, "tokens": tokens, "words": corpus.num_words}))
"""
THEIRS = """
import torch
from pathlib import Path
before, start = private(), time.thread_time()
number, streams = {}, {}
for path in sys.argv[1:]:
    ids = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            for word in [*line.split(), "<eos>"]:
                ids.append(number.setdefault(word, len(number)))
    streams[path] = torch.tensor(ids)
used = time.thread_time() - start
used_bytes = private() - before
tokens = sum(int(stream.sum()) and len(stream) for stream in streams.values())
print(json.dumps({"s": used, "private": used_bytes, "tokens": tokens, "words": len(number)}))
"""

STUDY = """
from dataclasses import dataclass
from pathlib import Path

from ablate import Arm, Scale, Study, setting, table
from ablate.lm.components import Regularizer, register


@dataclass(frozen=True, kw_only=True)
class Config:
    folder: str = setting("", doc="where to say so")


@register("regularizer", "first_update", config=Config)
class FirstUpdate(Regularizer):
    def __init__(self, config):
        self.config = config

    def project(self, model):  # after an update
        Path(self.config.folder, "updated").touch()


study = Study(
    question="When does it begin?",
    base={
        "backbone": "lstm", "head": "softmax", "optimizer": "adamw",
        "regularizer.first_update.folder": FOLDER,
    },
    base_arm="a",
    design=table(Arm("a"), Arm("b", {"embedding.size": 28})),
    scales={"laptop": Scale(corpus="grammar", seeds=2)},
)
"""


def encoded_corpus(full: bool) -> list[Figure]:
    """The whole corpus: the 1.1 million tokens of PTB, or of the random text."""
    with tempfile.TemporaryDirectory(prefix="bench-corpus-") as path:
        workspace = Path(path)
        name = corpus_name(workspace)
        inputs = ([name, str(workspace / "data")], _texts(name, workspace))
        _said(OURS, inputs[0])  # encodes it
        runs = 15 if full else 4
        pairs = [(_said(OURS, inputs[0]), _said(THEIRS, inputs[1])) for _ in range(runs)]
    mine, other = pairs[0]
    if (mine["tokens"], mine["words"]) != (other["tokens"], other["words"]):
        raise SystemExit(f"opening a corpus: ours found {mine}, theirs {other}")
    what = f"opening a corpus of {mine['tokens']:,} tokens"
    ours, theirs = (1000 * statistics.median(pair[side]["s"] for pair in pairs) for side in (0, 1))
    ratio = statistics.median(b["s"] / a["s"] for a, b in pairs)
    private = [statistics.median(pair[side]["private"] for pair in pairs) / MB for side in (0, 1)]
    return [
        Figure(
            what=f"{what}: time", ours=ours, theirs=theirs, unit="ms",
            sense="faster", limit=50.0, ratio=ratio,
        ),
        Figure(
            what=f"{what}: private memory of a worker", ours=private[0], theirs=private[1],
            unit="MB", sense="share", limit=0.1, ratio=private[0] / private[1],
        ),
    ]  # fmt: skip


def command_line(full: bool) -> list[Figure]:
    """`ablate --help` as a whole process, compared with one that does nothing."""
    commands = ([sys.executable, "-m", "ablate", "--help"], [sys.executable, "-c", "pass"])
    for command in commands:
        _seconds(command)
    pairs = [tuple(map(_seconds, commands)) for _ in range(25 if full else 9)]
    ours, theirs = (statistics.median(pair[side] for pair in pairs) for side in (0, 1))
    return [
        Figure(
            what="ablate --help", ours=1000 * ours, theirs=1000 * theirs, unit="ms",
            sense="added", limit=0.2, ratio=statistics.median(a - b for a, b in pairs),
            note="processor seconds of the process",
        )
    ]  # fmt: skip


def first_update(full: bool) -> list[Figure]:
    """From the command that starts a study to the first update of a trial, in a new store."""
    pairs = []
    with tempfile.TemporaryDirectory(prefix="bench-start-") as path:
        folder = Path(path)
        study = folder / "begins.py"
        study.write_text(STUDY.replace("FOLDER", repr(path)))
        ablate, where = [sys.executable, "-m", "ablate"], ["--workspace", path]
        subprocess.run([*ablate, "plan", study, *where], check=True, stdout=subprocess.DEVNULL)
        for number in range(7 if full else 4):
            store = ["--store", str(folder / f"store{number}")]
            ours = _until_update([*ablate, "study", str(study), *where, *store], folder)
            stock = [sys.executable, "-m", "benchmarks.opponents.first_update", path]
            pairs.append((ours, _until_update(stock, folder)))
    ours, theirs = (statistics.median(pair[side] for pair in pairs[1:]) for side in (0, 1))
    ratio = statistics.median(b / a for a, b in pairs[1:])
    return [
        Figure(
            what="the first update of a study", ours=ours, theirs=0.0, unit="s",
            sense="added", limit=5.0, ratio=ours, note="wall-clock seconds from the command",
        ),
        Figure(
            what="the first update of a study, against stock Ray Tune", ours=ours, theirs=theirs,
            unit="s", sense="faster", limit=None, ratio=ratio,
        ),
    ]  # fmt: skip


def _until_update(command: Sequence[str], folder: Path) -> float:
    """Seconds from a command's start to its first update; then it is stopped."""
    updated, began = folder / "updated", time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not updated.exists():
            if process.poll() is not None or time.perf_counter() - began > 120:
                raise SystemExit(f"{' '.join(command)}: no update")
            time.sleep(0.01)
        return time.perf_counter() - began
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        updated.unlink(missing_ok=True)


def _texts(name: str, workspace: Path) -> list[str]:
    splits = ("train", "valid", "test")
    if name == "ptb":
        return [str(workspace / "data" / "ptb" / f"ptb.{split}.txt") for split in splits]
    return [str(Path(name) / f"{split}.txt") for split in splits]


def _said(program: str, arguments: Sequence[str]) -> dict:
    command = [sys.executable, "-c", PRELUDE + program, *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def _seconds(command: Sequence[str]) -> float:
    """Processor seconds of a command, from its start to its end."""
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])
