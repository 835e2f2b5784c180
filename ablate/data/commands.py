"""`ablate data list | get NAME [--from DIR] | verify [NAME]`."""

from __future__ import annotations

import sys
from pathlib import Path

from ablate.config import CorpusConfig
from ablate.data import sources
from ablate.data.corpus import open_corpus
from ablate.data.published import PUBLISHED
from ablate.errors import ConfigError
from ablate.layout import Grid

MEGABYTE = 1e6


def run(action: str, name: str | None, source: str | None, folder: str) -> int:
    """One action; what it did or found is printed."""
    if action == "list":
        print(_listing(folder))
    elif action == "verify":
        for each in [name] if name else _ready(folder):
            for file, digest in sources.verify(each, folder).items():
                print(f"{each}: {file}: {digest} as pinned")
    elif name is None:
        raise ConfigError(f"ablate data get NAME: which one? Allowed: {', '.join(PUBLISHED)}.")
    else:
        _get(name, source, folder)
    return 0


def _get(name: str, source: str | None, folder: str) -> None:
    """Fetch or take over the files, and encode them, so that the first trial need not."""
    for split, path in sources.get(name, folder, source, progress=_progress).items():
        print(f"{name}: {split} in {path}")
    corpus = open_corpus(CorpusConfig(name=name), Path(folder))
    tokens = ", ".join(f"{len(ids):,} {split}" for split, ids in corpus.splits.items())
    print(f"{name}: {tokens} tokens, {corpus.num_words:,} words, encoded")


def _progress(file: str, done: int, total: int | None) -> None:
    if sys.stderr.isatty():
        whole = f" of {total / MEGABYTE:.1f}" if total else ""
        end = "\n" if done == total else ""
        print(f"\r{file}: {done / MEGABYTE:.1f}{whole} MB", end=end, file=sys.stderr, flush=True)


def _ready(folder: str) -> list[str]:
    return [c.name for c in sources.listing(folder) if c.state in ("ready", "built in", "damaged")]


def _listing(folder: str) -> str:
    rows = [
        [
            corpus.name,
            corpus.state,
            *(f"{corpus.num_tokens.get(split, 0):,}" for split in ("train", "valid", "test")),
            f"{corpus.vocabulary:,}",
            corpus.licence,
        ]
        for corpus in sources.listing(folder)
    ]
    titles = ["corpus", "state", "train", "valid", "test", "words", "licence"]
    return "\n".join(Grid(titles, rows).lines(120, "-"))
