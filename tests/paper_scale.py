"""`make test-paper`: every arm of every `paper` scale is built for real and takes one step.

Not among the usual tests, for it takes memory and minutes. The text is not the paper's, of which
only the vocabulary's size is needed (`num_words`): every word comes once, in an order drawn anew.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from ablate.config import Config, CorpusConfig, resolve
from ablate.data.corpus import corpus_digest
from ablate.identity import Trial, make_trial
from ablate.plan import arm_values
from ablate.store import Store
from ablate.study import Study
from ablate.study_file import load
from ablate.train.loop import Training
from ablate.train.task import Place

FILES = sorted((Path(__file__).parent.parent / "studies").glob("*.py"))
ROWS = 200  # steps of a batch's rows that there are


def configs() -> Iterator[tuple[str, Study, Config]]:
    """What the arms begin with, each kind of model once."""
    seen = []
    for file in FILES:
        study = load(file)
        for name, scale in study.scales.items():
            if not name.startswith("paper"):
                continue
            for arm in study.design.arms:
                if scale.arms is not None and arm.name not in (*scale.arms, study.base_arm):
                    continue
                config = resolve(arm_values(study, scale, arm))
                if config.ngram is None and config.identity not in seen:
                    seen.append(config.identity)
                    yield f"{file.stem}@{name}: {arm.name}", study, config


CASES = list(configs())


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("study", "config"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_one_step_at_full_size(study, config, num_words, tmp_path):
    vocabulary = num_words(config.corpus)
    training = Training(_trial(config, vocabulary, tmp_path), Place(Store(tmp_path), str(tmp_path)))
    assert training.model.shapes.vocabulary == vocabulary
    before = {name: p.detach().clone() for name, p in training.model.named_parameters()}
    training.model.train()
    training._train_window(*training.windows[0])
    assert math.isfinite(training.nll_sum.item())
    after = dict(training.model.named_parameters())
    assert all(torch.isfinite(p).all() for p in after.values())
    assert any(not torch.equal(before[name], after[name]) for name in before)


def _trial(config: Config, vocabulary: int, folder: Path) -> Trial:
    """The config's training on a text of as many words, or letters."""
    text = folder / "text"
    text.mkdir()
    letters = config.corpus.level == "character"
    for split in ("train", "valid", "test"):
        (text / f"{split}.txt").write_text(_text(config, vocabulary, letters), encoding="utf-8")
    values = {**config.flat, "corpus.name": str(text), "corpus.train_tokens": None}
    values |= {"corpus.lowercase": False, "corpus.min_count": 1}
    corpus = CorpusConfig(name=str(text), level=config.corpus.level)
    digest = corpus_digest(corpus, folder)
    return make_trial(resolve(values), values=values, seed=1, corpus_digest=digest)


def _text(config: Config, vocabulary: int, letters: bool) -> str:
    """All words and then some, so that the rows of a batch are long enough; <eos> is one more."""
    words = [chr(0x4E00 + i) if letters else f"w{i}" for i in range(vocabulary - 1)]
    more = config.training.batch_size * ROWS
    order = words + random.Random(1).choices(words, k=more)
    return ("" if letters else " ").join(order) + "\n"
