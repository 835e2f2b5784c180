"""Data that are encoded once into the data folder, which all workers of a host map into memory."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from ablate.data import encoded
from ablate.data.kinds import C, DataSource, Travels
from ablate.data.texts import changed, without_cache

log = logging.getLogger("ablate.data")


class Hashed(Protocol):
    """A text, or one of pairs, that is identified by its hashes."""

    def hashes(self) -> Mapping[str, str]:
        """Return hashes that identify the text."""
        ...


T = TypeVar("T", bound=Hashed)


class EncodedSource(DataSource[C], Generic[C, T]):
    """What finds a text, and encodes it unless that was done before."""

    @abstractmethod
    def text(self) -> T:
        """Return the text that the section names."""

    @abstractmethod
    def key(self, text: T) -> str:
        """Return the digest of a text's encoding: of its hashes and of `options`."""

    @abstractmethod
    def options(self) -> Mapping[str, Any]:
        """Return how the text is tokenized, as the encoding's facts have it."""

    @abstractmethod
    def asked(self) -> tuple:
        """Return the settings that select an encoding, its text's name among them."""

    @abstractmethod
    def columns(self, text: T) -> encoded.Columns:
        """Encode a text."""

    def encoded(self) -> encoded.Encoded:
        """Open the encoding, making it first if it is missing or damaged."""
        folder = self.folder or Path()
        key = encoded.key_from_driver(self.asked(), folder) or self.key(self.text())

        def make(damage: str) -> encoded.Columns:
            if damage:
                log.warning("the encoded corpus %s is damaged (%s): encoding it again", key, damage)
            return self._made(key)

        return encoded.read_or_make(folder / "encoded" / key, make)

    def _made(self, key: str) -> encoded.Columns:
        text = without_cache(self.text())
        columns = self.columns(text)
        if self.key(text) != key:  # hashed again, as the text may have changed while it was read
            raise changed(self.config.name)
        facts = {"key": key, "sources": dict(text.hashes()), "options": self.options()}
        return replace(columns, facts={**facts, **columns.facts})

    def travels(self) -> Travels:
        """Return the encoding, and the files beside it: workers need no text."""
        folder = self.encoded().folder
        return Travels(folder.name, self.asked(), folder, self.files())
