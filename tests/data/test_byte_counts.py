"""The bytes that bits per byte divide by are those of the files, at every level."""

from __future__ import annotations

import dataclasses
import math

import pytest

from ablate.config.sections import CorpusConfig
from ablate.data.byte_counts import bits_per_byte, bytes_of_tokens
from ablate.data.corpus import Texts, open_corpus
from ablate.data.published import SPLITS

LEVELS = ("word", "character", "byte", "bpe")


def test_the_formula():
    """8 equally likely tokens of 3 bits, two for every three bytes: 2 bits a byte."""
    assert bits_per_byte(math.log(8), 20, 30) == pytest.approx(2)


@pytest.mark.parametrize("level", LEVELS)
def test_bytes_are_those_of_the_file_at_every_level(level, own, tmp_path):
    """Also spaces at the ends of lines, which tokens of words and letters do not stand for."""
    (own / "test.txt").write_bytes("  Käse \t the\n\n\nthe end of  it".encode())
    corpus = open_corpus(CorpusConfig(name=str(own), level=level, merges=50), tmp_path)
    sizes = {split: (own / f"{split}.txt").stat().st_size for split in SPLITS}
    assert dict(corpus.num_bytes) == sizes
    bits = corpus.bits_per_byte(2.0, "test")
    assert bits == bits_per_byte(2.0, len(corpus.splits["test"]), sizes["test"])


@pytest.mark.parametrize("level", LEVELS)
def test_tokens_stand_for_exactly_the_bytes_that_are_counted(level, own, tmp_path):
    """Of a text with single spaces, at every level; and of every slice of it."""
    for split in SPLITS:
        lines = (own / f"{split}.txt").read_text("utf-8").splitlines()
        single = "".join(f"{' '.join(line.split())}\n" for line in lines)
        (own / f"{split}.txt").write_text(single, encoding="utf-8")
    config = CorpusConfig(name=str(own), level=level, merges=50)
    corpus = open_corpus(config, tmp_path)
    words = corpus.vocabulary, level
    for split in SPLITS:
        tokens, text = corpus.splits[split], (own / f"{split}.txt").read_bytes()
        assert bytes_of_tokens(tokens, *words) == len(text) == corpus.num_bytes[split]
        if level in ("byte", "bpe"):
            assert corpus.restored(tokens) == text
        assert corpus.text(tokens).encode() == text
    for number in (100, 101, 117):
        part = open_corpus(dataclasses.replace(config, eval_tokens=number), tmp_path)
        tokens = part.splits["valid"]
        restored = corpus.text(tokens).encode()
        follows = level == "word" and tokens[-1] != corpus.eos  # the space after the last word
        assert part.num_bytes["valid"] == len(restored) + follows


@pytest.mark.parametrize("changed", [{"lowercase": True}, {"min_count": 2}])
def test_a_text_that_was_changed_has_none(changed, own, tmp_path):
    corpus = open_corpus(CorpusConfig(name=str(own), eval_tokens=100, **changed), tmp_path)
    assert dict(corpus.num_bytes) == {} and corpus.bits_per_byte(1.0, "valid") is None


def test_the_built_in_text_is_as_long_as_its_lines(tmp_path):
    corpus = open_corpus(CorpusConfig(), tmp_path)
    written = {s: bytes_of_tokens(t, corpus.vocabulary, "word") for s, t in corpus.splits.items()}
    assert dict(corpus.num_bytes) == written


def test_encodings_of_earlier_versions_take_the_bytes_from_the_text(own, tmp_path, monkeypatch):
    plain = Texts.columns_of

    def earlier(self, tokens, facts=None, **beside):
        return plain(self, tokens, {}, **beside)

    monkeypatch.setattr(Texts, "columns_of", earlier)
    config = CorpusConfig(name=str(own))
    corpus = open_corpus(config, tmp_path)
    assert corpus.num_bytes["test"] == (own / "test.txt").stat().st_size
    # A worker's host may have such an encoding, and no text.
    monkeypatch.setattr("ablate.data.encoded.key_from_driver", lambda *_: corpus.encoding.name)
    for split in SPLITS:
        (own / f"{split}.txt").unlink()
    assert open_corpus(config, tmp_path).bits_per_byte(1.0, "test") is None
