"""The sentences of corpora of pairs: their files, their hashes, and what can be wrong with them.

pairs        built in: the grammar's sentences and a translation of each (`grammar/translation.py`)
multi30k     published: English, German, French
ag_news      published: descriptions of news and their titles (`headlines.py`)
folder:PATH  a folder with train.src, train.tgt, valid.src, ...; with `source` and `target` given,
             these are the endings instead (train.de, train.en, ...)

Nothing here uses the network.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ablate.errors import CorpusError, unknown
from ablate.lm.data.published import PUBLISHED, PUBLISHED_PAIRS, SPLITS
from ablate.lm.data.texts import (
    GRAMMAR,
    GRAMMAR_TREES,
    PAIRS,
    PublishedText,
    cached_sha256,
    custom_folder,
)
from ablate.lm.sections import PairsConfig

SOURCE, TARGET = "src", "tgt"  # endings of a user's files
Sides = tuple[list[str], list[str]]  # source sentences, and their targets


class PairText(Protocol):
    """The sentences of a corpus of pairs."""

    def hashes(self) -> Mapping[str, str]:
        """Return hashes that identify the sentences, by split and side."""
        ...

    def pairs(self, split: str) -> Sides:
        """Return the split's sentences, after checking their files."""
        ...


def names() -> list[str]:
    """List the corpora of pairs that have a name."""
    return [PAIRS, *PUBLISHED_PAIRS]


def find_pairs(config: PairsConfig, folder: Path | None) -> PairText:
    """Return the sentences that the config names; `folder` stores corpora and encodings."""
    if config.name == PAIRS:
        _languages(config, (SOURCE, TARGET), (SOURCE, TARGET), one_way=True)
        return GrammarPairs()
    if config.name in PUBLISHED_PAIRS:
        corpus = PUBLISHED_PAIRS[config.name]
        one_way = corpus.name == "ag_news"
        sides = _languages(config, corpus.languages, corpus.languages[:2], one_way)
        text = PublishedText(corpus, folder or Path())
        return PublishedHeadlines(text) if one_way else PublishedPairs(text, *sides)
    if config.name in (GRAMMAR, GRAMMAR_TREES, *PUBLISHED):
        raise CorpusError(
            f"corpus.name: '{config.name}' is a text, and this task reads pairs of sentences. "
            f"Expected one of: {', '.join([*names(), 'folder:PATH'])}."
        )
    source = custom_folder(config.name)
    if source is None:
        raise CorpusError(unknown("corpus", config.name, [*names(), "folder:PATH"], "corpus.name"))
    sides = _sides(config, (SOURCE, TARGET))
    return FolderPairs(source, *sides, folder)


def _sides(config: PairsConfig, default: tuple[str, ...]) -> tuple[str, str]:
    """The source and target languages; one that the config leaves out is the other language of the
    default pair."""
    source, target = config.source, config.target
    source = source or next(name for name in default if name != target)
    target = target or next(name for name in reversed(default) if name != source)
    if source == target:
        raise CorpusError(f"corpus.source and corpus.target are both '{source}'. They must differ.")
    return source, target


def _languages(
    config: PairsConfig, known: tuple[str, ...], default: tuple[str, ...], one_way: bool
) -> tuple[str, str]:
    sides = _sides(config, default)
    for name, value in zip(("source", "target"), sides, strict=True):
        if value not in known:
            raise CorpusError(unknown("language", value, [*known], f"corpus.{name}"))
    if one_way and sides != default:
        raise CorpusError(
            f"the corpus {config.name} has one direction: from '{default[0]}' to '{default[1]}'."
        )
    return sides


@dataclass(frozen=True)
class GrammarPairs:
    """The built-in corpus, generated once and checked against its digest."""

    def hashes(self) -> Mapping[str, str]:
        """Return the pinned hash of the built-in pairs."""
        from ablate.lm.data.grammar import translation

        return {PAIRS: translation.DIGEST}

    def pairs(self, split: str) -> Sides:
        """Return both sides of a split, generated."""
        from ablate.lm.data.grammar import translation

        return translation.generate()[split]


@dataclass(frozen=True)
class PublishedPairs:
    """Two languages of a published corpus with a compressed file for each split and language."""

    text: PublishedText
    source: str
    target: str

    def hashes(self) -> Mapping[str, str]:
        """Return the pinned hashes of the files for this direction."""
        # By side and not by language: the same two files the other way round are other pairs.
        pinned, sides = self.text.corpus.sha256, enumerate((self.source, self.target))
        return {f"{split}.{i}": pinned[f"{split}.{side}"] for i, side in sides for split in SPLITS}

    def pairs(self, split: str) -> Sides:
        """Return both sides of a split, from files whose hashes are checked."""
        parts = [f"{split}.{side}" for side in (self.source, self.target)]
        for part in parts:
            self.text.check(part)
        return _matched(*(self.text.path(part) for part in parts))


@dataclass(frozen=True)
class PublishedHeadlines:
    """The titles of AG's news."""

    text: PublishedText

    def hashes(self) -> Mapping[str, str]:
        """Return the pinned hashes, and the version of the cleaning."""
        from ablate.lm.data import headlines

        return {**self.text.corpus.sha256, "cleaning": str(headlines.VERSION)}

    def pairs(self, split: str) -> Sides:
        """Return the texts and headlines of a split, cleaned."""
        from ablate.lm.data import headlines

        for part in self.text.corpus.files:
            self.text.check(part)
        return headlines.pairs(_text(self.text.path("news")), split)


@dataclass(frozen=True)
class FolderPairs:
    """A folder of the user's."""

    folder: Path
    source: str
    target: str
    cache: Path | None  # the data folder, which caches hashes

    def hashes(self) -> Mapping[str, str]:
        """Return the hash of every file, from the cache if a file has not changed."""
        sides = enumerate((self.source, self.target))
        return {
            f"{split}.{i}": cached_sha256(self.path(split, side), self.cache)
            for i, side in sides
            for split in SPLITS
        }

    def path(self, split: str, side: str) -> Path:
        """Return the file of one side of a split; an error names what the folder lacks."""
        path = self.folder / f"{split}.{side}"
        if not path.is_file():
            ends = self.source, self.target
            needed = ", ".join(f"{name}.{end}" for name in SPLITS for end in ends)
            raise CorpusError(
                f"there is no {path}. This folder of pairs needs {needed}; corpus.source and "
                "corpus.target set other endings."
            )
        return path

    def pairs(self, split: str) -> Sides:
        """Return both sides of a split, line by line."""
        return _matched(self.path(split, self.source), self.path(split, self.target))


def _matched(source: Path, target: Path) -> Sides:
    """Read two files whose lines of the same number belong together."""
    sides = _sentences(source), _sentences(target)
    num_lines = [len(side) for side in sides]
    if num_lines[0] != num_lines[1]:
        (longer, most), (shorter, fewest) = sorted(
            zip((source, target), num_lines, strict=True), key=lambda file: -file[1]
        )
        raise CorpusError(
            f"{longer}, line {fewest + 1} has no counterpart in {shorter}, which ends "
            f"after line {fewest}; this file has {most}. Each line must be the translation of "
            "the same line of the other file."
        )
    if not num_lines[0]:
        raise CorpusError(f"{source} is empty. A split needs at least one pair of sentences.")
    return sides


def _sentences(path: Path) -> list[str]:
    """The lines of a file, none of them empty, with single spaces."""
    # Not splitlines(), which also splits at characters that occur inside of sentences.
    lines = _text(path).split("\n")
    if not lines[-1]:
        lines.pop()  # what follows the last line's end
    sentences = [" ".join(line.split()) for line in lines]
    if "" in sentences:
        raise CorpusError(
            f"{path}, line {sentences.index('') + 1}: it is empty. Every line needs a sentence: "
            "leave the pair out of both files."
        )
    return sentences


def _text(path: Path) -> str:
    """Read a file, which may be compressed."""
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        return data.decode("utf-8-sig")  # some editors begin a file with a mark
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CorpusError(
            f"{path}, line {line}: it is not UTF-8 text ({error.reason}). Save the file as UTF-8."
        ) from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CorpusError(f"{path} is not a sound gzip file: {error}.") from error
    except OSError as error:
        raise CorpusError(f"cannot read {path}: {error.strerror or error}.") from error
