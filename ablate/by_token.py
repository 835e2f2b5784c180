"""`ablate tokens TRIAL...`: finished trials by the token, from what each kept; nothing is run.

Every trial's loss, an ensemble of them all (the mean of their probabilities), an interpolation
(its weights found on validation), and how each differs from the first trial, by a paired
bootstrap over sentences.

The test split is read by a study, once for each confirmed trial. Looking at it again here is
written down beside each trial (`trials/<id>/readings.json`), and shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ablate import fields, journal, kept
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
class Trials:
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
        num = len(self.corpus.splits[split]) - 1
        return [kept.read(self.store, each.trial.id, split, num) for each in self.journals]


def show_tokens(workspace: Workspace, ids: Sequence[str], split: str) -> str:
    """The command's text."""
    store = workspace.store
    trials = Trials([_finished(store, each) for each in dict.fromkeys(ids)], store, workspace.data)
    if len(trials.journals) < 2:
        raise TrialError("tokens: name two finished trials or more, to compare.")
    digests = {each.trial.corpus_digest for each in trials.journals}
    if len(digests) > 1:
        raise TrialError("tokens: these trials are of different corpora, and share no token.")
    log_probs = trials.log_probs(split)
    weights = tokens.mixture_weights(trials.log_probs("valid"))
    readings = _remember(store, trials.journals) if split == "test" else 0
    rows = dict(zip(_names(trials.journals), log_probs, strict=True))
    rows[ENSEMBLE] = tokens.mean_probability(log_probs)
    rows[INTERPOLATION] = tokens.mixed(log_probs, weights)
    numbers = tokens.sentences(trials.corpus.splits[split], trials.corpus.eos)
    return "\n".join(_lines(rows, numbers, trials.corpus, split, weights, readings))


def _finished(store: Store, trial: str) -> Journal:
    found = journal.find(store, trial)
    if found.status != COMPLETED:
        raise TrialError(f"trial {found.trial.id} has not completed: it is {found.status}.")
    return found


def _names(journals: Sequence[Journal]) -> list[str]:
    return [
        f"{each.trial.arm or 'trial'}, seed {each.trial.seed} ({each.trial.id[:8]})"
        for each in journals
    ]


def _remember(store: Store, journals: Sequence[Journal]) -> int:
    """Write down that the test split was read once more; the most that any was, so far."""
    ids = [each.trial.id for each in journals]
    others = {own: [other for other in ids if other != own] for own in ids}
    return max(kept.remember_reading(store, own, "ablate tokens", others[own]) for own in ids)


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
