"""The bytes that bits per byte divide by are those of the files, at every level."""

from __future__ import annotations

import dataclasses
import math

import pytest

from ablate.lm.data.byte_counts import bits_per_byte, bytes_of_tokens
from ablate.lm.data.corpus import Texts, open_corpus
from ablate.lm.data.published import SPLITS
from ablate.lm.sections import CorpusConfig

LEVELS = ("word", "character", "byte", "bpe")


@pytest.mark.parametrize("level", LEVELS)
def test_bytes_are_those_of_the_file_at_every_level(level, own, tmp_path):
    """Also spaces at the ends of lines, which tokens of words and letters do not stand for."""
    (own / "test.txt").write_bytes("  Käse \t the\n\n\nthe end of  it".encode())
    corpus = open_corpus(CorpusConfig(name=str(own), level=level, merges=50), tmp_path)
    sizes = {split: (own / f"{split}.txt").stat().st_size for split in SPLITS}
    assert dict(corpus.num_bytes) == sizes
    bits = corpus.bits_per_byte(2.0, "test")
    known = len(corpus.splits["test"]), sizes["test"]
    assert bits == bits_per_byte(2.0, *known, corpus.spelled["test"])


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


UNKNOWN = {  # of "le chien a vu Käse \n Käse" after "le chat a vu le chien": bytes and ends
    "word": 2 * (len("Käse".encode()) + 1),
    "character": 2 * (len("K") + len("ä".encode()) + len("s") + 3),
    "byte": 0,
    "bpe": 0,
}


@pytest.mark.parametrize("level", LEVELS)
def test_what_the_training_text_lacks_pays_for_its_bytes(level, tmp_path):
    """On top of its token, in a slice too: also where the text has the word beyond the slice."""
    train = "le chat a vu le chien\n" * 30
    texts = {"train": train, "valid": "le chat\n", "test": "le chien a vu Käse\nKäse\n"}
    for split, text in texts.items():
        (tmp_path / f"{split}.txt").write_text(text, encoding="utf-8")
    config = CorpusConfig(name=str(tmp_path), level=level, merges=5)
    corpus = open_corpus(config, tmp_path / "data")
    assert corpus.spelled == {"train": 0, "valid": 0, "test": UNKNOWN[level]}
    bits = 3 * len(corpus.splits["test"]) + UNKNOWN[level] * math.log2(257)
    found = corpus.bits_per_byte(3 * math.log(2), "test")
    assert found == pytest.approx(bits / len(texts["test"].encode()))
    (tmp_path / "train.txt").write_text(f"{train}Käse\n", encoding="utf-8")
    whole, part = (dataclasses.replace(config, train_tokens=n) for n in (None, 120))
    assert not any(open_corpus(whole, tmp_path / "data").spelled.values())
    assert open_corpus(part, tmp_path / "data").spelled["test"] == UNKNOWN[level]


@pytest.mark.parametrize(("level", "is_other"), [("word", True), ("byte", False)])
def test_only_where_a_spelled_word_decides_does_a_digest_change(level, is_other, own, tmp_path):
    (own / "test.txt").write_text("unheard\n")
    source = Texts(CorpusConfig(name=str(own), level=level), tmp_path)
    assert (source.digest_per_byte() != source.digest()) == is_other
    built_in = Texts(CorpusConfig(), tmp_path)  # whose words all occur in training
    assert built_in.digest_per_byte() == built_in.digest()


@pytest.mark.parametrize("changed", [{"lowercase": True}, {"min_count": 2}])
def test_a_text_that_was_changed_has_none(changed, own, tmp_path):
    corpus = open_corpus(CorpusConfig(name=str(own), eval_tokens=100, **changed), tmp_path)
    assert dict(corpus.num_bytes) == {} and corpus.bits_per_byte(1.0, "valid") is None


def test_encodings_of_earlier_versions_take_the_bytes_from_the_text(own, tmp_path, monkeypatch):
    plain = Texts.columns_of

    def earlier(self, tokens, facts=None, **beside):
        return plain(self, tokens, {}, **beside)

    monkeypatch.setattr(Texts, "columns_of", earlier)
    config = CorpusConfig(name=str(own))
    corpus = open_corpus(config, tmp_path)
    assert corpus.num_bytes["test"] == (own / "test.txt").stat().st_size
    # A worker's host may have such an encoding, and no text.
    monkeypatch.setattr("ablate.lm.data.encoded.key_from_driver", lambda *_: corpus.encoding.name)
    for split in SPLITS:
        (own / f"{split}.txt").unlink()
    assert open_corpus(config, tmp_path).bits_per_byte(1.0, "test") is None
