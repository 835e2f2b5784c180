"""The kinds of task that train language models, count n-grams, or map sentences to sentences."""

from __future__ import annotations

from ablate.config.metrics import BITS, BITS_PER_BYTE, PERPLEXITY
from ablate.config.tasks import COUNTING, DATA, ONE_EPOCH, TRAINING, Kind
from ablate.lm.sections import (
    FIXED_VOCABULARY,
    CorpusConfig,
    EmbeddingConfig,
    NgramConfig,
    PairsConfig,
    PairTrainingConfig,
    TrainingConfig,
)
from ablate.lm.slots import LANGUAGE_SLOTS, SLOTS

FACTS = "ablate.lm.facts"
BY_WORD = (PERPLEXITY, BITS_PER_BYTE)
BY_LEVEL = {
    "character": (BITS, BITS_PER_BYTE),
    # A perplexity of such tokens compares with that of no other tokens.
    **dict.fromkeys(("byte", "bpe"), (BITS_PER_BYTE, PERPLEXITY)),
}
TEXT, PAIRS, COUNTS = "text", "pairs", "counts"
SLICES = {"corpus.train_tokens": 800, "corpus.eval_tokens": 150}
WHY_NO_BITS = (
    "A text has bits per byte if it is read as it was written: not trees, whose tokens are those "
    "of no file, not with corpus.lowercase or corpus.min_count, and not the words of "
    f"{', '.join(FIXED_VOCABULARY)}, where <unk> has already replaced each word that the "
    "vocabulary lacks, so that nobody knows what those words cost."
)
WHY_NOT = {BITS_PER_BYTE.name: WHY_NO_BITS}

LANGUAGE = Kind(
    name="language",
    sections={DATA: CorpusConfig, "embedding": EmbeddingConfig, "training": TrainingConfig},
    runner=TRAINING,
    metrics=BY_WORD,
    by_level=BY_LEVEL,
    brief={**SLICES, **ONE_EPOCH, "training.updates_per_epoch": None},
    slots=LANGUAGE_SLOTS,
    reads=TEXT,
    reading="a text",
    chosen_by={},
    facts=FACTS,
    why_not=WHY_NOT,
)
ENCODER_DECODER = Kind(
    name="encoder_decoder",
    sections={
        DATA: PairsConfig,
        "embedding": EmbeddingConfig,
        "training": PairTrainingConfig,
    },
    runner=TRAINING,
    metrics=BY_WORD,
    brief={"corpus.train_pairs": 60, "corpus.eval_pairs": 12, **ONE_EPOCH},
    slots=SLOTS,
    reads=PAIRS,
    reading="pairs of sentences",
    facts=FACTS,
    why_not=WHY_NOT,
)
NGRAM = Kind(
    name="ngram",
    sections={DATA: CorpusConfig, "ngram": NgramConfig},
    runner=COUNTING,
    metrics=BY_WORD,
    by_level=BY_LEVEL,
    brief=SLICES,
    slots=("evaluator",),
    reads=COUNTS,
    reading="counts",
    chosen_by={"model": "ngram"},
    facts=FACTS,
    why_not=WHY_NOT,
)
KINDS = (LANGUAGE, NGRAM, ENCODER_DECODER)
