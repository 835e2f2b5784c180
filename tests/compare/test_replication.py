"""What is repeated: seeds or whole searches, and what a table may say of few of them."""

from __future__ import annotations

import csv
import io
import math
import re

import numpy as np
import pytest
from scipy import stats

from ablate import cli
from ablate.compare import formats, plots
from ablate.compare.judged import Judged
from ablate.compare.statistics.power import chances
from ablate.compare.statistics.verdicts import judged
from ablate.compare.table.full_table import every_test
from ablate.config.metrics import PERPLEXITY
from ablate.engine import reading
from ablate.store import study_record
from ablate.store.replication import Replication
from ablate.store.study_record import SearchRecord
from ablate.study.designs import factorial
from tests.support.tables import written

KEY = "0123456789abcdef"
LUCK = (0.0, 0.011, -0.007, 0.004)  # of an arm's searches
WOBBLE = (0.0, 0.002, -0.001)  # of the seeds that confirm one
FEW = [1, 2]


def losses(num: int, effect: float, own: float = 0.3) -> list[float]:
    """Nats of `num` searches, each confirmed on three seeds."""
    return [4.0 + effect + own * luck + seed for luck in LUCK[:num] for seed in WOBBLE]


def searches_of(num: int, arms) -> tuple[SearchRecord, ...]:
    return tuple(
        SearchRecord(arm=arm, repeat=repeat, num_trials=4) for repeat in range(num) for arm in arms
    )


def tuned(by_hand, num: int, effect: float = -0.3, **fields):
    """Two arms, each tuned by `num` searches."""
    study = by_hand({"base": losses(num, 0.0), "better": losses(num, effect, own=-0.3)})
    searches = searches_of(num, study.losses)
    study.record_fields = {"searches": searches, "num_seeds": len(WOBBLE), **fields}
    return study


def tuned_factorial(by_hand, num: int):
    two = {"off": {}, "on": {}}
    design = factorial({"gate": two, "drop": two})
    sizes = {arm.name: -0.2 * i * i for i, arm in enumerate(design.arms)}
    nats = {name: losses(num, at, own=0.1 * i * i) for i, (name, at) in enumerate(sizes.items())}
    study = by_hand(nats, base_arm=design.arms[0].name)
    study.arm_fields = {arm.name: {"levels": dict(arm.levels)} for arm in design.arms}
    fields = {"design": design.kind, "searches": searches_of(num, nats), "num_seeds": len(WOBBLE)}
    study.record_fields = fields
    return study


def summary_of(study) -> Judged:
    return Judged(study.record, study.journals)


def in_one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("num", "header"),
    [
        (1, "1 search an arm, confirmed on 3 paired seeds"),
        (2, "2 searches an arm, each confirmed on 3 paired seeds"),
        (
            3,
            "3 searches an arm, each confirmed on 3 paired seeds (a pair is a search; "
            "over searches, for this test text)",
        ),
    ],
)
def test_the_header_names_searches_and_seeds(by_hand, num, header):
    assert header in in_one_line(written(summary_of(tuned(by_hand, num))))


def test_of_arms_as_listed_it_names_seeds_alone(by_hand):
    study = by_hand({"base": [4.0, 4.1, 4.2], "other": [3.9, 4.0, 4.2]})
    assert "3 paired seeds (over seeds, for this test text) · base arm base" in written(
        summary_of(study)
    )


def test_searches_are_counted_as_such_in_what_would_decide(by_hand):
    """The number of further searches that a test of searches needs, not three times that."""
    summary = summary_of(tuned(by_hand, 3, effect=-0.007))
    comparison = summary.arm("better").comparison
    assert comparison is not None and comparison.difference.num_pairs == 3
    chance = chances(comparison.difference.deltas, 0.05)
    assert chance[comparison.more - 1] >= 0.8 > chance[comparison.more - 2]
    text = in_one_line(written(summary))
    assert f"undecided +{comparison.more}" in text
    assert "+n: more searches that decide it with a probability of 80%" in text
    assert "paired t-test over searches on nats of test" in text


def test_three_searches_may_be_decided(by_hand):
    summary = summary_of(tuned(by_hand, 3))
    better = summary.arm("better")
    assert better.comparison is not None and better.comparison.verdict == "better" and better.best
    assert "*" in written(summary) and "settings found" not in written(summary)


@pytest.mark.parametrize("num", FEW)
def test_fewer_give_no_verdict_and_mark_nothing(by_hand, num):
    """Though every seed says that one arm is better by a quarter."""
    summary = summary_of(tuned(by_hand, num))
    comparison = summary.arm("better").comparison
    assert comparison is not None
    counted = {1: "1 search", 2: "2 searches"}[num]
    assert (comparison.verdict, comparison.reason, comparison.more) == ("no verdict", counted, None)
    assert comparison.p_holm is comparison.difference.p is comparison.difference.p_sign_flip is None
    assert comparison.difference.num_pairs == num * len(WOBBLE)
    assert not any(arm.best for arm in summary.arms)
    note = next(note for note in summary.notes if note.startswith("No verdict"))
    assert counted in note and "repeats=3" in note and "of the settings found" in note


@pytest.mark.parametrize("num", FEW)
@pytest.mark.parametrize("form", formats.names())
def test_every_form_of_the_table_says_so(by_hand, num, form):
    summary = summary_of(tuned(by_hand, num))
    text = re.sub("<style>.*?</style>", "", in_one_line(written(summary, form)))
    assert "no verdict" in text and "settings found" in text
    assert not any(word in text for word in ("better than every", "undecided", "&lt;.001", "<.001"))
    assert not any(mark in text for mark in (" *5", "**5", "\\textbf{5", "<b>"))


def test_csv_has_searches_and_seeds_apart(by_hand):
    for num, unit, of in ((1, "seed", "settings found"), (3, "search", "arms")):
        text = written(summary_of(tuned(by_hand, num)), "csv")
        row = list(csv.DictReader(io.StringIO(text)))[-1]
        assert (row["searches"], row["seeds"]) == (str(num), str(num * len(WOBBLE)))
        assert (row["paired_by"], row["interval_of"], row["pairs"]) == (unit, of, "3")
        assert (row["p"] == "", row["best"]) == ((True, "False") if num == 1 else (False, "True"))


def test_effects_are_paired_by_search_or_have_no_verdict(by_hand):
    few, enough = (summary_of(tuned_factorial(by_hand, num)) for num in (2, 3))
    assert few.effects is not None and enough.effects is not None
    assert {e.verdict for e in few.effects.effects} == {"no verdict"}
    assert {e.p_holm for e in few.effects.effects} == {None}
    assert few.effects.simple == few.effects.readings == ()
    assert "no verdict (2 searches)" in written(few)
    assert {e.difference.num_pairs for e in enough.effects.effects} == {3}
    assert {e.verdict for e in enough.effects.effects} == {"better"}
    assert "over 3 searches" in in_one_line(written(enough))


def test_the_table_of_every_test_says_what_is_paired(by_hand):
    few, enough = (summary_of(tuned(by_hand, num)) for num in (1, 3))
    tests, of_searches = every_test(few), every_test(enough)
    assert tests is not None and of_searches is not None
    assert "nothing is tested" in tests.notes[0] and "over searches" in of_searches.notes[0]
    row = dict(zip(tests.headings, tests.rows[0], strict=True))
    assert (row["t-test p"], row["verdict"]) == ("", "no verdict")
    assert "95% interval of the settings found" in tests.headings


def test_pictures_pair_what_the_table_pairs(by_hand):

    def caption(name: str, judged: Judged) -> str:
        return plots.described(judged, [name])[name].caption

    few, enough = (summary_of(s) for s in _both(by_hand))
    assert "over seeds of the settings found" in caption("deltas", few)
    assert "paired over searches" in caption("deltas", enough)
    assert "over searches" in caption("interactions", enough)


def _both(by_hand):
    return tuned_factorial(by_hand, 1), tuned_factorial(by_hand, 3)


def test_from_python_and_from_the_command_it_is_the_same_table(by_hand, workspace, capsys):
    study = tuned(by_hand, 1)
    study_record.write(workspace.store, study.record)
    for journal in study.journals.values():
        journal.write(workspace.store)
    loaded = reading.load("mixture_layers", workspace=str(workspace.folder))
    comparison = loaded.arm("better").comparison
    assert comparison is not None and (comparison.verdict, comparison.reason) == (
        "no verdict",
        "1 search",
    )
    assert cli.main(["table", "mixture_layers", "--workspace", str(workspace.folder)]) == 0
    assert "no verdict" in capsys.readouterr().out


def test_results_over_all_seeds_are_one_for_each_search(by_hand):
    """Their indices come after all seeds of all searches."""
    replication = Replication(num_seeds=5, num_searches=3)
    assert replication.groups([0, 4, 5, 14]) == [[0, 4], [5], [14]]
    assert replication.groups([15, 16, 17]) == [[15], [16], [17]]
    assert Replication(num_seeds=5, num_searches=2).groups([0, 1, 5]) == [[0], [1], [5]]
    assert Replication(num_seeds=5).groups([0, 1, 5]) == [[0], [1], [5]]


def test_the_mean_of_clustered_seeds_is_called_reproduced_as_rarely_as_stated():
    generator, num, unit = np.random.default_rng(8), 1000, PERPLEXITY
    wrong = by_seeds = 0
    for _ in range(num):
        luck = generator.normal(4.0 + 0.01, 0.004, 3)
        ours = [[*generator.normal(each, 0.0005, 5)] for each in luck]
        wrong += judged(ours, math.exp(4.0), unit, of="search") == "reproduced"
        alone = [[each] for pair in ours for each in pair]
        by_seeds += judged(alone, math.exp(4.0), unit) == "reproduced"
    assert stats.binomtest(wrong, num, 0.025, alternative="greater").pvalue > 0.01
    assert by_seeds > 0.1 * num


def beside_the_paper(by_hand, num: int) -> str:
    there = math.exp(4.0)
    study = by_hand({"base": losses(num, 0.0)})
    study.arm_fields = {"base": {"published": {"test": there}}}
    study.record_fields = {
        "searches": searches_of(num, ["base"]),
        "num_seeds": len(WOBBLE),
        "paper": "",
        "published_scale": True,
    }
    return summary_of(study).verdicts["base", "nll", "test"]


def test_a_search_is_the_unit_of_comparisons_with_published_numbers(by_hand):
    assert beside_the_paper(by_hand, 1) == "not comparable: tuned by 1 search"
    assert beside_the_paper(by_hand, 2) == "not comparable: tuned by 2 searches"
    assert beside_the_paper(by_hand, 3) in ("reproduced", "within seed noise")
