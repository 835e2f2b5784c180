import json
import math
import warnings
from dataclasses import replace

import pytest
import torch

from ablate.config.data_source import source_of
from ablate.errors import CorpusError
from ablate.lm.data.corpus import corpus_digest, open_corpus
from ablate.lm.data.grammar import translation as grammar
from ablate.lm.data.published import SPLITS
from ablate.lm.data.tokenize import sentence_of
from ablate.lm.sections import PairsConfig
from ablate.store.store import Store
from ablate.trial import travel

SOURCES = {
    "train": ["the red cat sleeps.", "a Dog, the cat", "the red dog", "cat cat cat cat cat cat"],
    "valid": ["a red  unicorn", "the cat."],
    "test": ["sleeps the dog."],
}
TARGETS = {
    "train": ["kat rot si schläft.", "ein Hund, si kat", "Hund rot er", "kat"],
    "valid": ["pferd rot", "si kat."],
    "test": ["er Hund schläft."],
}


@pytest.fixture
def own(tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    for split in SPLITS:
        for ending, lines in (("src", SOURCES[split]), ("tgt", TARGETS[split])):
            (folder / f"{split}.{ending}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def opened(own, tmp_path, **settings):
    return open_corpus(PairsConfig(name=str(own), **settings), tmp_path / "data")


def words(pairs, split):
    source, target = pairs.sentences(split)
    return [
        [[vocabulary[token] for token in side[index].tolist()] for index in range(len(side))]
        for side, vocabulary in ((source, pairs.source_vocabulary), (target, pairs.vocabulary))
    ]


def test_words_of_both_sides(own, tmp_path):
    pairs = opened(own, tmp_path)
    assert pairs.source_vocabulary == (
        *("<eos>", "<unk>", "the", "red", "cat", "sleeps", "￭.", "a", "Dog", "￭,", "dog"),
    )
    assert pairs.vocabulary[:3] == ("<eos>", "<unk>", "kat")
    assert (pairs.num_source_words, pairs.num_words) == (11, len(pairs.vocabulary))
    assert words(pairs, "valid") == [
        [["a", "red", "<unk>", "<eos>"], ["the", "cat", "￭.", "<eos>"]],
        [["<unk>", "rot", "<eos>"], ["si", "kat", "￭.", "<eos>"]],
    ]
    assert pairs.references("valid") == TARGETS["valid"]
    assert pairs.sources("valid") == ["a red unicorn", "the cat."]  # single spaces
    assert pairs.best == {}


@pytest.mark.parametrize("merges", [None, 3])
def test_bytes_are_those_of_the_targets_file_and_what_is_unknown_is_spelled(own, tmp_path, merges):
    pairs = opened(own, tmp_path, merges=merges)
    assert pairs.num_bytes == {s: (own / f"{s}.tgt").stat().st_size for s in ("valid", "test")}
    kept = [pairs.vocabulary[token] for token in pairs.splits["valid"].tolist()]
    lost = {None: ["pferd"], 3: ["p@@"]}[merges]
    assert kept.count("<unk>") == len(lost) and not {*lost} & {*pairs.vocabulary}
    assert pairs.spelled == {"train": 0, "valid": sum(map(len, lost)) + len(lost), "test": 0}
    # At 2 ln 2 nats a token: two bits each, and log2(257) for what is spelled.
    bits = [2 * len(pairs.splits["valid"]) + pairs.spelled["valid"] * math.log2(257)]
    bits.append(2 * len(pairs.splits["test"]))
    for split, number in zip(("valid", "test"), bits, strict=True):
        found = pairs.bits_per_byte(2 * math.log(2), split)
        assert found == pytest.approx(number / pairs.num_bytes[split])


def test_targets_that_are_not_those_of_the_file_have_no_bits_per_byte(own, tmp_path):
    assert opened(own, tmp_path, lowercase=True).bits_per_byte(1.0, "test") is None
    assert opened(own, tmp_path).bits_per_byte(1.0, "train") is None, "its targets are not judged"
    source = source_of(PairsConfig(name=str(own)), tmp_path / "data")
    files = source.encoded()
    of_0_1 = replace(files, facts={k: v for k, v in files.facts.items() if k != "spelled"})
    assert source.facts(of_0_1, 0)["spelled"] == {"train": 0, "test": 0}, "valid has an <unk>"


def test_streams_and_counts_are_of_the_target(own, tmp_path):
    pairs = opened(own, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream = pairs.stream("train")
    assert stream.dtype == torch.int32
    assert stream.data_ptr() == pairs.splits["train"].ctypes.data
    assert int((stream == pairs.eos).sum()) == len(SOURCES["train"])
    assert torch.equal(pairs.counts(), torch.bincount(stream.long(), minlength=pairs.num_words))
    config = PairsConfig(name=str(own))
    assert source_of(config, str(tmp_path)).sizes()["valid"] == len(pairs.stream("valid")) == 7
    assert source_of(config, tmp_path).vocabulary()[0] == pairs.num_words


def source_text(pairs, tokens):
    words = [pairs.source_vocabulary[token] for token in tokens[:-1].tolist()]
    return sentence_of(words, units=any(word.endswith("@@") for word in pairs.vocabulary))


def test_ids_become_the_sentence_again(own, tmp_path):
    for settings in ({}, {"merges": 3}, {"merges": 50, "joint": True}):
        pairs = opened(own, tmp_path, **settings)
        source, target = pairs.sentences("train")
        assert [pairs.text(target[i].tolist()) for i in range(4)] == TARGETS["train"]
        assert [source_text(pairs, source[i]) for i in range(4)] == SOURCES["train"]
        with pytest.raises(IndexError):
            source[4]


def test_a_joint_vocabulary_is_one(own, tmp_path):
    pairs = opened(own, tmp_path, joint=True)
    assert pairs.vocabulary == pairs.source_vocabulary
    assert {"the", "kat"} < set(pairs.vocabulary)
    assert not (pairs.encoding / "source_vocabulary.arrow").exists()


def test_lower_case_and_rare_words(own, tmp_path):
    pairs = opened(own, tmp_path, lowercase=True)
    assert pairs.references("test") == ["er hund schläft."]
    assert "Dog" not in pairs.source_vocabulary
    rare = opened(own, tmp_path, min_count=2)
    assert "Dog" not in rare.source_vocabulary and "cat" in rare.source_vocabulary
    assert words(rare, "train")[0][1] == ["<unk>", "<unk>", "<unk>", "the", "cat", "<eos>"]


def test_lengths_and_numbers_of_pairs(own, tmp_path):
    short = opened(own, tmp_path, max_length=4)
    assert short.sources("train") == ["the red dog"]
    assert len(short.sources("valid")) == 2  # others are whole
    few = opened(own, tmp_path, train_pairs=2, eval_pairs=1)
    assert few.references("train") == TARGETS["train"][:2]
    assert [len(few.references(split)) for split in SPLITS] == [2, 1, 1]
    assert "er" not in few.vocabulary
    with pytest.raises(CorpusError, match=r"max_length: no training pair has at most 2 tokens"):
        opened(own, tmp_path, max_length=2)


def test_every_setting_counts_in_the_digest_and_no_path(own, tmp_path):
    settings = [
        *({}, {"merges": 4}, {"joint": True}, {"lowercase": True}, {"min_count": 2}),
        *({"max_length": 5}, {"train_pairs": 2}, {"eval_pairs": 1}),
        {"source": "tgt", "target": "src"},
    ]
    digests = [corpus_digest(PairsConfig(name=str(own), **changed)) for changed in settings]
    assert len(set(digests)) == len(settings)
    moved = own.rename(tmp_path / "moved")
    for split in SPLITS:
        for old, new in (("src", "en"), ("tgt", "de")):
            (moved / f"{split}.{old}").rename(moved / f"{split}.{new}")
    named = PairsConfig(name=f"folder:{moved}", source="en", target="de")
    assert corpus_digest(named, tmp_path) == digests[0]
    assert open_corpus(named, tmp_path).digest == digests[0]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("train.tgt", b"a\nb\nc\n", r"train\.src, line 4 has no counterpart in .*train\.tgt"),
        (
            "valid.src",
            b"a\nb\nc",
            r"valid\.src, line 3 has no counterpart in .* ends after line 2; this file has 3",
        ),
        ("valid.src", b"a\n  \n", r"valid\.src, line 2: it is empty"),
        ("test.tgt", b"\n", r"test\.tgt, line 1: it is empty"),
        ("train.src", b"a\nb\nc\xff\nd\n", r"train\.src, line 3: it is not UTF-8 text"),
    ],
)
def test_a_bad_file_is_named_with_its_line(own, tmp_path, file, text, message):
    (own / file).write_bytes(text)
    with pytest.raises(CorpusError, match=message) as caught:
        source_of(PairsConfig(name=str(own)), tmp_path / "data").vocabulary()[0]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "multi30k", "source": "es"}, "corpus.source: unknown language 'es'"),
        ({"name": "multi30k", "source": "de", "target": "de"}, "are both 'de'"),
        ({"name": "pairs", "source": "tgt"}, "one direction: from 'src' to 'tgt'"),
        ({"name": "ptb"}, "'ptb' is a text, and this task reads pairs"),
        ({"name": "multi30"}, "unknown corpus 'multi30'.*'multi30k'"),
    ],
)
def test_what_a_corpus_has_not_is_refused(settings, message):
    with pytest.raises(CorpusError, match=message):
        corpus_digest(PairsConfig(**settings))


def test_pairs_travel_to_hosts_without_their_files(own, tmp_path, monkeypatch):
    config = PairsConfig(name=str(own), merges=5)
    store = Store(str(tmp_path / "store"))
    here = open_corpus(config, tmp_path / "data")
    parcel = json.loads(json.dumps(travel.send(config, str(tmp_path / "data"), store)))
    monkeypatch.setenv("ABLATE_WORKSPACE", str(tmp_path / "worker"))
    for file in own.iterdir():
        file.unlink()
    there = open_corpus(config, travel.receive(parcel, store))
    assert there.digest == here.digest
    assert there.references("test") == TARGETS["test"]
    assert (there.vocabulary, there.source_vocabulary) == (here.vocabulary, here.source_vocabulary)
    for side in ("source", "target"):
        assert torch.equal(there.stream("train", side), here.stream("train", side))


def test_damage_is_noticed_and_mended(own, tmp_path, caplog):
    pairs = opened(own, tmp_path)
    file = pairs.encoding / "texts.arrow"
    file.write_bytes(file.read_bytes().replace(b"unicorn", b"unicxrn"))
    assert opened(own, tmp_path).sources("valid")[0] == "a red unicorn"
    assert "texts.arrow has changed" in caplog.text


# --- the built-in corpus


def test_the_best_score_is_known_if_every_word_is(tmp_path):
    assert open_corpus(PairsConfig(), tmp_path).best == {"bleu": 100.0}
    assert open_corpus(PairsConfig(train_pairs=20), tmp_path).best == {}


def test_translations_reorder_and_agree():
    source, target = (side[0] for side in grammar.generate()["train"])
    assert source == "the glemen taska ha neker a zosu"
    noun, the, adjective, zosu, a, verb = target.split()
    translate = grammar.translator().translate
    assert translate("the taska ha neker a zosu").split() == [noun, the, zosu, a, verb]
    assert {word[-2:] for word in (the, adjective, verb)} == {"uk"}
    # the other noun is of another gender, and the verb agrees with the subject
    verb_stem, a_stem = verb.removesuffix("uk"), a.removesuffix("ast")
    exchanged = translate("a zosu hu neker the taska").split()
    assert exchanged == [zosu, f"{a_stem}ast", noun, the, f"{verb_stem}ast"]


def test_a_sentence_of_another_grammar_is_refused():
    with pytest.raises(ValueError, match="'ha' is of the category auxiliary, not determiner"):
        grammar.translator().translate("ha the taska")
