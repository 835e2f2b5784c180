"""Texts of the user's own: one file or many, split in contiguous blocks, and known by a name."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from ablate.config.data_source import described, source_of
from ablate.errors import ConfigError, CorpusError
from ablate.lm.data import own
from ablate.lm.data.corpus import corpus_digest, open_corpus
from ablate.lm.data.published import SPLITS
from ablate.lm.data.sources import verify
from ablate.lm.sections import CorpusConfig

LINES = [f"word{number} is line {number}" for number in range(100)]  # each has four words


@pytest.fixture
def text(tmp_path) -> Path:
    file = tmp_path / "text.txt"
    file.write_text("\n".join(LINES))
    return file


@pytest.fixture
def data(tmp_path) -> Path:
    return tmp_path / "data"


def read(data: Path, name: str = "mine") -> list[list[str]]:
    return [(data / "own" / name / f"{split}.txt").read_text().splitlines() for split in SPLITS]


def test_a_file_is_split_into_contiguous_blocks_of_the_stated_shares(text, data):
    own.add("mine", text, data)
    assert read(data) == [LINES[:90], LINES[90:95], LINES[95:]]
    own.add("other", text, data, (50.0, 30.0, 20.0))
    assert read(data, "other") == [LINES[:50], LINES[50:80], LINES[80:]]


def test_shares_are_of_words_and_no_line_is_cut(tmp_path, data):
    lines = ["a b c d e f g h i j", *["k"] * 10]
    file = tmp_path / "uneven.txt"
    file.write_text("\n".join(lines))
    own.add("mine", file, data, (50.0, 25.0, 25.0))
    assert read(data) == [lines[:1], lines[1:6], lines[6:]]


def test_rows_of_parquet_and_json_lines_are_the_same_text(tmp_path, text, data):
    own.add("mine", text, data)
    parquet.write_table(pa.table({"n": range(100), "text": LINES}), tmp_path / "t.parquet")
    rows = (json.dumps({"id": "x", "body": line}) for line in LINES)
    (tmp_path / "t.jsonl").write_text("\n".join(rows))
    for name, file, field in (("p", "t.parquet", None), ("j", "t.jsonl", "body")):
        own.add(name, tmp_path / file, data, field=field)
        assert read(data, name) == read(data)
        assert corpus_digest(CorpusConfig(name=name), data) == corpus_digest(
            CorpusConfig(name="mine"), data
        )


def test_a_folder_is_read_in_order_or_as_it_is_split(tmp_path, data):
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "b.txt").write_text("\n".join(LINES[40:]))
    (parts / "a.txt").write_text("\n".join(LINES[:40]))
    own.add("mine", parts, data)
    assert read(data) == [LINES[:90], LINES[90:95], LINES[95:]]
    done = tmp_path / "done"
    done.mkdir()
    for split, line in zip(SPLITS, LINES, strict=False):
        (done / f"{split}.jsonl").write_text(json.dumps({"text": line}))
    assert own.add("split", done, data).shares == ()
    assert read(data, "split") == [[line] for line in LINES[:3]]
    with pytest.raises(ConfigError, match="--shares does not apply"):
        own.add("again", done, data, (90.0, 5.0, 5.0))


def folder_of(tmp_path, *names: str) -> Path:
    """A folder of files with one line each: the file's place among `names`."""
    (tmp_path / "given").mkdir()
    for number, name in enumerate(names):
        (tmp_path / "given" / name).write_text(json.dumps({"text": f"line {number}"}))
    return tmp_path / "given"


@pytest.mark.parametrize(
    "names",
    [
        ("train.jsonl", "validation.jsonl", "test.jsonl"),
        ("train.jsonl", "dev.jsonl", "test.jsonl"),
        ("wiki.train.jsonl", "wiki.val.jsonl", "wiki.test.jsonl"),
        ("Train-0000-of-0001.jsonl", "Valid-0000-of-0001.jsonl", "Test-0000-of-0001.jsonl"),
    ],
)
def test_a_split_that_was_given_stays_under_its_usual_names(tmp_path, data, names):
    assert own.add("mine", folder_of(tmp_path, *names), data).shares == ()
    assert read(data) == [["line 0"], ["line 1"], ["line 2"]]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("train.txt", "test.txt"), r"no file after valid\. Expected: .*, dev, val, for every"),
        (("a.txt", "b.txt", "test.txt"), r"test\.txt is named after the split test, and a\.txt"),
        (("train.txt", "dev.txt", "test.txt", "more.txt"), r"and more\.txt after none"),
        (("dev.txt", "train_and_test.txt"), r"train_and_test\.txt after none, or after several"),
    ],
)
def test_given_splits_are_never_mixed_by_shares(tmp_path, data, names, message):
    with pytest.raises(CorpusError, match=message):
        own.add("mine", folder_of(tmp_path, *names), data)


def test_it_is_a_corpus_like_any_other(text, data, monkeypatch, tmp_path):
    own.add("mine", text, data)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()  # a folder of this name does not come in between
    corpus = open_corpus(CorpusConfig(name="mine"), data)
    assert corpus.text(corpus.splits["valid"]) == "\n".join(LINES[90:95]) + "\n"
    assert own.names(data) == ["mine"]


def test_a_plan_says_how_many_words_training_never_has(text, data):
    own.add("mine", text, data)
    source = source_of(CorpusConfig(name="mine"), data)
    # Of each line, `word95` and `95` are new, among five tokens with its end.
    assert source.unseen() == pytest.approx({"valid": 0.4, "test": 0.4})
    assert described(source) == (
        "450 train, 25 valid, 25 test tokens, 203 words; "
        "unknown from training: 40.0% of valid, 40.0% of test"
    )


def test_a_name_is_taken_once(text, data):
    own.add("mine", text, data)
    own.add("mine", text, data)  # the same again
    with pytest.raises(CorpusError, match=r"mine was imported before, from .*text\.txt"):
        own.add("mine", text, data, (80.0, 10.0, 10.0))
    assert read(data)[1] == LINES[90:95] and len(list((data / "own").iterdir())) == 1


def test_a_changed_copy_is_named(text, data):
    own.add("mine", text, data)
    assert len(verify("mine", data)) == 3
    (data / "own" / "mine" / "test.txt").write_text("other\n")
    with pytest.raises(CorpusError, match=r"test\.txt has changed since mine was imported"):
        verify("mine", data)


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("t.txt", "one line", {}, "of 1 lines, the split valid would have none"),
        ("t.txt", "a\nb\nc", {"field": "text"}, "plain text, which has no field"),
        ("t.jsonl", '{"a": "x", "b": "y"}', {}, r"t\.jsonl:1: unknown field of text 'text'"),
        ("t.jsonl", '{"a": "x"}\n[1]', {}, r"t\.jsonl:2: not a JSON object"),
        ("t.jsonl", "{", {}, r"t\.jsonl:1: not a JSON object on one line"),
        ("t.parquet", "no", {}, "cannot read .* as Parquet"),
    ],
)
def test_what_cannot_be_split_or_read_is_named(tmp_path, data, name, content, options, message):
    (tmp_path / name).write_text(content)
    with pytest.raises((ConfigError, CorpusError), match=message):
        own.add("mine", tmp_path / name, data, **options)
    assert list((data / "own").iterdir()) == []


@pytest.mark.parametrize("name", ["ptb", "grammar", "a/b", "..", ""])
def test_a_name_that_means_something_else_is_refused(text, data, name):
    with pytest.raises(ConfigError, match=r"corpus of ablate's|letters, digits"):
        own.add(name, text, data)
