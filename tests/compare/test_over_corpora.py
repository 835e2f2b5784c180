"""What corpora have in common: rows over three of them or more, by tables made by hand."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from ablate.compare.formats import text, writer
from ablate.compare.judged import Judged
from ablate.compare.statistics.over_corpora import over_corpora
from ablate.compare.table.corpora_table import over_corpora_numbers, over_corpora_table
from ablate.results.verdict import Verdict
from tests.support.studies_by_hand import ByHand

CORPORA = ("ptb", "wikitext-2", "grammar", "text8")


def on(corpus, effects, corpora=CORPORA[:3], seeds=4, noise=0.02, **fields):
    """A corpus on which each arm has an effect, with noise of its own for each seed."""
    draws = np.random.default_rng([CORPORA.index(corpus), seeds])
    base = [4.0 + 0.1 * CORPORA.index(corpus) + float(draws.normal(0, 0.1)) for _ in range(seeds)]
    losses = {"base": base}
    for arm, effect in effects.items():
        losses[arm] = [one + effect + float(draws.normal(0, noise)) for one in base]
    of = {"scale": f"s.{corpus}", "one_of": "s", "corpora": corpora, **fields}
    return ByHand(losses, record_fields=of)


def summaries(*studies):
    return [Judged(study.record, study.journals) for study in studies]


def test_the_rows_over_all_are_a_t_test_over_the_means_of_corpora():
    found = over_corpora(
        summaries(*(on(c, {"a": e, "b": 0.3 * e}, seeds=n) for c, e, n in EFFECTS))
    )
    rows = {row.arm: row for row in found.rows if not row.corpus}
    corpora = [corpus for corpus, _, _ in EFFECTS for _ in range(3)]
    assert [row.corpus for row in found.rows] == [*corpora, "", ""]
    means = {arm: [mean_of(found, corpus, arm) for corpus, _, _ in EFFECTS] for arm in rows}
    p = {arm: stats.ttest_1samp(values, 0).pvalue for arm, values in means.items()}
    for arm, row in rows.items():
        assert row.over.difference.p == pytest.approx(p[arm])
        assert row.over.difference.mean == pytest.approx(np.mean(means[arm]))
        assert row.over.difference.spread == pytest.approx(np.std(means[arm], ddof=1))
        assert (row.num_alike, row.num) == (3, 3)
    assert rows["a"].over.p_holm == pytest.approx(2 * p["a"])
    assert rows["a"].over.verdict == Verdict.BETTER


EFFECTS = [("ptb", -0.20, 4), ("wikitext-2", -0.21, 5), ("grammar", -0.19, 9)]


def mean_of(found, corpus, arm):
    row = next(row for row in found.rows if (row.corpus, row.arm) == (corpus, arm))
    losses, base = (row.of.arm(name).values for name in (arm, "base"))
    return np.mean([losses[seed] - base[seed] for seed in losses])


def test_an_effect_that_turns_between_corpora_is_undecided_whatever_its_seeds_say():
    effects = [("ptb", -0.3), ("wikitext-2", 0.3), ("grammar", -0.2)]
    found = over_corpora(summaries(*(on(c, {"a": e}, seeds=12) for c, e in effects)))
    assert [row.own.comparison.verdict.decided for row in found.rows if row.arm == "a" and row.own]
    last = found.rows[-1]
    assert (last.over.verdict, last.num_alike) == (Verdict.UNDECIDED, 2)


def test_it_decides_only_when_every_corpus_has_been_run():
    three = [on(c, {"a": -0.2}, CORPORA) for c in CORPORA[:3]]
    found = over_corpora(summaries(*three))
    over = found.rows[-1].over
    assert (over.verdict, over.reason) == (
        Verdict.UNDECIDED,
        "results missing on 1 of 4 corpora",
    )
    assert "Not run yet on text8." in text.write(over_corpora_table(found))
    del three[1].journals["a-2"]
    assert over_corpora(summaries(*three)).rows[-1].over.reason.startswith("results missing on 2")


@pytest.mark.parametrize(("arm", "effect"), [("a", -0.2), ("base", 0.2)])
def test_lost_seeds_on_one_corpus_forbid_the_verdict_that_they_favour(arm, effect):
    three = [on(c, {"a": effect}) for c in CORPORA[:3]]
    assert over_corpora(summaries(*three)).rows[-1].over.verdict.decided
    three[2].end(f"{arm}-0", "diverged", metrics={})
    over = over_corpora(summaries(*three)).rows[-1].over
    assert (over.verdict, "lost seeds" in over.reason) == (Verdict.UNDECIDED, True)


def test_settings_that_too_few_searches_found_or_that_corpora_share_give_no_verdict():
    for fields in ({"num_searches": 1}, {"num_searches": 3, "settings_of": "search"}):
        three = [on(c, {"a": -0.2}, seeds=9, **fields) for c in CORPORA[:3]]
        three = [replace(s, record_fields={**s.record_fields, "num_seeds": 3}) for s in three]
        assert over_corpora(summaries(*three)).rows[-1].over.verdict == Verdict.WITHHELD


def test_programs_get_every_row_unrounded():
    found = over_corpora(summaries(*(on(c, {"a": e}) for c, e, _ in EFFECTS)))
    rows = [*csv.DictReader(io.StringIO(writer("csv").write(over_corpora_numbers(found))))]
    keys = [f"mixture_layers@s.{c}" for c in CORPORA[:3] for _ in "ab"]
    assert [row["study"] for row in rows] == [*keys, "mixture_layers@s"]
    last, over = rows[-1], found.rows[-1].over
    assert float(last["delta_nats"]) == over.difference.mean
    assert (last["paired_by"], last["verdict"], last["same_sign"]) == ("corpus", "better", "3")
