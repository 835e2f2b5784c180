"""Trees as a corpus: what is encoded of them, what travels, and what is refused."""

import hashlib
import zipfile
from dataclasses import replace

import pytest

from ablate.errors import CorpusError
from ablate.lm.data import sources
from ablate.lm.data.corpus import corpus_digest, open_corpus
from ablate.lm.data.grammar import trees as grammar_trees
from ablate.lm.data.published import PUBLISHED
from ablate.lm.data.texts import find_text
from ablate.lm.parsing.candidates import candidates_folder, make_candidates
from ablate.lm.parsing.corpus import read_splits
from ablate.lm.parsing.n_best import read_candidates
from ablate.lm.sections import CorpusConfig
from ablate.store.store import Store
from ablate.trial import travel
from tests.support import places

TREES = {
    "train": "(S (NP (NNS Dogs)) (VP (VBP bark)))\n(S (NP-SBJ (NNS Dogs))\n  (VP (VBP sleep)))\n",
    "valid": "(S (NP (NNS Dogs)) (VP (VBP bark)))\n( (S (NP (NNS Cats)) (VP (VBP bark))) )\n",
    "test": "(S (NP (NNS cats)) (VP (VBP sleep)))",
}


@pytest.fixture
def folder(tmp_path):
    for split, text in TREES.items():
        (tmp_path / f"{split}.txt").write_text(text)
    return tmp_path


def config(folder, **more):
    return CorpusConfig(**{"name": str(folder), "level": "tree", **more})


def test_a_folder_of_trees_is_read_as_brackets_and_words(folder, tmp_path):
    corpus = open_corpus(config(folder), tmp_path / "data")
    assert corpus.text(corpus.splits["valid"]) == (
        "(S (NP Dogs NP) (VP bark VP) S)\n(S (NP Cats NP) (VP bark VP) S)\n"
    )
    assert str(corpus.trees("valid")[1]) == "(S (NP (NNS Cats)) (VP (VBP bark)))"
    assert (corpus.num_sentences("valid"), corpus.num_sentences("test")) == (2, 1)
    assert corpus.separators == ()
    ids = corpus.tree_ids(corpus.trees("test")[0])
    assert [*ids, corpus.eos] == corpus.splits["test"].tolist()


def test_rare_words_become_unknown_and_brackets_never(folder, tmp_path):
    corpus = open_corpus(config(folder, min_count=2), tmp_path / "data")
    assert corpus.text(corpus.splits["train"]).split("\n")[1] == "(S (NP Dogs NP) (VP <unk> VP) S)"
    assert corpus.trees("test")[0].words == ["cats", "sleep"], "trees keep their words"
    ids = corpus.tree_ids(corpus.trees("test")[0])
    assert corpus.text(ids) == "(S (NP <unk> NP) (VP <unk> VP) S)"


def test_only_words_are_lower_cased(folder, tmp_path):
    corpus = open_corpus(config(folder, lowercase=True), tmp_path / "data")
    assert corpus.text(corpus.splits["test"]) == "(S (NP cats NP) (VP sleep VP) S)\n"
    assert corpus.tree_ids(corpus.trees("valid")[1])[2] == corpus.splits["test"][2]


def test_a_slice_counts_its_whole_sentences(folder, tmp_path):
    (folder / "valid.txt").write_text(TREES["train"] * 20)
    corpus = open_corpus(config(folder, eval_tokens=100), tmp_path / "data")
    assert (corpus.num_sentences("valid"), len(corpus.trees("valid"))) == (11, 40)


def test_a_bracket_that_the_corpus_lacks_is_told(folder, tmp_path):
    corpus = open_corpus(config(folder), tmp_path / "data")
    tree = replace(corpus.trees("test")[0], label="SINV")
    with pytest.raises(CorpusError, match=r"'\(SINV' of a candidate tree is not in the corpus"):
        corpus.tree_ids(tree)


@pytest.mark.parametrize(
    ("split", "text", "message"),
    [
        (
            "valid",
            "(S (NN a))\n\n(S (NN b)\n",
            "valid.txt, line 3: the tree that starts here is not",
        ),
        ("train", "(S (NN a))\n(S (NP (-NONE- *)))", "train.txt, line 2: .* has no words"),
        ("test", "", "the test split is empty"),
        ("test", "just words", "test.txt, line 1: 'just' outside of any tree"),
    ],
)
def test_broken_trees_are_told_with_file_and_line(folder, tmp_path, split, text, message):
    (folder / f"{split}.txt").write_text(text)
    with pytest.raises(CorpusError, match=message):
        open_corpus(config(folder), tmp_path / "data")


def test_trees_are_not_read_as_text_nor_text_as_trees(tmp_path):
    with pytest.raises(CorpusError, match=r"grammar_trees is a corpus of trees.* 'tree'\."):
        corpus_digest(CorpusConfig(name="grammar_trees"), tmp_path)
    with pytest.raises(CorpusError, match="grammar is a corpus not of trees"):
        corpus_digest(CorpusConfig(level="tree"), tmp_path)


def test_the_built_in_trees_are_the_pinned_ones(monkeypatch):
    splits = grammar_trees.generate()
    assert {split: len(lines) for split, lines in splits.items()} == grammar_trees.SENTENCES
    monkeypatch.setattr(grammar_trees, "DIGEST", "another")
    with pytest.raises(CorpusError, match="not the pinned another"):
        grammar_trees.generate()


def test_the_built_in_trees_show_in_words_alone_where_phrases_belong():
    """After a noun the first four prepositions are usual, in a verb's phrase the others."""
    seen = {"NP": [0, 0], "VP": [0, 0]}

    def count(node):
        for part in node.parts:
            if part.label == "PP" and node.label in seen:
                seen[node.label][grammar_trees.PREPOSITIONS.index(part.words[0]) >= 4] += 1
            count(part)

    for tree in read_splits(find_text("grammar_trees", None))["valid"]:
        count(tree)
    assert seen["NP"][0] > 5 * seen["NP"][1] > 0
    assert seen["VP"][1] > 5 * seen["VP"][0] > 0


@pytest.fixture
def treebank(tmp_path, monkeypatch):
    """A published treebank of three files, one for each split."""
    place = tmp_path / "own"
    place.mkdir()
    numbers = {"train": 159, "valid": 160, "test": 199}
    with zipfile.ZipFile(place / "treebank.zip", "w") as archive:
        archive.writestr("treebank/README", "(not a tree")
        for split, number in numbers.items():
            archive.writestr(f"treebank/combined/wsj_{number:04}.mrg", TREES[split])
    sha256 = hashlib.sha256((place / "treebank.zip").read_bytes()).hexdigest()
    monkeypatch.setitem(
        PUBLISHED, "treebank", replace(PUBLISHED["treebank"], sha256={"trees": sha256})
    )
    return place


@pytest.mark.slow
def test_the_treebank_is_one_file_split_by_the_numbers_in_it(treebank, tmp_path):
    data = tmp_path / "data"
    bank = CorpusConfig(name="treebank", level="tree")
    with pytest.raises(CorpusError, match="the corpus treebank is missing"):
        open_corpus(bank, data)
    assert sources.get("treebank", data, treebank) == {"trees": data / "treebank" / "treebank.zip"}
    corpus = open_corpus(bank, data)
    assert [len(corpus.splits[split]) for split in TREES] == [18, 18, 9]
    assert [*sources.verify("treebank", data)] == [str(data / "treebank" / "treebank.zip")]
    states = {listed.name: listed.state for listed in sources.listing(data)}
    assert (states["treebank"], states["grammar_trees"]) == ("ready", "built in")


@pytest.mark.slow
def test_the_treebank_is_what_is_known_of_it(tmp_path):
    if not (places.DATA / "treebank").is_dir():
        pytest.skip(f"the treebank is not in {places.DATA} (ABLATE_TEST_DATA names it)")
    sources.get("treebank", tmp_path, places.DATA)
    for min_count, words in ((1, 12_023), (10, 1_160)):
        bank = CorpusConfig(name="treebank", level="tree", min_count=min_count)
        corpus = open_corpus(bank, tmp_path)
        assert corpus.num_words == words
        sizes = {split: len(tokens) for split, tokens in corpus.splits.items()}
        assert sizes == PUBLISHED["treebank"].num_tokens
    assert [corpus.num_sentences(split) for split in TREES] == [3_396, 273, 245]


def test_candidates_are_made_by_command_and_then_found(folder, tmp_path):
    data, text = tmp_path / "data", find_text(str(folder), None)
    asked = (str(folder), text.hashes(), data)
    with pytest.raises(CorpusError, match=f"`ablate data candidates {folder} --k 3` makes them"):
        candidates_folder(*asked, 3)
    steps = []
    made = make_candidates(str(folder), data, 3, lambda *progress: steps.append(progress))
    assert made == candidates_folder(*asked, 3)
    assert steps == [(1, 3), (2, 3), (3, 3)]
    trees = read_splits(text)
    for split in ("valid", "test"):
        with (made / f"{split}.nbest").open() as lines:
            lists = read_candidates(lines, [tree.words for tree in trees[split]], split)
        assert [candidates[0].tree for candidates in lists] == trees[split]
    with pytest.raises(CorpusError, match="--k 4"):
        candidates_folder(*asked, 4)


def test_a_sentence_that_no_rule_derives_has_one_flat_candidate(folder, tmp_path):
    (folder / "test.txt").write_text("(FRAG (NNS dogs) (NNS dogs) (NNS dogs))")
    made = make_candidates(str(folder), tmp_path / "data", 3)
    lines = (made / "test.nbest").read_text().splitlines()
    assert lines == ["1 0", "0.000000", "(S1 (S (X dogs) (X dogs) (X dogs)))"]


def test_candidates_travel_with_their_corpus(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("ABLATE_WORKSPACE", str(tmp_path / "other_host"))
    store, data = Store(str(tmp_path / "store")), tmp_path / "data"
    make_candidates(str(folder), data, 3)
    parcel = travel.send(config(folder), str(data), store)
    here = travel.receive(parcel, store)
    corpus = open_corpus(config(folder), here)
    assert corpus.trees("valid") == open_corpus(config(folder), data).trees("valid")
    received = corpus.candidates_folder(3)
    assert received.is_relative_to(tmp_path / "other_host")
    assert (received / "test.nbest").is_file()
