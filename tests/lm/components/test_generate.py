"""Writing sentences: only encoder-decoders write, and what they write is compared in order."""

from __future__ import annotations

import pytest
import torch

from ablate.errors import CombinationError
from ablate.lm.components.evaluator.generate import Generate, GenerateConfig
from ablate.lm.model.evaluator import Reading
from ablate.lm.model.sentences import forced
from ablate.lm.testing import SmallModel
from ablate.lm.testing.subject import ROWS, RandomPairs, RandomText


def test_other_models_and_texts_are_refused():
    language, writer = SmallModel({}).model, SmallModel({}, pairs=True)
    for model, text in ((language, RandomPairs()), (writer.model, RandomText())):
        with pytest.raises(CombinationError, match=r"'generate' .* task = 'encoder_decoder'"):
            Generate(GenerateConfig()).metrics(Reading([model], text), "generate", "test")
    with pytest.raises(CombinationError, match="only an encoder-decoder"):
        forced(language, writer.batch)


@torch.no_grad()
def test_the_order_is_the_texts_whatever_the_batches_are():
    model = SmallModel({}, pairs=True).model
    written = [
        Generate(GenerateConfig(batch_size=size)).hypotheses(
            Reading([model], RandomPairs()), "test"
        )
        for size in (1, ROWS)
    ]
    assert [one.tokens for one in written[0]] == [one.tokens for one in written[1]]


def test_a_perfect_copy_scores_a_hundred(monkeypatch):
    """What is written is replaced by the references: every score is at its best."""
    text, evaluator = RandomPairs(), Generate(GenerateConfig())
    reading = Reading([SmallModel({}, pairs=True).model], text)
    found = evaluator.hypotheses(reading, "test")
    monkeypatch.setattr(RandomPairs, "text", lambda self, tokens: "one two three four five")
    monkeypatch.setattr(
        RandomPairs, "references", lambda self, split: ["one two three four five"] * len(found)
    )
    metrics = evaluator.metrics(reading, "generate", "test")
    best = {name: metrics[name] for name in ("bleu", "bleu_tokenized", "rouge_1", "rouge_l")}
    assert best == pytest.approx(dict.fromkeys(best, 100.0))
    assert metrics["length_ratio"] == 1
