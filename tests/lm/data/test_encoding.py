import pytest

from ablate.errors import CorpusError
from ablate.lm.data.encoding import encode
from ablate.lm.sections import CorpusConfig

TEXTS = {
    "train": [" the cat sat \n", "\n", "The  cat\tran _\n"],
    "valid": ["a dog ran"],
    "test": ["the dog\n"],
}


def words(**options):
    encoded = encode(TEXTS, CorpusConfig(**options))
    named = {s: [encoded.vocabulary[i] for i in ids] for s, ids in encoded.splits.items()}
    return encoded.vocabulary, named


def test_words_in_order_of_first_appearance_and_a_line_end_for_every_line():
    vocabulary, named = words()
    assert vocabulary == ["the", "cat", "sat", "<eos>", "The", "ran", "_", "a", "dog"]
    assert " ".join(named["train"]) == "the cat sat <eos> <eos> The cat ran _ <eos>"
    assert " ".join(named["valid"]) == "a dog ran <eos>"


def test_lower_casing_merges_words():
    vocabulary, named = words(lowercase=True)
    assert vocabulary == ["the", "cat", "sat", "<eos>", "ran", "_", "a", "dog"]
    assert named["train"][5] == "the"


def test_rare_words_become_unknown_and_line_ends_never_do():
    vocabulary, named = words(min_count=2)
    assert vocabulary == ["<unk>", "cat", "<eos>"]
    assert " ".join(named["train"]) == "<unk> cat <unk> <eos> <eos> <unk> cat <unk> <unk> <eos>"
    assert " ".join(named["valid"]) == "<unk> <unk> <unk> <eos>"
    assert words(min_count=99)[0] == ["<unk>", "<eos>"]


def test_characters_with_single_spaces_between_words():
    vocabulary, named = words(level="character")
    assert named["train"] == [*"the cat sat", "<eos>", "<eos>", *"The cat ran _", "<eos>"]
    assert vocabulary[:5] == ["t", "h", "e", " ", "c"]
    assert "_" in vocabulary and " " in vocabulary  # the space is never taken for a "_"


@pytest.mark.parametrize("split", ["train", "valid", "test"])
@pytest.mark.parametrize("lines", [[], ["\n"]])
def test_a_split_without_words_is_refused_by_name(split, lines):
    with pytest.raises(CorpusError, match=f"the {split} split is empty"):
        encode({**TEXTS, split: lines}, CorpusConfig())
