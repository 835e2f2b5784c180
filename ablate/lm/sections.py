"""The sections of a language model's config: corpus, embedding and training, or n-grams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ablate.config.data_source import DataConfig
from ablate.config.fields import setting

# Published texts in which `<unk>` already stands for each word that the vocabulary lacks.
FIXED_VOCABULARY = ("ptb", "wikitext-2", "wikitext-103")


@dataclass(frozen=True, kw_only=True)
class CorpusConfig(DataConfig):
    """The text to use, and its tokens."""

    name: str = setting(
        "grammar", doc="corpus from `ablate data list`, or path of a folder of text files"
    )
    level: str = setting(
        "word",
        doc="token type; byte: the text's bytes; bpe: bytes, and runs of them that are frequent in "
        "the training text; tree: the words and brackets of parsed sentences",
        choices=("word", "character", "byte", "bpe", "tree"),
    )
    merges: int = setting(
        3840,
        doc="of level bpe: byte-pair merges to learn at most, on the training text; the vocabulary "
        "has 256 tokens more",
        low=1,
    )
    lowercase: bool = setting(
        False, doc="lower-case the text first (002's counts need it for WikiText-2)"
    )
    min_count: int = setting(
        1, doc="replace words rarer than this in the training text by <unk>", low=1
    )
    train_tokens: int | None = setting(None, doc="use only N training tokens", low=100)
    train_slice: str = setting(
        "first",
        doc="which train_tokens to use: the first ones, or a contiguous slice drawn with the "
        "trial's seed (004)",
        choices=("first", "random"),
    )
    eval_tokens: int | None = setting(
        None, doc="use only the first N tokens of valid and of test", low=100
    )

    @property
    def as_written(self) -> bool:
        """Return whether the tokens stand for the text itself, so that it has bits per byte.

        Words of a text with a fixed vocabulary do not: nobody knows what its `<unk>` stand for, so
        a model of words would be judged on a text without unknown words.
        """
        if self.level == "tree" or (self.level == "word" and self.name in FIXED_VOCABULARY):
            return False
        return not self.lowercase and self.min_count == 1

    @property
    def reader(self) -> str:
        """Trees are read by a folder of their own, which a language model does not import."""
        return (
            "ablate.lm.parsing.corpus:Trees"
            if self.level == "tree"
            else "ablate.lm.data.corpus:Texts"
        )


@dataclass(frozen=True, kw_only=True)
class PairsConfig(DataConfig):
    """The pairs of sentences to use, and their tokens."""

    level: ClassVar[str] = "word"  # byte-pair units and words are read alike
    reader: ClassVar[str] = "ablate.lm.data.pairs:SentencePairs"

    name: str = setting(
        "pairs", doc="corpus of pairs from `ablate data list`, or path of a folder of text files"
    )
    source: str | None = setting(None, doc="language to read; none: the corpus's default")
    target: str | None = setting(None, doc="language to write; none: the corpus's default")
    merges: int | None = setting(
        None, doc="byte-pair merges, learned on the training text; none: words", low=1
    )
    joint: bool = setting(False, doc="one vocabulary, and one list of merges, for both sides")
    lowercase: bool = setting(False, doc="lower-case the text first")
    min_count: int = setting(
        1, doc="replace words rarer than this in the training text by <unk>", low=1
    )
    max_length: int | None = setting(
        None, doc="leave out training pairs of which a side has more tokens", low=1
    )
    train_pairs: int | None = setting(None, doc="use only the first N training pairs", low=1)
    eval_pairs: int | None = setting(
        None, doc="use only the first N pairs of valid and of test", low=1
    )

    @property
    def as_written(self) -> bool:
        """Return whether the targets are those of the text, so that they have bits per byte."""
        return not self.lowercase


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig:
    """The word vectors that the backbone reads, also the output matrix of a tied head."""

    size: int = setting(400, doc="units of a word vector", low=1)
    initial_range: float = setting(
        0.1, doc="initial word vectors are uniform in initial_center +- this value", low=0
    )
    initial_center: float = setting(0.0, doc="middle of the initial word vectors", low=-100)


@dataclass(frozen=True, kw_only=True)
class UpdatesConfig:
    """What all trainings by gradients have in common."""

    epochs: int = setting(1, doc="passes over the training text", low=0)
    clip: float | None = setting(
        None, doc="maximum global norm of the gradient; none or 0: no clipping", low=0
    )
    only_gate: bool = setting(
        False, doc="train only the gate; freeze the rest and run it without dropout (000)"
    )
    accumulate: int = setting(
        1, doc="split each batch into N parts and add up their gradients", low=1
    )
    stop_after_worse: int | None = setting(
        None, doc="stop when validation is worse than the best of all epochs but the last N", low=0
    )
    repeat_while_better: bool = setting(
        False,
        doc="after stopping, restart from the best weights as long as this improves validation "
        "(DOC's fin)",
    )
    average_after: int | None = setting(
        None,
        doc="evaluate a running mean of the weights after every update, once N epochs in a row "
        "brought no new best on validation",
        low=1,
    )
    average_by: int | None = setting(
        None, doc="start this mean after epoch N at the latest; 0: at the first update", low=0
    )
    average_decay: float = setting(
        1.0,
        doc="below 1, the mean is exponential (EMA) with this decay, and starts at the first "
        "update unless average_after or average_by is set",
        low=0,
        high=1,
    )
    base_width: int | None = setting(
        None,
        doc="muP: the width at which rates and initial weights are as they are set; at others they "
        "change with the width of the last layer",
        low=1,
    )

    @property
    def averages(self) -> bool:
        """Whether a mean of the weights is evaluated instead of the weights."""
        starts = (self.average_after, self.average_by)
        return self.average_decay < 1 or any(start is not None for start in starts)


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(UpdatesConfig):
    """Truncated backpropagation through time over one continuous stream."""

    batch_size: int = setting(20, doc="rows that the stream is cut into", low=1)
    window: int = setting(70, doc="steps per window (BPTT)", low=1)
    batching: str = setting(
        "awd",
        doc="awd: contiguous rows, and a shorter last window; zaremba: rows that start at evenly "
        "spaced positions, and full windows only; circular: rows that read the whole text in a "
        "circle, from evenly spaced sentences, and carry their states on from epoch to epoch",
        choices=("awd", "zaremba", "circular"),
    )
    updates_per_epoch: int | None = setting(
        None,
        doc="with circular rows, updates in an epoch; none: as many as read the text once",
        low=1,
    )
    state_reset: float = setting(
        0.0, doc="probability that a row's state is reset before a window", low=0, high=1
    )
    partial_shuffle: bool = setting(
        False, doc="before every epoch, rotate each row of the stream by a random number of steps"
    )
    variable_window: bool = setting(
        False,
        doc="AWD: draw window lengths from N(window, 5), 5% of them around half of it, and scale "
        "the learning rate with the length",
    )
    max_window_excess: int | None = setting(
        None, doc="longest variable window, in steps above `window` (MoS, DOC: 40)", low=0
    )
    loss_reduction: str = setting(
        "mean",
        doc="mean over tokens (AWD), or sum over steps of the mean over rows (Zaremba)",
        choices=("mean", "sum_time_mean_batch"),
    )
    valid_batch_size: int = setting(10, doc="rows for validation after each epoch", low=1)
    valid_window: int = setting(200, doc="steps per evaluation window", low=1, window=True)
    valid_stride: int | None = setting(
        None,
        doc="such a window begins N steps after the one before, and its last N alone are counted; "
        "none: windows follow each other",
        low=1,
        window=True,
    )

    def circular_updates(self, num_tokens: int) -> int:
        """The updates of an epoch of circular rows: as set, or about one pass over the text."""
        return self.updates_per_epoch or max(1, round(num_tokens / self.batch_size / self.window))


@dataclass(frozen=True, kw_only=True)
class PairTrainingConfig(UpdatesConfig):
    """Training on batches of sentence pairs of similar lengths."""

    batch_size: int = setting(64, doc="pairs in a batch", low=1)
    loss_reduction: str = setting(
        "mean",
        doc="mean over the target's tokens, or sum over the tokens of the mean over pairs",
        choices=("mean", "sum_time_mean_batch"),
    )
    valid_batch_size: int = setting(64, doc="pairs in a batch of validation", low=1)


@dataclass(frozen=True, kw_only=True)
class NgramConfig:
    """Interpolated modified Kneser-Ney, optionally with a unigram cache."""

    order: int = setting(5, doc="longest n-gram", low=1)
    cache_window: int = setting(
        0,
        doc="interpolate a unigram cache over the last N words, with a tuned weight (0: no cache)",
        low=0,
    )
