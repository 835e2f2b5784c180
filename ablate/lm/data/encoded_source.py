"""Data that are encoded once into the data folder, which all workers of a host map into memory."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ablate.config.data_source import C, DataSource
from ablate.lm.data import encoded
from ablate.lm.data.texts import changed, published_files, without_cache

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger("ablate.lm.data")


@dataclass(frozen=True, eq=False, kw_only=True)
class EncodedCorpus:
    """A text, or pairs of sentences, as models read them: token ids, and facts about them."""

    name: str
    digest: str
    num_words: int  # size of the vocabulary to predict
    num_source_words: int = 0  # of what is read, if that is another text
    eos: int  # id of `<eos>`
    splits: Mapping[str, np.ndarray]  # the tokens to predict (read-only, mapped)
    _encoded: encoded.Encoded = field(repr=False)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The words to predict, by id."""
        return self._encoded.vocabulary

    @property
    def floor(self) -> Mapping[str, float]:
        """The lowest possible mean nats per token, by split, if it is known."""
        return {}

    @property
    def encoding(self) -> Path:
        """The folder of the encoded files."""
        return self._encoded.folder

    def counts(self) -> Tensor:
        """Count each word in the training text, [V]."""
        import torch

        return torch.from_numpy(np.bincount(self.splits["train"], minlength=self.num_words))


class EncodedSource(DataSource[C]):
    """Finds a text, and encodes the text unless an encoding is there."""

    copied_by = "ablate.lm.data.encoded:copy_into"
    makes: type[EncodedCorpus]

    @abstractmethod
    def text(self) -> Any:
        """Return the text that the section names; its `hashes` identify it."""

    @abstractmethod
    def key(self, text: Any) -> str:
        """Return the digest of a text's encoding: of its hashes and of `options`."""

    @abstractmethod
    def options(self) -> Mapping[str, Any]:
        """Return how the text is tokenized, as the encoding's facts have it."""

    @abstractmethod
    def columns(self, text: Any) -> encoded.Columns:
        """Encode a text."""

    @abstractmethod
    def facts(self, files: encoded.Encoded, seed: int) -> dict[str, Any]:
        """Return the fields of `makes` that not every encoded corpus has."""

    def digest(self) -> str:
        """Return the digest of the encoding, or of slices of it."""
        return self.digest_of(self.key(self.text()))

    def digest_of(self, key: str) -> str:
        """Return the digest of what the section takes of an encoding: here, the whole."""
        return key

    def open(self, seed: int = 0) -> Any:
        """Map the tokens into memory, encoding the text first if that is necessary."""
        files = self.encoded()
        return self.makes(
            name=self.config.name,
            digest=self.digest_of(files.folder.name),
            num_words=files.facts["num_words"],
            _encoded=files,
            **self.facts(files, seed),
        )

    def vocabulary(self) -> tuple[int, int]:
        """Return the numbers of words to predict and to read."""
        opened = self.open()
        return opened.num_words, opened.num_source_words

    def sizes(self) -> dict[str, int]:
        """Count the tokens to predict."""
        return {split: len(tokens) for split, tokens in self.open().splits.items()}

    def encoded(self) -> encoded.Encoded:
        """Open the encoding, making it first if it is missing or damaged."""
        folder = self.folder or Path()
        # A worker's host may lack the text, and its driver has sent the encoding.
        key = encoded.key_from_driver(self.asked(), folder) or self.key(self.text())

        def make(damage: str) -> encoded.Columns:
            if damage:
                log.warning("the encoded corpus %s is damaged (%s): encoding it again", key, damage)
            return self._made(key)

        return encoded.read_or_make(folder / "encoded" / key, make)

    def _made(self, key: str) -> encoded.Columns:
        # Hashed again, without the cache: a disk may have changed the text and kept its times.
        text = without_cache(self.text())
        columns = self.columns(text)
        if self.key(text) != key:  # or the text has changed while it was read
            raise changed(self.config.name)
        facts = {"key": key, "sources": dict(text.hashes()), "options": self.options()}
        return replace(columns, facts={**facts, **columns.facts})

    def encoding(self) -> Path:
        """Return the encoding's folder, which is named after its key: workers need no text."""
        return self.encoded().folder

    def to_fetch(self) -> str:
        """Say which published corpus is missing here, and how to get it.

        What is known of it without its text is enough for a plan, and not for a trial.
        """
        folder = self.folder or Path()
        files = published_files(self.config.name, folder)
        if files is None or all(files.path(part).is_file() for part in files.corpus.files):
            return ""
        if (folder / "encoded" / self.key(self.text()) / encoded.SEAL).is_file():
            return ""  # whoever deleted the text has its tokens
        return f"the corpus {self.config.name} is not fetched yet: {files.remedy}"

    def encoded_files(self) -> list[Path]:
        """Return the files of the encoding; the seal comes last."""
        folder = self.encoding()
        return [folder / name for name in encoded.FILES if (folder / name).exists()]
