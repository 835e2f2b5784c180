"""From pairs of sentences to token ids of two vocabularies."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from ablate.errors import CorpusError
from ablate.lm.data.byte_counts import spelled
from ablate.lm.data.encoding import EOS, UNKNOWN
from ablate.lm.data.pair_texts import Sides
from ablate.lm.data.tokenize import in_units, learn_units, tokens_of
from ablate.lm.sections import PairsConfig

EOS_ID, UNKNOWN_ID = 0, 1  # their places in every vocabulary
SIDES = ("source", "target")
Sentences = list[list[str]]  # of tokens


@dataclass(frozen=True)
class EncodedPairs:
    """Token ids and sentences by split and side, and the words by id for each side."""

    streams: dict[str, np.ndarray]
    texts: dict[str, list[str]]
    vocabularies: dict[str, list[str]]  # one and the same list if the sides share it
    has_unknown: bool
    spelled: dict[str, int]  # bytes of the targets' words that are `<unk>`, and one more for each


def stream_name(split: str, side: str) -> str:
    """Return the name under which a side of a split is encoded."""
    return f"{split}.{side}"


def encode_pairs(splits: Mapping[str, Sides], config: PairsConfig) -> EncodedPairs:
    """Encode the splits; the first is the training text."""
    splits = {split: _used(split, sides, config) for split, sides in splits.items()}
    tokens = {split: [[*map(tokens_of, side)] for side in sides] for split, sides in splits.items()}
    if config.merges is not None:
        tokens = _in_units(tokens, config.merges, config.joint)
    # After the units are known: a length counts the tokens that the model reads.
    if config.max_length is not None:
        train = splits["train"], tokens["train"]
        splits["train"], tokens["train"] = _short(*train, config.max_length)
    vocabularies = _vocabularies(tokens["train"], config)
    streams, texts, num_spelled = {}, {}, {}
    for split, sides in tokens.items():
        num_spelled[split] = _spelled(sides[1], vocabularies["target"])
        for index, side in enumerate(SIDES):
            name = stream_name(split, side)
            streams[name] = _ids(sides[index], vocabularies[side])
            texts[name] = splits[split][index]
    return EncodedPairs(
        streams=streams,
        texts=texts,
        vocabularies=vocabularies,
        has_unknown=any(bool((stream == UNKNOWN_ID).any()) for stream in streams.values()),
        spelled=num_spelled,
    )


def _used(split: str, sides: Sides, config: PairsConfig) -> Sides:
    most = config.train_pairs if split == "train" else config.eval_pairs
    source, target = (side[:most] for side in sides)
    if config.lowercase:
        source, target = ([line.lower() for line in side] for side in (source, target))
    return source, target


def _in_units(tokens: dict[str, list[Sentences]], merges: int, joint: bool) -> dict[str, Any]:
    """Split all tokens into units that are learned on the training text, of each side or both."""
    counts = [Counter(chain.from_iterable(side)) for side in tokens["train"]]
    if joint:
        learned = [_learned(counts[0] + counts[1], merges)] * 2
    else:
        learned = [_learned(count, merges) for count in counts]
    return {
        split: [
            side if units is None else [in_units(sentence, units) for sentence in side]
            for side, units in zip(sides, learned, strict=True)
        ]
        for split, sides in tokens.items()
    }


def _learned(counts: Mapping[str, int], merges: int) -> Any:
    # `<unk>` stays whole, so its letters must not count.
    return learn_units({word: n for word, n in counts.items() if word != UNKNOWN}, merges)


def _short(sides: Sides, tokens: list[Sentences], most: int) -> tuple[Sides, list[Sentences]]:
    """Leave out the pairs that have a side with more than `most` tokens."""
    kept = [i for i, pair in enumerate(zip(*tokens, strict=True)) if max(map(len, pair)) <= most]
    if not kept:
        raise CorpusError(
            f"corpus.max_length: no training pair has at most {most} tokens on each side. "
            "Instead: a larger value."
        )
    source, target = ([side[i] for i in kept] for side in sides)
    return (source, target), [[side[i] for i in kept] for side in tokens]


def _vocabularies(train: list[Sentences], config: PairsConfig) -> dict[str, list[str]]:
    if config.joint:
        return dict.fromkeys(SIDES, _vocabulary(chain(*train), config.min_count))
    source, target = (_vocabulary(side, config.min_count) for side in train)
    return {"source": source, "target": target}


def _vocabulary(sentences: Iterable[list[str]], min_count: int) -> list[str]:
    counts = Counter(chain.from_iterable(sentences))
    counts.pop(UNKNOWN, None)
    return [EOS, UNKNOWN, *(token for token, count in counts.items() if count >= min_count)]


def _ids(sentences: Sentences, vocabulary: list[str]) -> np.ndarray:
    """Join the sentences' ids, each ended by `<eos>`."""
    ids = {token: index for index, token in enumerate(vocabulary)}
    stream = array("i")
    for sentence in sentences:
        stream.extend(ids.get(token, UNKNOWN_ID) for token in sentence)
        stream.append(EOS_ID)
    return np.frombuffer(stream, dtype=np.int32)


def _spelled(sentences: Sentences, vocabulary: list[str]) -> int:
    """Count what it takes to spell the words that become `<unk>`: their bytes, and their ends."""
    known = {*vocabulary} - {UNKNOWN}
    return spelled(t for s in sentences for t in s if t not in known)
