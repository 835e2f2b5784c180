"""What `ablate table compare` and `ablate query` print, whole: tests/golden/compared.txt."""

from __future__ import annotations

import itertools
import re

import pytest

from ablate.commands.compare import compare
from ablate.commands.query import query
from ablate.config.metrics import ACCURACY, DISTANCE
from ablate.errors import ConfigError
from ablate.store.study_record import SearchRecord
from tests.support.golden import changes

LONG_NUMBER = re.compile(r"\d+\.\d{8,}(e-?\d+)?")  # whose last digits are the machine's own
BASE = {"head": "softmax", "backbone": "lstm", "backbone.units": 20}


def heads_and_units(recorded) -> None:
    """Two heads at many sizes and seeds; pairs of which a trial diverged, or ran by torch."""
    arms: dict[str, list] = {"softmax": [], "mos": []}
    places = [*itertools.product((20, 30), (1, 2, 3, 4)), (40, 1)]
    for (units, seed), head in itertools.product(places, arms):
        config = {**BASE, "head": head, "backbone.units": units}
        config |= {"head.experts": 15} if head == "mos" else {}
        options = {"seed": seed, "nats": 4.5 - (0.2 + seed / 100) * (head == "mos") + units / 100}
        if (head, seed) == ("mos", 4):
            options["status"] = "diverged"
        if (head, units, seed) == ("mos", 30, 1):
            options["computed_by"] = ["torch: ABLATE_NATIVE=off"]
        elif units == 30:
            options["computed_by"] = ["kernels: g++ 12.2"]
        arms[head].append(recorded.trial(f"{head}{units}{seed}", config, arm=head, **options))
    other = recorded.trial("doc205", {**BASE, "head": "doc"}, seed=5, arm="doc", nats=4.2)
    arms["doc"] = [other]
    arms["mos"].append(recorded.trial("mos205", {**BASE, "head": "mos"}, seed=5, nats=4.4))
    for head, nats in (("mos", 4.0), ("softmax", 4.4)):  # trained on: the pair is of what they were
        arms[head].append(
            recorded.trial(
                f"{head}on",
                {**BASE, "head": head, "training.epochs": 1},
                nats=nats,
                parents=(f"{head}201",),
                stage="again",
            )
        )
    search = SearchRecord(arm="mos", repeat=0, num_trials=1, trials=("mos201",), chosen="mos201")
    recorded.study(
        "heads",
        arms,
        {"mos": {"published": {"valid": 56.5, "test": 54.4}, "num_parameters": 24_000_000}},
        paper="takase2018doc",
        tables=("Table 3",),
        searches=(search,),
        published_scale=True,
    )


def many_sizes(recorded) -> None:
    """45 changes of one pair each: with three others, more than a terminal shows."""
    trials = [
        recorded.trial(f"u{units}", {"backbone": "lstm", "backbone.units": units}, nats=4 + u / 9)
        for u, units in enumerate((5, 6, 7, 8, 9, 10, 11, 12, 13, 14))
    ]
    recorded.study("sizes", {"all": trials})


def digits(recorded) -> None:
    """A user's task with accuracy and a further column, from before and after an edit."""
    task = {"judged_by": ACCURACY, "corpus": "", "corpus_digest": "", "level": ""}
    arms: dict[str, list] = {"plain": [], "dropped": []}
    for (arm, rate), seed in itertools.product((("plain", 0.0), ("dropped", 0.5)), (1, 2, 3)):
        edit = {"digits.py": "b" if seed == 3 and arm == "plain" else "a"}
        own = rate * (1 + seed / 100)
        metrics = {"valid_accuracy": 0.8 + own / 10 + seed / 100, "test_accuracy": 0.79 + rate / 9}
        metrics |= {"word_vectors.distance": 0.1 * seed + rate}
        more = {"seed": seed, "sources": edit, "arm": arm}
        arms[arm].append(
            recorded.function(f"{arm}{seed}", {"rate": rate, "rows": 8}, metrics, **more)
        )
    recorded.study("digits", arms, columns=(DISTANCE,), **task)


QUESTIONS = (
    "SELECT study, arm, split, num, mean, spread, published FROM arms ORDER BY ALL",
    'SELECT trial, seed, "backbone.units" AS units, valid_nll FROM trials ORDER BY 1 LIMIT 4',
    "SELECT repeat('a long text ', 9) AS text, NULL AS nothing, TIMESTAMPTZ '2026-01-02 03:04:05Z'",
    "SELECT 1 WHERE false",
    "SELECT valdi_nll FROM trials",
    'SELECT "head.expert" FROM trials',
    "SELECT head.expert FROM trials",
    "SELECT lr FROM trials",
    "SELECT trials.zzz FROM trials",
    "SELECT * FROM trails",
    "SELECT * FROM zzzzzzz",
    "SELECT count( FROM trials",
    "SELECT 1 +\n  FROM trials WHERE (",
    "SELECT seed + 'a' FROM trials",
    "SELECT 1; SELECT 2",
    "INSERT INTO trials VALUES (1)",
    "EXPLAIN DELETE FROM trials",
    "PIVOT trials ON seed",
    "SELECT * FROM read_csv('x.csv')",
)


def golden_text(workspace) -> str:
    everything = ("heads", "digits")
    compared = [
        (title, compare(workspace, names, slots, split, form))
        for title, names, slots, split, form in (
            ("studies", everything, None, None, "text"),
            ("studies on test", everything, None, "test", "text"),
            ("studies", everything, None, None, "csv"),
            ("a study and a paper", ("heads", "inan2017tying"), None, "valid", "text"),
            ("--except head", (), "head", None, "text"),
            ("--except head", (), "head", None, "csv"),
            ("--except head on test", (), "head", "test", "text"),
            ("--except digits.rate", (), "digits.rate", None, "text"),
            ("--except digits.rate, head", (), "digits.rate, head", None, "text"),
            ("--except digits.rate, head", (), "digits.rate,head", None, "csv"),
            ("--except backbone.units", (), "backbone.units", None, "text"),
            ("--except corpus.name", (), "corpus.name", None, "text"),
        )
    ]
    return "\n\n".join(f"== {title}\n{text}" for title, text in [*compared, *asked(workspace)])


def asked(workspace) -> list[tuple[str, str]]:
    with pytest.raises(ConfigError) as refused:
        compare(workspace, (), "heat", None, "text")
    answers = [("--except heat", f"refused: {refused.value}")]
    for sql in QUESTIONS:
        try:
            answers.append((sql, query(workspace, sql, "text")))
        except ConfigError as refused:
            answers.append((sql, f"refused: {refused}"))
    return answers


@pytest.mark.slow
@pytest.mark.golden
def test_what_is_printed_is_the_golden_text(recorded):
    heads_and_units(recorded)
    many_sizes(recorded)
    digits(recorded)
    text = LONG_NUMBER.sub(lambda found: f"{float(found[0]):.6g}", golden_text(recorded.workspace))
    assert not changes("compared.txt", text + "\n")
