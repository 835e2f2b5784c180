"""Kinds of data: what ablate asks of the data that trials read, whatever they are.

    source_of(config.data, folder).open(seed)

The `corpus` section of a config is a `DataConfig`, and names the `DataSource` that reads what the
section describes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from ablate.config.fields import setting


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The section that says which data trials read, and how.

    A subclass sets `reader` to the `DataSource` that reads the data, and may declare more settings.

    Attributes:
        name: Which data: `"corpus.name"` in a study.
    """

    # Or its name, `module:Class`, to be imported on first use.
    reader: ClassVar[Any]

    name: str = setting("", doc="which data")


C = TypeVar("C", bound=DataConfig)
FROM_DRIVER = "from_driver.json"  # marks a folder with one corpus, encoded on another host


class Damaged(Exception):
    """An encoding differs from what was written."""


class DataSource(ABC, Generic[C]):
    """Reads one kind of data, as the section `corpus` of a config describes the data.

    A subclass has a `digest` and opens the data; the other methods help `ablate plan` and workers.

    Args:
        config: The section.
        folder: Where data and caches are kept, if there is such a folder.
    """

    # `module:function`, which copies the encoding to another host, and checks it there: it gets the
    # folder to fill, and a function that reads a file by its name.
    copied_by: ClassVar[str] = ""

    def __init__(self, config: C, folder: str | Path | None = None) -> None:
        self.config = config
        self.folder = None if folder is None else Path(folder)

    @abstractmethod
    def digest(self) -> str:
        """Return a digest of what trials read: of its contents and every option, never of a path.

        It is part of trials' ids. Only a random slice may follow from the trial's seed instead.
        """

    def digest_per_byte(self) -> str:
        """Return the digest for a study in which bits per byte decide."""
        return self.digest()

    @abstractmethod
    def open(self, seed: int = 0) -> Any:
        """Return the data as the trials of this seed read them.

        The driver opens them once before any trial does, so this may fetch what is missing.
        """

    def sizes(self) -> Mapping[str, int]:
        """Count what a trial reads of each split, such as tokens, for `ablate plan`."""
        return {}

    def vocabulary(self) -> tuple[int, int]:
        """Return the numbers of words to predict, and to read if these are others; 0: none."""
        return 0, 0

    def sentence(self) -> int:
        """Return the mean number of tokens to predict in a sentence; 0: there are no sentences."""
        return 0

    def unseen(self) -> Mapping[str, float]:
        """Return the share of each split's words that training never has, if that is known."""
        return {}

    def to_fetch(self) -> str:
        """Say what is missing here, and how to get it; empty if trials could begin."""
        return ""

    def files(self) -> Sequence[Path]:
        """Return the files in the data folder that workers on other hosts need."""
        return ()

    def encoding(self) -> Path | None:
        """Return the folder of an encoding, if there is one."""
        return None

    def encoded_files(self) -> Sequence[Path]:
        """Return the files of the encoding; the last one is there only if all others are."""
        return ()

    def asked(self) -> tuple:
        """Return the settings that select the encoding, for a host that lacks the text."""
        return ()


def source_of(config: C, folder: str | Path | None = None) -> DataSource[C]:
    """Return what reads the data that a section describes; `folder` stores data and encodings."""
    reader: Any = config.reader
    return (named(reader) if isinstance(reader, str) else reader)(config, folder)


def named(place: str) -> Any:
    """Return what `module:name` names, imported now."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def described(source: DataSource) -> str:
    """Return what a text has: its tokens, its words, and how many of them are new after train."""
    tokens = ", ".join(f"{number:,} {split}" for split, number in source.sizes().items())
    unseen = ", ".join(f"{share:.1%} of {split}" for split, share in source.unseen().items())
    new = f"; unknown from training: {unseen}" if unseen else ""
    return f"{tokens} tokens, {source.vocabulary()[0]:,} words{new}"
