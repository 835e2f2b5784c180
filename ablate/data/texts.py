"""Where a corpus's text lies, and what it must hash to. No network here.

grammar          built in, generated at first use
ptb, wikitext-2  published; `ablate data get` fetches them
folder:PATH      train.txt, valid.txt and test.txt of the user's own; a plain path works too
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ablate.data.published import PUBLISHED, SPLITS, Published
from ablate.errors import CorpusError, unknown

GRAMMAR = "grammar"
FRESH_NS = 2_000_000_000  # a file changed so recently may change again unseen


class Text(Protocol):
    """The text of a corpus."""

    def hashes(self) -> Mapping[str, str]:
        """What identifies it, by split or as a whole; without the text itself where pinned."""
        ...

    def lines(self, split: str) -> Iterator[str]:
        """The split's lines, its file checked first where it is pinned."""
        ...


def names() -> list[str]:
    """The corpora that have a name."""
    return [GRAMMAR, *PUBLISHED]


def find_text(name: str, folder: Path | None) -> Text:
    """The text of the corpus `name`; `folder` is where corpora and encodings are kept."""
    if name == GRAMMAR:
        return GrammarText()
    if name in PUBLISHED:
        return PublishedText(PUBLISHED[name], folder or Path())
    own = own_folder(name)
    if own is None:
        raise CorpusError(unknown("corpus", name, [*names(), "folder:PATH"], "corpus.name"))
    return FolderText(own, folder)


def own_folder(name: str) -> Path | None:
    """The user's folder that `name` means, if it looks like one."""
    if name.startswith("folder:"):
        return Path(name.removeprefix("folder:")).expanduser().absolute()
    if os.sep in name or name.startswith((".", "~")) or Path(name).is_dir():
        return Path(name).expanduser().absolute()
    return None


@dataclass(frozen=True)
class GrammarText:
    """The built-in corpus, generated once and checked against its digest."""

    _splits: dict[str, list[str]] = field(default_factory=dict)

    def hashes(self) -> Mapping[str, str]:
        from ablate.data import grammar

        return {GRAMMAR: grammar.DIGEST}

    def lines(self, split: str) -> Iterator[str]:
        return iter(self._generated()[split])

    def log_probabilities(self, split: str) -> list[float]:
        """Natural log probability, under the grammar itself, of each token after the first."""
        from ablate.data import grammar

        return grammar.log_probabilities(grammar.BUILT_IN, self._generated()[split])

    def _generated(self) -> dict[str, list[str]]:
        from ablate.data import grammar

        if not self._splits:
            self._splits.update(grammar.generate())
        return self._splits


@dataclass(frozen=True)
class PublishedText:
    """A published corpus's files under the data folder."""

    corpus: Published
    folder: Path

    def hashes(self) -> Mapping[str, str]:
        return self.corpus.sha256

    def path(self, split: str) -> Path:
        return self.folder / self.corpus.name / self.corpus.files[split]

    def lines(self, split: str) -> Iterator[str]:
        self.check(split)
        return _lines(self.path(split))

    def check(self, split: str) -> None:
        """Refuse a file that is missing or is not the published one."""
        path, expected, name = self.path(split), self.corpus.sha256[split], self.corpus.name
        way_out = f"`ablate data get {name}` fetches it; with `--from DIR` it takes your own copy."
        if not path.is_file():
            raise CorpusError(f"the corpus {name} is not here: {path} is missing. {way_out}")
        found = sha256(path)
        if found != expected:
            raise CorpusError(
                f"{path} is not the published file: its SHA-256 should be {expected} and is "
                f"{found}. {way_out}"
            )


@dataclass(frozen=True)
class FolderText:
    """A folder of the user's own text."""

    place: Path
    folder: Path | None  # where its hashes are remembered

    def hashes(self) -> Mapping[str, str]:
        return {split: remembered_sha256(self.path(split), self.folder) for split in SPLITS}

    def path(self, split: str) -> Path:
        path = self.place / f"{split}.txt"
        if not path.is_file():
            raise CorpusError(
                f"{path} is not there. A folder of text holds train.txt, valid.txt and test.txt."
            )
        return path

    def lines(self, split: str) -> Iterator[str]:
        return _lines(self.path(split))


def sha256(path: Path) -> str:
    """The file's hash in hexadecimal."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CorpusError(f"cannot read {path}: {error.strerror or error}.") from error


def remembered_sha256(path: Path, folder: Path | None) -> str:
    """The file's hash, from a note if its size, times and inode are still the noted ones.

    A file changed within two seconds of its hashing might change again and keep them all; of such
    a file no note is taken (git does so with its index).
    """
    if folder is None:
        return sha256(path)
    key = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    note = folder / "encoded" / "hashes" / f"{key}.json"
    stamp = file_stamp(path)
    with suppress(OSError, ValueError, KeyError, TypeError):
        noted = json.loads(note.read_bytes())
        if noted["stamp"] == stamp:
            return noted["sha256"]
    found = sha256(path)
    if file_stamp(path) == stamp and time.time_ns() - max(stamp[1:3]) > FRESH_NS:
        replace_if_possible(note, json.dumps({"stamp": stamp, "sha256": found}))
    return found


def file_stamp(path: Path) -> list[int]:
    """Size, times and inode: no ordinary change of a file leaves them all as they were."""
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def replace_if_possible(path: Path, text: str) -> None:
    """Write a small file that only saves time: whole, or not at all on a read-only disk."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text)
        os.replace(partial, path)


def _lines(path: Path) -> Iterator[str]:
    """A text file line by line."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            yield from file
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path} is not UTF-8 text: {error.reason}. Save it as UTF-8.") from error
    except OSError as error:
        raise CorpusError(f"cannot read {path}: {error.strerror or error}.") from error
