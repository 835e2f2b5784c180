"""Write the target of every source sentence by beam search, and compare it with the reference.

BLEU is computed by sacrebleu on the text as it is read, after byte-pair units and our tokenization
are undone; `bleu_tokenized` on words with punctuation apart, without smoothing, as older papers
count it. ROUGE is the F1 of 1-grams, 2-grams and the longest common subsequence, of words as
`rouge_tokenizer` cuts them. All are between 0 and 100.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from ablate.config.metrics import BLEU, ROUGE_1, ROUGE_2, ROUGE_L
from ablate.lm.components import (
    CombinationError,
    EncoderDecoder,
    Evaluator,
    Reading,
    register,
    setting,
)
from ablate.lm.kinds import PAIRS
from ablate.lm.model.beam import Hypothesis, Search, written
from ablate.lm.model.evaluator import no_log_probs
from ablate.lm.model.flow import PairText
from ablate.lm.model.sentences import in_order, lengths_of, source_batch
from ablate.lm.scores.rouge import TOKENIZERS, UNICODE

UNKNOWN = "<unk>"


@dataclass(frozen=True, kw_only=True)
class GenerateConfig:
    """The search, and the tokens that BLEU counts."""

    beam: int = setting(20, doc="hypotheses kept for every sentence; 1: greedy", low=1, high=1000)
    length_penalty: float = setting(
        1.0, doc="log p is divided by length to this power; 0: the most probable sentence", low=0
    )
    longest_factor: float = setting(
        2.0, doc="longest output, as a multiple of the source's tokens ...", low=0
    )
    longest_more: int = setting(10, doc="... and this many tokens more", low=1)
    write_unknown: bool = setting(False, doc="whether <unk> may be written")
    batch_size: int = setting(32, doc="sentences written at a time", low=1)
    tokenizer: str = setting(
        "13a", doc="sacrebleu's tokenizer for BLEU", choices=("13a", "intl", "char", "none")
    )
    rouge_tokenizer: str = setting(
        UNICODE,
        doc="characters of ROUGE's words: a to z and digits, as in Lin's program, or of any script "
        "and #",
        choices=TOKENIZERS,
    )


@register(
    "evaluator",
    "generate",
    config=GenerateConfig,
    paper="takase2018doc",
    equation="Section 6 (Tables 9 and 10)",
    departures=(
        "the paper names neither the beam's width nor how hypotheses of different lengths are "
        "compared; here 20, and by log p per token",
    ),
    metrics=(BLEU, ROUGE_1, ROUGE_2, ROUGE_L),
)
@final
class Generate(Evaluator):
    """Several models write together, by the mean of their probabilities at every word."""

    reads = frozenset({PAIRS})
    gives_log_probs = False
    packages = ("sacrebleu", "rouge_score")

    def __init__(self, config: GenerateConfig) -> None:
        self.config = config

    def token_log_probs(self, reading: Reading, split: str) -> np.ndarray:
        raise no_log_probs("generate", "writes sentences")

    def metrics(self, reading: Reading, name: str, split: str) -> dict[str, float]:
        # A worker may lack their packages.
        from ablate.lm.scores.bleu import bleu, tokenized_bleu
        from ablate.lm.scores.rouge import rouge
        from ablate.lm.scores.rouge import signature as rouge_signature

        text, _ = _read(reading)
        found = self.hypotheses(reading, split)
        ours = [text.text(one.tokens) for one in found]
        theirs = list(text.references(split))
        scored = bleu(ours, theirs, self.config.tokenizer)
        reading.sentences[split] = ours
        reading.signatures[f"{name}.{BLEU.name}"] = scored.signature
        reading.signatures[f"{name}.rouge"] = rouge_signature(self.config.rouge_tokenizer)
        apart = [[text.tokenized(line) for line in lines] for lines in (ours, theirs)]
        return {
            BLEU.name: scored.score,
            "bleu_tokenized": tokenized_bleu(*apart),
            **rouge(ours, theirs, self.config.rouge_tokenizer),
            "length_ratio": _num_words(ours) / max(_num_words(theirs), 1),
            "unfinished": sum(not one.finished for one in found) / len(found),
            "num_sentences": float(len(found)),
        }

    def hypotheses(self, reading: Reading, split: str) -> list[Hypothesis]:
        """The best hypothesis for every sentence of a split, in the text's order."""
        return reading.cached(("generate", split), lambda: self._write(reading, split))

    def _write(self, reading: Reading, split: str) -> list[Hypothesis]:
        (text, models), config = _read(reading), self.config
        sources, _ = text.sentences(split)
        lengths_P = lengths_of(sources)
        device = models[0].device
        found: dict[int, Hypothesis] = {}
        for chosen in in_order(lengths_P, config.batch_size):
            longest = [
                int(config.longest_factor * length) + config.longest_more
                for length in lengths_P[chosen].tolist()
            ]
            batch = source_batch(sources, chosen, device)
            best = written(models, batch, self._search(text), longest)
            found |= dict(zip(chosen.tolist(), best, strict=True))
        # Batches are of sentences of similar lengths; the text has another order.
        return [found[at] for at in range(len(found))]

    def _search(self, text: PairText) -> Search:
        unknown = () if self.config.write_unknown else (UNKNOWN,)
        never = tuple(text.vocabulary.index(word) for word in unknown if word in text.vocabulary)
        config = self.config
        return Search(
            width=config.beam, penalty=config.length_penalty, eos=int(text.eos or 0), never=never
        )


def _read(reading: Reading) -> tuple[PairText, list[EncoderDecoder]]:
    """The pairs of sentences, and the models that write."""
    models = [model for model in reading.models if isinstance(model, EncoderDecoder)]
    if reading.pairs is None or len(models) != len(reading.models):
        raise CombinationError(
            "evaluator 'generate' writes the target of every source sentence, which takes pairs of "
            "sentences and encoder-decoders alone. Instead: task = 'encoder_decoder'."
        )
    return reading.pairs, models


def _num_words(lines: Sequence[str]) -> int:
    return sum(len(line.split()) for line in lines)
