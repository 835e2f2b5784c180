"""The text of corpora: its location and its hashes. Nothing here uses the network.

grammar, grammar_trees     built in, generated on first use
ptb, wikitext-2, treebank  published, as others are; `ablate data get` fetches them
NAME                       imported by `ablate data add NAME FILE`
folder:PATH                a folder with train.txt, valid.txt and test.txt; a plain path works too

The text of `grammar_trees` and `treebank` are parsed sentences (`ablate/lm/parsing/trees.py`). The
treebank's splits are by file: wsj_0001 to 0159 are train, to 0179 valid, to 0199 test.

A text made of documents holds them one after another. A story ends with the line
`<|endoftext|>`, as in its file, and a row of Parquet with a line end that we add.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import re
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ablate.errors import CorpusError, unknown
from ablate.lm.data.published import PUBLISHED, PUBLISHED_PAIRS, SPLITS, Published
from ablate.store import files

GRAMMAR, GRAMMAR_TREES, PAIRS = BUILT_IN = ("grammar", "grammar_trees", "pairs")
LAST_FILES = {"train": 159, "valid": 179, "test": 199}  # of the treebank's splits
END_OF_STORY = b"<|endoftext|>"
FRESH_NS = 2_000_000_000  # a file changed more recently may change again with the same stamp


T = TypeVar("T")


class Text(Protocol):
    """The text of a corpus."""

    @property
    def level(self) -> str:
        """What the text consists of, "word" or "tree"; a folder's may be either."""
        ...

    def origin(self, split: str) -> str:
        """Return where the split's lines are from, for errors."""
        ...

    def hashes(self) -> Mapping[str, str]:
        """Return hashes that identify the text; pinned ones are known without the text."""
        ...

    def lines(self, split: str) -> Iterator[str]:
        """Return the split's lines, after checking its file if its hash is pinned."""
        ...

    def raw(self, split: str) -> Iterator[bytes]:
        """Return the split's bytes, cut after each line end; they are what bits per byte count."""
        ...


def names() -> list[str]:
    """List the texts that have a name, those of trees included."""
    return [GRAMMAR, GRAMMAR_TREES, *PUBLISHED]


def find_text(name: str, folder: Path | None) -> Text:
    """Return the text of the corpus `name`; `folder` stores corpora and encodings."""
    if name in (GRAMMAR, GRAMMAR_TREES):
        return GrammarText(name)
    if name in PUBLISHED:
        corpus = PUBLISHED[name]
        of_text = TextInParts if corpus.parts else PublishedText
        made = TreebankText if corpus.level == "tree" else of_text
        return made(corpus, folder or Path())
    if name in (PAIRS, *PUBLISHED_PAIRS):
        raise CorpusError(
            f"corpus.name: '{name}' has pairs of sentences, and this task reads one text. Expected "
            f"one of: {', '.join([*names(), 'folder:PATH'])}."
        )
    if folder is not None and (own := own_folder(name, folder)).is_dir():
        return FolderText(own, folder)
    source = custom_folder(name)
    if source is None:
        own = sorted(each.parent.name for each in folder.glob("own/*/train.txt")) if folder else []
        known = [*names(), *own, "folder:PATH"]
        raise CorpusError(
            f"{unknown('corpus', name, known, 'corpus.name')} "
            f"`ablate data add {name} FILE` imports a text of yours."
        )
    return FolderText(source, folder)


def own_folder(name: str, data: Path) -> Path:
    """Return the folder of a text that was imported under a name (`ablate/lm/data/own.py`)."""
    return data / "own" / (name if re.fullmatch(r"[\w-]+", name) else "-")


def custom_folder(name: str) -> Path | None:
    """Return the folder of text that `name` refers to, or None if it is not a path."""
    if name.startswith("folder:"):
        return expanded(name.removeprefix("folder:"))
    if os.sep in name or name.startswith((".", "~")) or Path(name).is_dir():
        return expanded(name)
    return None


def expanded(path: str | Path) -> Path:
    """Return the absolute path, with the home folder in place of ~."""
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError:
        user = Path(path).parts[0]
        raise CorpusError(f"{path}: there is no home folder {user} on this machine.") from None


@dataclass(frozen=True)
class GrammarText:
    """A built-in corpus, generated once and checked against its digest."""

    name: str = GRAMMAR

    @property
    def level(self) -> str:
        """`tree` for the sentences with their derivations."""
        return "tree" if self.name == GRAMMAR_TREES else "word"

    def origin(self, split: str) -> str:
        """Return where a split comes from, for messages."""
        return f"the built-in {'trees' if self.level == 'tree' else 'text'}"

    def hashes(self) -> Mapping[str, str]:
        """Return the pinned hash of the built-in text."""
        return {self.name: self._generator.DIGEST}

    def lines(self, split: str) -> Iterator[str]:
        """Return a split's lines, or its trees, one per line."""
        return iter(self._splits[split])

    def raw(self, split: str) -> Iterator[bytes]:
        """Return a split's lines as a file would have them."""
        return (f"{line}\n".encode() for line in self._splits[split])

    def log_probabilities(self, split: str) -> list[float]:
        """Return the natural log probability, under the grammar, of each token after the first."""
        from ablate.lm.data.grammar import built_in, floor

        return floor.log_probabilities(built_in.BUILT_IN, self._splits[split])

    @property
    def _generator(self) -> Any:
        from ablate.lm.data.grammar import generate, trees

        return trees if self.level == "tree" else generate

    @cached_property
    def _splits(self) -> dict[str, list[str]]:
        return self._generator.generate()


@dataclass(frozen=True)
class PublishedText:
    """The files of a published corpus in the data folder: one for each split of a text."""

    corpus: Published
    folder: Path

    @property
    def level(self) -> str:
        """`word` or `character`, as published."""
        return self.corpus.level

    def origin(self, split: str) -> str:
        """Return a split's file, for messages."""
        return str(self.path(split))

    def hashes(self) -> Mapping[str, str]:
        """Return the pinned hashes of the corpus' files."""
        return self.corpus.sha256

    def path(self, part: str) -> Path:
        """Return the file of a part, which may be missing."""
        return self.folder / self.corpus.name / self.corpus.files[part]

    def lines(self, split: str) -> Iterator[str]:
        """Return a split's lines, from a file whose hash is checked."""
        self.check(split)
        return lines_of(self.path(split))

    def raw(self, split: str) -> Iterator[bytes]:
        """Return a split's bytes, from a file whose hash is checked."""
        self.check(split)
        return bytes_of_lines(self.path(split))

    @property
    def remedy(self) -> str:
        """Return how to get the files."""
        name = self.corpus.name
        if self.corpus.home is None:
            return f"`ablate data get {name} --from DIR` copies yours."
        return f"`ablate data get {name}` fetches it; with `--from DIR`, it copies yours."

    def check(self, part: str) -> None:
        """Raise if a file is missing or is not the published one."""
        path, expected, name = self.path(part), self.corpus.sha256[part], self.corpus.name
        if not path.is_file():
            raise CorpusError(f"the corpus {name} is missing: there is no {path}. {self.remedy}")
        actual = sha256(path)
        if actual != expected:
            raise CorpusError(
                f"{path} is not the published file: its SHA-256 should be {expected}, but it is "
                f"{actual}. {self.remedy}"
            )


def published_files(name: str, folder: Path) -> PublishedText | None:
    """Return the files of a published corpus, or None if `name` is another one."""
    corpus = {**PUBLISHED, **PUBLISHED_PAIRS}.get(name)
    return None if corpus is None else PublishedText(corpus, folder)


@dataclass(frozen=True)
class TextInParts(PublishedText):
    """A published text whose splits are parts of its files."""

    def origin(self, split: str) -> str:
        """Return the file that has the split, for messages."""
        return str(self.path(self.corpus.parts[split].file))

    def lines(self, split: str) -> Iterator[str]:
        """Return a split's lines, from a file whose hash is checked."""
        return (line.decode() for line in self.raw(split))

    def raw(self, split: str) -> Iterator[bytes]:
        """Return a split's bytes, from a file whose hash is checked."""
        part = self.corpus.parts[split]
        self.check(part.file)
        path = self.path(part.file)
        if part.member:
            return _lines_of_member(path, part.member)
        documents = _rows(path) if path.suffix == ".parquet" else _stories(path)
        return itertools.chain.from_iterable(itertools.islice(documents, part.first, part.end))


def _lines_of_member(path: Path, name: str) -> Iterator[bytes]:
    with zipfile.ZipFile(path) as archive, archive.open(name) as member:
        yield from member


def _stories(path: Path) -> Iterator[list[bytes]]:
    story: list[bytes] = []
    for line in bytes_of_lines(path):
        story.append(line)
        if line.strip() == END_OF_STORY:
            yield story
            story = []
    if story:
        yield story


def _rows(path: Path) -> Iterator[io.BytesIO]:
    """The documents of a Parquet file, each with a line end, to be read line by line."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(columns=["text"]):
            yield from (io.BytesIO(f"{text}\n".encode()) for text in batch.column(0).to_pylist())


@dataclass(frozen=True)
class TreebankText(PublishedText):
    """The treebank's one file, from which every split is read."""

    def origin(self, split: str) -> str:
        """Return the treebank's file, for messages."""
        return str(self.path("trees"))

    def lines(self, split: str) -> Iterator[str]:
        """Yield a split's trees: the sample's files are split by their numbers."""
        self.check("trees")
        # A split starts after the last file of the split before.
        before = max((last for last in LAST_FILES.values() if last < LAST_FILES[split]), default=0)
        with zipfile.ZipFile(self.path("trees")) as archive:
            for name in sorted(archive.namelist()):
                file = re.search(r"combined/wsj_(\d{4})\.mrg$", name)
                if file and before < int(file[1]) <= LAST_FILES[split]:
                    yield from archive.read(name).decode("ascii").splitlines()


@dataclass(frozen=True)
class FolderText:
    """A custom folder of text."""

    source: Path
    cache: Path | None  # the data folder, which caches hashes

    level = "any"

    def origin(self, split: str) -> str:
        """Return a split's file, for messages."""
        return str(self.path(split))

    def hashes(self) -> Mapping[str, str]:
        """Return the hash of every file, from the cache if a file has not changed."""
        return {split: cached_sha256(self.path(split), self.cache) for split in SPLITS}

    def path(self, split: str) -> Path:
        """Return a split's file; an error names what the folder lacks."""
        path = self.source / f"{split}.txt"
        if not path.is_file():
            raise CorpusError(
                f"there is no {path}. A folder of text needs train.txt, valid.txt and test.txt."
            )
        return path

    def lines(self, split: str) -> Iterator[str]:
        """Return a split's lines."""
        return lines_of(self.path(split))

    def raw(self, split: str) -> Iterator[bytes]:
        """Return a split's bytes."""
        return bytes_of_lines(self.path(split))


def sha256(path: Path) -> str:
    """Return the file's hash in hexadecimal."""
    try:
        return files.sha256(path)
    except OSError as error:
        raise CorpusError(f"cannot read {path}: {error.strerror or error}.") from error


def cached_sha256(path: Path, folder: Path | None) -> str:
    """Return the file's hash, from a cache if its size, times and inode have not changed.

    A file that changed less than two seconds before it was hashed could change again with the same
    stamp, so its hash is not cached (git treats its index in the same way).
    """
    if folder is None:
        return sha256(path)
    key = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]  # a path is no name of a file
    cache = folder / "encoded" / "hashes" / f"{key}.json"
    stamp = files.stamp(path)
    with suppress(OSError, ValueError, KeyError, TypeError):  # no cache, or a damaged one
        cached = json.loads(cache.read_bytes())
        if cached["stamp"] == stamp:
            return cached["sha256"]
    digest = sha256(path)
    if files.stamp(path) == stamp and time.time_ns() - max(stamp[1:3]) > FRESH_NS:
        replace_if_possible(cache, json.dumps({"stamp": stamp, "sha256": digest}))
    return digest


def without_cache(text: T) -> T:
    """Return a text, or a text of pairs, that hashes its files each time, and reads no cache."""
    own: Any = text  # a published or a built-in text has its hashes pinned
    return replace(own, cache=None) if hasattr(text, "cache") else text


def changed(name: str) -> CorpusError:
    """Return the error for a text whose hash is no longer the recorded hash."""
    return CorpusError(
        f"the text of {name} changed while it was read, or its disk has changed it and kept its "
        "times. Try again. If the error remains, restore the text, or touch its files to use it as "
        "it now is."
    )


def replace_if_possible(path: Path, text: str) -> None:
    """Write a file that only saves time: completely, or not at all on a read-only disk."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.partial_file(path) as file:
            file.write(text.encode())
            file.flush()
            os.replace(file.name, path)


@contextmanager
def writing(what: str) -> Iterator[None]:
    """Turn errors of writing `what` into ours."""
    try:
        yield
    except OSError as error:
        raise CorpusError(
            f"cannot write {what}: {error.strerror or error}. Free some space, or use a workspace "
            "on a writable disk."
        ) from error


def lines_of(path: Path) -> Iterator[str]:
    """Read a text file line by line."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            yield from file
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path} is not UTF-8 text: {error.reason}. Save it as UTF-8.") from error
    except OSError as error:
        raise CorpusError(f"cannot read {path}: {error.strerror or error}.") from error


def bytes_of_lines(path: Path) -> Iterator[bytes]:
    """Read a file as it is, cut after each line end."""
    try:
        with open(path, "rb") as file:
            yield from file
    except OSError as error:
        raise CorpusError(f"cannot read {path}: {error.strerror or error}.") from error
