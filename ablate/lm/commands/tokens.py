"""Compare finished trials token by token: ensembles, interpolations, sentences.

Reads what each trial saved and runs no model: every trial's loss, an ensemble of them all (the mean
of their probabilities), an interpolation (its weights tuned on validation), and how each differs
from the first trial, over blocks of sentences. Trials that wrote sentences (evaluator
`generate`) are also compared by BLEU and ROUGE.

A study reads the test split once for each confirmed trial. Every further look at it here is logged
next to each trial (`trials/<id>/readings.json`), and shown.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ablate.commands import _options
from ablate.compare.formats import table_of, text
from ablate.compare.statistics import computed, tokens
from ablate.compare.statistics import paired as statistics
from ablate.compare.statistics.tokens import SentenceDifference
from ablate.compare.table.columns import p_value, with_interval
from ablate.compare.text.figures import shown
from ablate.compare.text.plain import paragraph
from ablate.config import fields
from ablate.config.metrics import BITS, PERPLEXITY, Metric
from ablate.config.resolve import kind_of
from ablate.config.tasks import FUNCTION
from ablate.errors import TrialError
from ablate.lm.commands import _sentences
from ablate.lm.data.corpus import Corpus, open_corpus
from ablate.lm.data.pairs import Pairs
from ablate.store import journal
from ablate.store import sentences as written
from ablate.store import tokens as saved
from ablate.store.journal import Journal
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.store.workspace import Workspace

EXAMPLE = "ablate trial tokens 3f2a9c 81bb02"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate trial tokens`."""
    parser.add_argument("trials", nargs="+", help=_options.TRIALS)
    parser.add_argument(
        "--split",
        choices=("valid", "test"),
        default="valid",
        help="split to read (default: valid); every further read of test is logged",
    )
    _options.add_locations(parser, "workspace", "store")


def run(options: argparse.Namespace) -> str:
    """Return how trials differ token by token, or sentence by sentence."""
    return show_tokens(_options.workspace(options), options.trials, options.split)


WITHOUT_SENTENCES = "these trials wrote no sentences, which the evaluator `generate` does."
ENSEMBLE, INTERPOLATION = "mean of their probabilities", "interpolation"


def show_tokens(workspace: Workspace, ids: Sequence[str], split: str) -> str:
    """Return the comparison as text."""
    store = workspace.store
    # A trial that is named twice counts once.
    journals = [_finished(store, trial_id) for trial_id in dict.fromkeys(ids)]
    if len(journals) < 2:
        raise TrialError("tokens: name two or more finished trials to compare.")
    # Compared token by token, so every trial must have read the very same text.
    if len({journal.trial.corpus_digest for journal in journals}) > 1:
        raise TrialError("tokens: these trials use different corpora, and share no tokens.")
    corpus = _corpus(journals[0], workspace.data)
    lines = _parts(store, journals, corpus, split)
    if split == "test":
        lines += _wrapped(
            "What was saved of the test split was read again: read number "
            f"{_log_read(store, journals)} after the study's own, logged next to each trial."
        )
    caution = computed.of_trials({journal.trial.id: journal for journal in journals})
    return "\n".join([*lines, *(_wrapped(caution) if caution else ())])


def _corpus(journal: Journal, data: str) -> Corpus | Pairs:
    prefix, config = "corpus.", journal.config
    values = {k.removeprefix(prefix): v for k, v in config.items() if k.startswith(prefix)}
    section = kind_of(config).sections["corpus"]
    return open_corpus(fields.build(section, values, "corpus"), data)


def _parts(
    store: Store, journals: Sequence[Journal], corpus: Corpus | Pairs, split: str
) -> list[str]:
    """The tables: of a text, its tokens; of pairs, the tokens and sentences that were saved."""
    if isinstance(corpus, Corpus):
        return _of_tokens(store, journals, corpus, split)
    ids = [journal.trial.id for journal in journals]
    has_tokens = any(saved.kept(store, trial_id, split) for trial_id in ids)
    lines = _of_tokens(store, journals, corpus, split) if has_tokens else []
    if has_tokens and not any(written.kept(store, trial_id, split) for trial_id in ids):
        return [*lines, *_wrapped(f"No BLEU and no ROUGE: {WITHOUT_SENTENCES}")]
    scored = _of_sentences(store, journals, corpus, split, alone=not has_tokens)
    return [*lines, "", *scored] if has_tokens else scored


def _of_tokens(
    store: Store, journals: Sequence[Journal], corpus: Corpus | Pairs, split: str
) -> list[str]:
    log_probs = _log_probs(store, journals, corpus, split)
    # On validation whatever is shown: weights tuned on test would be chosen by its result.
    weights = tokens.mixture_weights(_log_probs(store, journals, corpus, "valid"))
    rows = dict(zip(_names(journals), log_probs, strict=True))
    rows[ENSEMBLE] = tokens.mean_probability(log_probs)
    rows[INTERPOLATION] = tokens.mixed(log_probs, weights)
    numbers = tokens.sentences(corpus.splits[split], corpus.eos, _first_judged(corpus))
    metric = BITS if isinstance(corpus, Corpus) and corpus.level == "character" else PERPLEXITY
    return _lines(rows, numbers, metric, split, weights)


def _of_sentences(
    store: Store, journals: Sequence[Journal], corpus: Pairs, split: str, alone: bool
) -> list[str]:
    """Return the table of scores. `alone`: no other table says what the intervals are."""
    references = corpus.references(split)
    num, ids = len(references), [journal.trial.id for journal in journals]
    texts = [written.read(store, trial_id, split, num) for trial_id in ids]
    tokenizers = _tokenizers(journals[0])
    rows = dict(zip(_names(journals), texts, strict=True))
    table = _sentences.scores_table(rows, references, tokenizers, split)
    notes = [f"{_sentences.signatures(references, tokenizers)}."]
    if alone:
        notes.append(_about_intervals(num, num >= tokens.MIN_SENTENCES))
    return [*text.lines(table), *(line for note in notes for line in _wrapped(note))]


def _tokenizers(journal: Journal) -> _sentences.Tokenizers:
    """The tokenizers of the trial's own scores; older trials name none for ROUGE: the default."""
    names = {"bleu": "tokenizer", "rouge": "rouge_tokenizer"}
    own = {score: journal.config.get(f"evaluator.generate.{name}") for score, name in names.items()}
    return _sentences.Tokenizers(**{score: name for score, name in own.items() if name})


def _log_probs(
    store: Store, journals: Sequence[Journal], corpus: Corpus | Pairs, split: str
) -> list[np.ndarray]:
    num = len(corpus.splits[split]) - _first_judged(corpus)
    return [saved.read(store, journal.trial.id, split, num) for journal in journals]


def _first_judged(corpus: Corpus | Pairs) -> int:
    """The first token of a text is not predicted; of a target sentence, every token is."""
    return 1 if isinstance(corpus, Corpus) else 0


def _finished(store: Store, trial: str) -> Journal:
    finished = journal.find(store, trial)
    if finished.status != Status.COMPLETED:
        raise TrialError(f"trial {finished.trial.id} has not completed: it is {finished.status}.")
    if finished.trial.runner == FUNCTION:
        task = finished.config.get("task")
        raise TrialError(f"tokens: trial {finished.trial.id} is of the task '{task}': no text.")
    return finished


def _names(journals: Sequence[Journal]) -> list[str]:
    return [f"{journal.trial.name} ({journal.trial.id[:8]})" for journal in journals]


def _log_read(store: Store, journals: Sequence[Journal]) -> int:
    """Log one more read of the test split; return the largest number of reads so far."""
    ids = [journal.trial.id for journal in journals]
    others = {own: [other for other in ids if other != own] for own in ids}
    return max(
        saved.remember_reading(store, own, "ablate trial tokens", others[own]) for own in ids
    )


def _lines(
    rows: Mapping[str, np.ndarray],
    numbers: np.ndarray,
    metric: Metric,
    split: str,
    weights: Sequence[float],
) -> list[str]:
    first, *others = rows
    differences = [tokens.sentence_difference(rows[name], rows[first], numbers) for name in others]
    corrected = statistics.holm([difference.p for difference in differences])
    body = [[first, shown(metric, -rows[first].mean()), "", "", ""]]
    for name, difference, p in zip(others, differences, corrected, strict=True):
        loss = shown(metric, -rows[name].mean())
        body.append([name, loss, *_cells(difference, metric, -rows[first].mean()), p_value(p)])
    tested = any(difference.interval is not None for difference in differences)
    change = "Δ first\n[95% interval]" if tested else "Δ first"
    titles = [split, metric.shown, change, "better\nsentences", "Holm\np"]
    shares = " + ".join(f"{weight:.2f}" for weight in weights)
    notes = [
        f"{INTERPOLATION}: {shares}, tuned on valid.",
        _about_intervals(differences[0].num_sentences, tested),
    ]
    if split == "valid":
        notes.append(f"The weights of the {INTERPOLATION} were tuned on these same tokens.")
    return [*text.lines(table_of(titles, body)), *(x for n in notes for x in _wrapped(n))]


def _about_intervals(num: int, tested: bool) -> str:
    sentences = f"{num} sentence{'' if num == 1 else 's'}"
    if tested:
        return (
            f"Intervals: over {sentences} in {tokens.num_blocks(num)} blocks of neighbours; they "
            "hold for these exact models on such text, and say nothing about other seeds."
        )
    return (
        f"No interval and no p: this split has {sentences}, and with fewer than "
        f"{tokens.MIN_SENTENCES} an interval covers too rarely. A sentence ends with a "
        "line of the text: break long lines, or judge on more text."
    )


def _wrapped(note: str) -> list[str]:
    return paragraph(note, text.terminal_width(), "  ")


def _cells(difference: SentenceDifference, metric: Metric, at: float) -> list[Any]:
    def shifted(nats: float) -> float:
        # A difference of losses has no fixed size in perplexity: it is shown at the first's.
        return metric.shift(nats, metric.show(at))

    ends = difference.interval
    interval = ends and (shifted(ends[0]), shifted(ends[1]))
    better = f"{difference.num_better / difference.num_sentences:.0%}"
    return [with_interval(shifted(difference.mean), interval, metric.digits), better]
