"""How many tokens a corpus has, without the text where it is pinned."""

from __future__ import annotations

from ablate.config import CorpusConfig
from ablate.data.corpus import open_corpus
from ablate.data.sources import PUBLISHED, SPLITS


def num_tokens(config: CorpusConfig, folder: str) -> dict[str, int]:
    """Tokens by split, as a trial would read them."""
    published = PUBLISHED.get(config.name)
    if published is None or config.level != "word":
        corpus = open_corpus(config, folder)
        return {split: len(corpus.splits[split]) for split in SPLITS}
    limits = {"train": config.train_tokens}
    known = published.num_tokens
    return {
        split: min(known[split], limits.get(split, config.eval_tokens) or known[split])
        for split in SPLITS
    }
