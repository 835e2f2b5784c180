"""The training text: PTB if the user has it, otherwise a random one of the same size.

PTB is looked for in a workspace's data folder (ABLATE_WORKSPACE, or .ablate), or in the folder
that BENCH_PTB names. Made up, 10,000 words come by Zipf's law, independent of each other: what
is measured here does not ask for meaning.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

NUM_WORDS = 10_000
LINES = {"train": 8_000, "valid": 600, "test": 600}
WORDS_A_LINE = 22


def corpus_name(workspace: Path) -> str:
    """Return the name of the corpus for a config; its text is copied to the workspace."""
    result = _ptb()
    if result is not None:
        place = workspace / "data" / "ptb"
        place.mkdir(parents=True, exist_ok=True)
        for path in result.glob("ptb.*.txt"):
            shutil.copy(path, place / path.name)
        return "ptb"
    folder = workspace / "zipf"
    _make_up(folder)
    return str(folder)


def _ptb() -> Path | None:
    folder = os.environ.get("BENCH_PTB")
    own = Path(os.environ.get("ABLATE_WORKSPACE", ".ablate")) / "data" / "ptb"
    places = [Path(folder)] if folder else [own]
    return next((path for path in places if (path / "ptb.train.txt").is_file()), None)


def _make_up(folder: Path) -> None:
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    share = 1 / np.arange(1, NUM_WORDS)
    share /= share.sum()
    for split, lines in LINES.items():
        words = rng.choice(NUM_WORDS - 1, size=lines * WORDS_A_LINE, p=share)
        if split == "train":  # every word is there once; `<eos>` is the last
            words[: NUM_WORDS - 1] = rng.permutation(NUM_WORDS - 1)
        text = "\n".join(" ".join(f"w{w}" for w in row) for row in words.reshape(lines, -1))
        (folder / f"{split}.txt").write_text(text + "\n")
