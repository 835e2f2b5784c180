"""Compare finished trials token by token: ensembles, interpolations, sentences.

Reads what each trial saved and runs no model: every trial's loss, an ensemble of them all (the mean
of their probabilities), an interpolation (its weights tuned on validation), and how each differs
from the first trial, by a paired bootstrap over sentences.

A study reads the test split once for each confirmed trial. Every further look at it here is logged
next to each trial (`trials/<id>/readings.json`), and shown.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ablate.commands import _options
from ablate.compare.formats import table_of, text
from ablate.compare.statistics import computed, tokens
from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.tokens import SentenceDifference
from ablate.compare.table.columns import p_value, with_interval
from ablate.compare.text.figures import Unit, unit_of
from ablate.compare.text.plain import paragraph
from ablate.config import fields
from ablate.config.sections import CorpusConfig
from ablate.data.corpus import Corpus, open_corpus
from ablate.errors import TrialError
from ablate.store import journal
from ablate.store import tokens as kept
from ablate.store.journal import Journal
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.store.workspace import Workspace

EXAMPLE = "ablate tokens 3f2a9c 81bb02"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trials", nargs="+", help=_options.TRIALS)
    parser.add_argument(
        "--split",
        choices=("valid", "test"),
        default="valid",
        help="split to read (default: valid); every further read of test is logged",
    )
    _options.add_locations(parser, "workspace", "store")


def run(options: argparse.Namespace) -> str:
    return show_tokens(_options.workspace(options), options.trials, options.split)


WIDTH = 100
ENSEMBLE, INTERPOLATION = "mean of their probabilities", "interpolation"


@dataclass(frozen=True)
class Trials:
    """Trials on one corpus, and their saved log-probabilities."""

    journals: Sequence[Journal]
    store: Store
    data: str

    @cached_property
    def corpus(self) -> Corpus:
        config = self.journals[0].config
        prefix = "corpus."
        values = {k.removeprefix(prefix): v for k, v in config.items() if k.startswith(prefix)}
        return open_corpus(fields.build(CorpusConfig, values, "corpus"), self.data)

    def log_probs(self, split: str) -> list[np.ndarray]:
        num = len(self.corpus.splits[split]) - 1
        return [kept.read(self.store, each.trial.id, split, num) for each in self.journals]


def show_tokens(workspace: Workspace, ids: Sequence[str], split: str) -> str:
    """Return the comparison as text."""
    store = workspace.store
    trials = Trials([_finished(store, each) for each in dict.fromkeys(ids)], store, workspace.data)
    if len(trials.journals) < 2:
        raise TrialError("tokens: name two or more finished trials to compare.")
    digests = {each.trial.corpus_digest for each in trials.journals}
    if len(digests) > 1:
        raise TrialError("tokens: these trials use different corpora, and share no tokens.")
    log_probs = trials.log_probs(split)
    weights = tokens.mixture_weights(trials.log_probs("valid"))
    readings = _remember(store, trials.journals) if split == "test" else 0
    rows = dict(zip(_names(trials.journals), log_probs, strict=True))
    rows[ENSEMBLE] = tokens.mean_probability(log_probs)
    rows[INTERPOLATION] = tokens.mixed(log_probs, weights)
    numbers = tokens.sentences(trials.corpus.splits[split], trials.corpus.eos)
    lines = _lines(rows, numbers, trials.corpus, split, weights, readings)
    not_alike = computed.of_trials({each.trial.id: each for each in trials.journals})
    return "\n".join([*lines, *(_wrapped(not_alike) if not_alike else ())])


def _finished(store: Store, trial: str) -> Journal:
    finished = journal.find(store, trial)
    if finished.status != Status.COMPLETED:
        raise TrialError(f"trial {finished.trial.id} has not completed: it is {finished.status}.")
    return finished


def _names(journals: Sequence[Journal]) -> list[str]:
    return [f"{each.trial.name} ({each.trial.id[:8]})" for each in journals]


def _remember(store: Store, journals: Sequence[Journal]) -> int:
    """Log one more read of the test split; return the largest number of reads so far."""
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
    tested = any(each.p is not None for each in differences)
    change = "Δ first\n[95% interval]" if tested else "Δ first"
    titles = [split, unit, change, "better\nsentences", "Holm\np"]
    shares = " + ".join(f"{weight:.2f}" for weight in weights)
    notes = [
        f"{INTERPOLATION}: {shares}, tuned on valid.",
        _about_intervals(differences[0].num_sentences, tested),
    ]
    if split == "valid":
        notes.append(f"The weights of the {INTERPOLATION} were tuned on these same tokens.")
    if readings:
        notes.append(
            f"The test split's log-probabilities were read again: read number {readings} after the "
            "study's own, logged next to each trial."
        )
    return [*text.lines(table_of(titles, body), WIDTH), *(x for n in notes for x in _wrapped(n))]


def _about_intervals(num: int, tested: bool) -> str:
    sentences = f"{num} sentence{'' if num == 1 else 's'}"
    if tested:
        return (
            f"Intervals: paired bootstrap over {sentences}; they hold for these exact models on "
            "such text, and say nothing about other seeds."
        )
    return (
        f"No interval and no p: this split has {sentences}, and with fewer than "
        f"{tokens.MIN_SENTENCES} a bootstrap interval covers too rarely. A sentence ends with a "
        "line of the text: break long lines, or judge on more text."
    )


def _wrapped(text: str) -> list[str]:
    return paragraph(text, WIDTH, "  ")


def _difference(found: SentenceDifference, unit: Unit, at: float) -> list[Any]:
    def shifted(nats: float) -> float:
        return unit.shift(nats, unit.show(at))

    ends = found.interval and (shifted(found.interval[0]), shifted(found.interval[1]))
    better = f"{found.num_better / found.num_sentences:.0%}"
    return [with_interval(shifted(found.mean), ends, unit.digits), better]
