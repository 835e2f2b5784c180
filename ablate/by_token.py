"""`ablate tokens TRIAL...`: finished trials by the token, from what each kept; nothing is run.

Every trial's loss, an ensemble of them all (the mean of their probabilities), an interpolation
(its weights found on validation), and how each differs from the first trial, by a paired
bootstrap over sentences.

The test split is read by a study, once for each confirmed trial. Looking at it again here is
written down beside each trial (`trials/<id>/readings.json`), and shown.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ablate import fields, journal
from ablate.compare import statistics, tokens
from ablate.compare.columns import p_value
from ablate.compare.figures import signed
from ablate.compare.tokens import SentenceDifference
from ablate.compare.units import Unit, unit_of
from ablate.config import CorpusConfig
from ablate.data.corpus import Corpus, open_corpus
from ablate.errors import TrialError
from ablate.journal import COMPLETED, Journal
from ablate.layout import Grid, paragraph
from ablate.store import Store
from ablate.workspace import Workspace

WIDTH = 100
ENSEMBLE, INTERPOLATION = "mean of their probabilities", "interpolation"


@dataclass(frozen=True)
class Kept:
    """Trials of one corpus, and the log-probabilities that they kept."""

    journals: Sequence[Journal]
    store: Store
    data: str

    @cached_property
    def corpus(self) -> Corpus:
        config = self.journals[0].config
        prefix = "corpus."
        own = {k.removeprefix(prefix): v for k, v in config.items() if k.startswith(prefix)}
        return open_corpus(fields.build(CorpusConfig, own, "corpus"), self.data)

    def log_probs(self, split: str) -> list[np.ndarray]:
        found = [_log_probs(self.store, each, split) for each in self.journals]
        num = len(self.corpus.splits[split]) - 1
        for each, values in zip(self.journals, found, strict=True):
            if len(values) != num:
                raise TrialError(
                    f"trial {each.trial.id} kept {len(values)} log-probabilities of {split}, whose "
                    f"judged tokens are {num}: they cannot be set token by token."
                )
        return found


def show_tokens(workspace: Workspace, ids: Sequence[str], split: str) -> str:
    """The command's text."""
    store = workspace.store
    kept = Kept([_finished(store, each) for each in dict.fromkeys(ids)], store, workspace.data)
    if len(kept.journals) < 2:
        raise TrialError("tokens: name two finished trials or more, to compare.")
    digests = {each.trial.corpus_digest for each in kept.journals}
    if len(digests) > 1:
        raise TrialError("tokens: these trials are of different corpora, and share no token.")
    log_probs = kept.log_probs(split)
    weights = tokens.mixture_weights(kept.log_probs("valid"))
    readings = _remember(store, kept.journals, split) if split == "test" else 0
    rows = dict(zip(_names(kept.journals), log_probs, strict=True))
    rows[ENSEMBLE] = tokens.mean_probability(log_probs)
    rows[INTERPOLATION] = tokens.mixed(log_probs, weights)
    numbers = tokens.sentences(kept.corpus.splits[split], kept.corpus.eos)
    return "\n".join(_lines(rows, numbers, kept.corpus, split, weights, readings))


def _finished(store: Store, trial: str) -> Journal:
    found = journal.find(store, trial)
    if found.status != COMPLETED:
        raise TrialError(f"trial {found.trial.id} has not completed: it is {found.status}.")
    return found


def _log_probs(store: Store, found: Journal, split: str) -> np.ndarray:
    """log p of every token of a split but its first."""
    import pyarrow as pa

    data = store.read(f"trials/{found.trial.id}/tokens/{split}.arrow")
    if data is None:
        raise TrialError(
            f"trial {found.trial.id} kept no log-probabilities of {split}. Trials keep those of "
            "the splits that they read: valid, and test where a trial is an arm's last."
        )
    with pa.ipc.open_file(pa.BufferReader(data)) as reader:
        column = reader.get_batch(0).column("log_prob")  # to_numpy would import pandas
    buffer = column.buffers()[1]
    return np.frombuffer(buffer, np.float32, len(column), 4 * column.offset).astype(np.float64)


def _names(journals: Sequence[Journal]) -> list[str]:
    return [
        f"{each.trial.arm or 'trial'}, seed {each.trial.seed} ({each.trial.id[:8]})"
        for each in journals
    ]


def _remember(store: Store, journals: Sequence[Journal], split: str) -> int:
    """Write down that the test split was read once more; the most that any was, so far."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    most = 0
    for each in journals:
        key = f"trials/{each.trial.id}/readings.json"
        others = [other.trial.id for other in journals if other is not each]
        entry = {"at": now, "split": split, "by": "ablate tokens", "with": others}
        readings = [*(store.read_json(key) or []), entry]
        store.write_json(key, readings)
        most = max(most, len(readings))
    return most


def _lines(
    rows: Mapping[str, np.ndarray],
    numbers: np.ndarray,
    corpus: Corpus,
    split: str,
    weights: Sequence[float],
    readings: int,
) -> list[str]:
    unit = unit_of(corpus.level)
    first, *others = rows
    differences = [tokens.sentence_bootstrap(rows[name], rows[first], numbers) for name in others]
    corrected = statistics.holm([each.p for each in differences])
    body = [[first, unit.text(-rows[first].mean()), "", "", ""]]
    for name, difference, p in zip(others, differences, corrected, strict=True):
        loss = unit.text(-rows[name].mean())
        body.append([name, loss, *_difference(difference, unit, -rows[first].mean()), p_value(p)])
    titles = [split, unit.name, "Δ first\n[95% interval]", "better\nsentences", "Holm\np"]
    shares = " + ".join(f"{weight:.2f}" for weight in weights)
    notes = [
        f"{INTERPOLATION}: {shares}, as found on valid.",
        f"Intervals: paired bootstrap over {differences[0].num_sentences} sentences; they are of "
        "these very models on such text, and say nothing of other seeds.",
    ]
    if split == "valid":
        notes.append(f"The weights of the {INTERPOLATION} were found on these very tokens.")
    if readings:
        notes.append(
            f"The test split's log-probabilities were read again here: reading {readings} after "
            "the study's own, written down beside each trial."
        )
    return [*Grid(titles, body).lines(WIDTH, "-"), *(x for n in notes for x in _wrapped(n))]


def _wrapped(text: str) -> list[str]:
    return paragraph(text, WIDTH, "  ")


def _difference(found: SentenceDifference, unit: Unit, at: float) -> list[Any]:
    shifted = [unit.shift(nats, unit.show(at)) for nats in (found.mean, *found.interval)]
    delta, low, high = (signed(each, unit.digits) for each in shifted)
    return [f"{delta} [{low}, {high}]", f"{found.num_better / found.num_sentences:.0%}"]
