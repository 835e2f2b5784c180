"""What models remember of the text survives an interruption, and evaluation that moves weights."""

from __future__ import annotations

import pytest

from ablate.config.identity import make_trial
from ablate.config.resolve import resolve
from ablate.lm.data.corpus import corpus_digest
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.trial.run import TrialRun

LETTERS = {"words": "characters", "words.widths": [1, 2], "words.features": [3, 5]}
VALUES = {
    "corpus.name": "grammar",
    "corpus.train_tokens": 400,
    "corpus.eval_tokens": 120,
    "embedding.size": 8,
    "backbone": "lstm",
    "backbone.num_layers": 1,
    "backbone.units": 8,
    "head": "pointer_sentinel",
    "head.length": 30,  # longer than a window
    "loss": "guided_pointer",
    "optimizer": "adam",
    "training.epochs": 1,
    "training.batch_size": 4,
    "training.window": 12,
    "training.accumulate": 2,  # parts of the rows, each with its memory
    "evaluator": "dynamic",
    "evaluator.dynamic.rule": "sgd",
}

# Matrices, and what stabilizes them, [heads, rows]: states of other shapes than [1, rows, units].
BACKBONES = {
    "gated_delta": {},
    "xlstm": {"backbone.num_layers": 2, "backbone.slstm_at": [2]},
}
MORE = {
    "table": {},
    "letters": LETTERS,
    **{name: {"backbone": name, "backbone.heads": 2, **own} for name, own in BACKBONES.items()},
}


@pytest.mark.parametrize("more", MORE.values(), ids=MORE)
def test_what_is_remembered_goes_on_from_a_checkpoint_to_the_same_bits(tmp_path, data, more):
    config = resolve({**VALUES, **more})
    digest = corpus_digest(config.corpus, data)
    trial = make_trial(config, values={**VALUES, **more}, seed=1, corpus_digest=digest)
    whole, cut = (TrialRun(trial, Store(tmp_path / name), data) for name in ("whole", "cut"))
    while not whole.advance(60):
        pass
    assert whole.journal.status == Status.COMPLETED, whole.journal.outcome
    while not cut.advance(0.0):  # one update
        cut.save()
        cut = TrialRun(trial, Store(tmp_path / "cut"), data)
    assert cut.journal.outcome.digest == whole.journal.outcome.digest
    assert cut.journal.outcome.metrics == whole.journal.outcome.metrics
    assert len(cut.journal.attempts) > 5
