"""Bytes and byte pairs restore every text, and merges are those of a plain loop."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from ablate.errors import MissingDependency
from ablate.lm.data import from_bytes
from ablate.lm.data.corpus import corpus_digest, open_corpus
from ablate.lm.data.from_bytes import LETTERS, bytes_of, encode_byte_pairs, encode_bytes, tokens_of
from ablate.lm.data.published import SPLITS
from ablate.lm.sections import CorpusConfig
from ablate.store.store import Store
from ablate.trial.travel import receive, send

HARD = {
    "train": "the cat  sat\n\n\tthe\r\ncat <eos> naïve \x00 \u2028 æ 東京 🙂\nthe cat sat \n",
    "valid": " Käse\u3000 ß the cat<eos>\n\n\n<unk> no end",
    "test": "\n\nÿ",
}
# GPT-2's rule, for text in ASCII without an apostrophe.
PIECES = re.compile(r" ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+")


def lines_of(texts):
    return {s: lambda text=text: text.encode().splitlines(True) for s, text in texts.items()}


def restored(encoded, split):
    return b"".join(bytes_of(encoded.vocabulary[token]) for token in encoded.splits[split])


def ascii_text(seed: int, num: int) -> str:
    rng = random.Random(seed)
    words = ["low", "lower", "newest", "widest", "in", "the", "x1", "22", "(a)", "end.", "  ", "_"]
    return "".join(f"{' '.join(rng.choices(words, k=6))}\n" for _ in range(num))


def plain_merges(text: str, num: int) -> list[tuple[str, str]]:
    """Sennrich's loop: the most frequent pair of symbols becomes a symbol, again and again.

    Of equally frequent pairs, the one whose symbols are older comes first.
    """
    pieces = Counter(p for line in text.splitlines() for p in PIECES.findall(line))
    words = {tuple(LETTERS[b] for b in piece.encode()): n for piece, n in pieces.items()}
    ages = {letter: age for age, letter in enumerate(sorted(LETTERS))}
    merges = []
    while len(merges) < num:
        counts = Counter()
        for word, n in words.items():
            for pair in pairwise(word):
                counts[pair] += n
        pair = min(counts, key=lambda p: (-counts[p], ages[p[0]], ages[p[1]]), default=None)
        if pair is None or counts[pair] < 2:
            break
        merges.append(pair)
        ages.setdefault("".join(pair), len(ages))
        words = {merged(word, pair): n for word, n in words.items()}
    return merges


def merged(word, pair):
    made = []
    for symbol in word:
        made.append(symbol)
        if tuple(made[-2:]) == pair:
            made[-2:] = ["".join(pair)]
    return tuple(made)


@pytest.mark.parametrize("encode", [encode_bytes, lambda raw: encode_byte_pairs(raw, 40)[0]])
def test_tokens_restore_every_byte_of_a_text(encode):
    found = encode(lines_of(HARD))
    assert found.vocabulary[:256] == from_bytes.BYTE_TOKENS and len(set(LETTERS)) == 256
    for split, text in HARD.items():
        assert restored(found, split) == text.encode()
        assert found.splits[split].dtype == np.int32
        assert (found.splits[split] == 10).sum() == text.count("\n"), "one token ends a line"


@pytest.mark.parametrize("num", [12, 500])
def test_merges_and_tokens_are_those_of_a_plain_loop(num):
    texts = {"train": ascii_text(0, 60), "valid": ascii_text(1, 20)}
    found, merges = encode_byte_pairs(lines_of(texts), num)
    expected = plain_merges(texts["train"], num)
    assert [tuple(merge.split(" ")) for merge in merges] == expected
    assert len(expected) == 12 if num == 12 else 12 < len(expected) < 200, "few pairs repeat"
    words = []
    for line in texts["valid"].splitlines():
        for piece in PIECES.findall(line):
            symbols = tuple(LETTERS[byte] for byte in piece.encode())
            for pair in expected:
                symbols = merged(symbols, pair)
            words += symbols
        words.append("<eos>")
    assert [found.vocabulary[token] for token in found.splits["valid"]] == words


def test_a_text_beside_the_corpus_has_the_corpus_s_tokens():
    texts = {"train": ascii_text(0, 60), "valid": ascii_text(1, 20)}
    found, merges = encode_byte_pairs(lines_of(texts), 50)
    assert tokens_of(texts["valid"], found.vocabulary, merges) == found.splits["valid"].tolist()
    assert tokens_of("é\n", found.vocabulary, []) == [0xC3, 0xA9, 10]


def test_only_the_training_text_is_learned_from():
    one = {"train": ascii_text(0, 30), "valid": ascii_text(1, 30)}
    other = {**one, "valid": "zebra zebra zebra zebra\n" * 50}
    (first, merges), (second, again) = (encode_byte_pairs(lines_of(t), 60) for t in (one, other))
    assert first.vocabulary == second.vocabulary and merges == again


LEARN = """
import sys
from ablate.lm.data.corpus import corpus_digest
from ablate.lm.sections import CorpusConfig
print(corpus_digest(CorpusConfig(name=sys.argv[1], level="bpe", merges=90), sys.argv[2]))
"""


def test_learning_is_the_same_in_every_process(tmp_path, own, monkeypatch):
    config = CorpusConfig(name=str(own), level="bpe", merges=90)
    here = [corpus_digest(config, tmp_path / name) for name in ("first", "second")]
    for seed, threads in enumerate(("1", "4")):
        monkeypatch.setenv("RAYON_NUM_THREADS", threads)
        monkeypatch.setenv("PYTHONHASHSEED", str(seed))
        command = [sys.executable, "-c", LEARN, str(own), str(tmp_path / threads)]
        here.append(subprocess.check_output(command, text=True).strip())
    assert len(set(here)) == 1


def test_the_digest_is_of_what_was_learned(tmp_path, own, monkeypatch):
    def digest(merges, folder):
        config = CorpusConfig(name=str(own), level="bpe", merges=merges)
        return corpus_digest(config, tmp_path / folder)

    learned = digest(20, "a")
    assert digest(21, "a") != learned
    plain = from_bytes.encode_byte_pairs
    monkeypatch.setattr(from_bytes, "encode_byte_pairs", lambda raw, num: plain(raw, num - 1))
    assert digest(20, "b") != learned, "as of another version of the package"


@pytest.mark.parametrize("level", ["byte", "bpe"])
def test_an_encoded_text_needs_no_package(level, tmp_path, own, monkeypatch):
    config = CorpusConfig(name=str(own), level=level, merges=50)
    expected = open_corpus(config, tmp_path)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    opened = open_corpus(config, tmp_path)
    assert opened.digest == expected.digest and opened.eos == 10
    for split in SPLITS:
        assert opened.restored(opened.splits[split]) == (own / f"{split}.txt").read_bytes()
    assert opened.text(opened.splits["test"]) == (own / "test.txt").read_text("utf-8")


def test_without_the_package_the_error_names_the_extra(tmp_path, own, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingDependency, match=r"tokenizers.*pip install .*\[lm\]"):
        open_corpus(CorpusConfig(name=str(own), level="bpe"), tmp_path)


def test_encoded_texts_travel_each_to_a_folder_of_its_own(tmp_path, own, monkeypatch):
    """As to a worker of a study whose arms read different tokens; it has no text and no package."""
    store = Store(str(tmp_path / "store"))
    here, there = str(tmp_path / "here"), tmp_path / "there"
    configs = [CorpusConfig(name=str(own), level=level, merges=30) for level in ("bpe", "byte")]
    sent = [(open_corpus(config, here), send(config, here, store)) for config in configs]
    monkeypatch.setenv("ABLATE_WORKSPACE", str(there))
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    for split in SPLITS:
        (own / f"{split}.txt").unlink()
    for config, (expected, parcel) in zip(configs, sent, strict=True):
        opened = open_corpus(config, receive(parcel, store))
        assert opened.encoding.is_relative_to(there) and opened.digest == expected.digest
        assert opened.num_bytes == expected.num_bytes
        assert all(np.array_equal(opened.splits[s], expected.splits[s]) for s in SPLITS)
