"""How numbers and names are written: at every border, and on both sides of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ablate.compare.table.columns import decimals, p_value
from ablate.compare.text.figures import count, duration
from ablate.compare.text.labels import labels
from ablate.compare.text.plain import display_width, paragraph, printable
from ablate.config.metrics import ACCURACY, PERPLEXITY
from ablate.store.replication import Replication


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.4, "0s"),
        (59.4, "59s"),
        (59.6, "1m00s"),
        (95, "1m35s"),
        (3599, "59m59s"),
        (3600, "1h00m"),
        (7140, "1h59m"),
        (2 * 3600 + 61, "2h01m"),
        (86_399, "23h59m"),
        (86_400, "1d00h"),
        (86_400 + 3_600, "1d01h"),
        (3 * 86_400 - 1, "2d23h"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "–"),
        (0, "0"),
        (999, "999"),
        (999.4, "999"),
        (1000, "1k"),
        (1_234, "1.23k"),
        (999_499, "999k"),
        (999_500, "1M"),
        (2.32e6, "2.32M"),
        (1e9, "1G"),
        (4.5e12, "4.5T"),
    ],
)
def test_counts(number, text):
    assert count(number) == text


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (None, ""),
        (0.0, "<.001"),
        (0.00099, "<.001"),
        (0.001, ".001"),
        (0.0404, ".040"),
        (0.9994, ".999"),
        (0.9995, "1"),
        (1.0, "1"),
    ],
)
def test_p_values(p, text):
    assert p_value(p) == text


@pytest.mark.parametrize(
    ("means", "digits"),
    [
        ([], 2),
        ([99.9], 2),
        ([100.0], 1),
        ([9_999.0], 1),
        ([10_000.0], 0),
        ([50.0, 60.0, 20_000.0], 2),  # one arm that diverged costs no digits
        ([50.0, 200.0], 1),
    ],
)
def test_a_table_has_as_many_decimals_as_its_typical_perplexity_needs(means, digits):
    arms = [SimpleNamespace(cells={"test": SimpleNamespace(mean=mean)}) for mean in means]
    summary: Any = SimpleNamespace(metric=PERPLEXITY, arms=arms)
    assert decimals(summary) == digits
    assert decimals(SimpleNamespace(metric=ACCURACY, arms=arms)) == ACCURACY.digits  # type: ignore


ALIKE = st.lists(
    st.builds("{}{}{}".format, *[st.text("ab0, ", max_size=30)] * 3), unique=True, max_size=12
)


@settings(max_examples=100, deadline=None)
@given(ALIKE, st.integers(4, 34))
def test_labels_are_short_and_tell_names_apart(names: list[str], most: int):
    cut = labels(names, most)
    assert len({*cut}) == len(names) and all(len(label) <= most for label in cut)
    assert all(x == name for name, x in zip(names, cut, strict=True) if len(name) <= most)


def test_what_tells_names_apart_is_not_cut():
    first, second = (f"AWD-LSTM-DOC with layers 15,5,0,0 and balance {x}" for x in ("0", "0.001"))
    assert labels([first, second], 20) == ["AWD-LSTM-D…balance 0", "AWD-LSTM-D…nce 0.001"]
    middle = [f"{'x' * 30} {x} {'y' * 30}" for x in ("one", "two")]
    one, two = labels(middle, 30)
    assert "one" in one and "two" in two
    assert labels(["long name", "long name"], 5) == ["lo…me", "lo…me"]


def test_the_seeds_of_one_search_are_one_pair():
    """What is measured over all seeds of a search follows them, by the number of the search."""
    searched = Replication(num_seeds=2, num_searches=3)
    assert searched.groups(range(6)) == [[0, 1], [2, 3], [4, 5]]
    assert searched.groups([0, 1, 6, 2, 7]) == [[0, 1, 6], [2, 7]]
    assert searched.means({0: 1.0, 1: 3.0, 5: 7.0}, [0, 1, 5]) == [2.0, 7.0]
    few = Replication(num_seeds=2, num_searches=2)
    assert few.groups(range(3)) == [[0], [1], [2]]
    assert (searched.by_search, few.by_search) == (True, False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("two\nlines\tand\x1b[0m more", "two lines and [0m more"),
        ("balance β ± é Δ 字", "balance beta +- e delta ?"),
    ],
)
def test_printable(text, expected):
    assert printable(text, unicode=False) == expected
    assert printable("β ±") == "β ±"


def test_the_width_of_a_text():
    assert [display_width(text) for text in ("abc", "字", "e\u0301", "")] == [3, 2, 1, 0]
    assert paragraph("one two three", 3) == ["one two", "three"]  # no narrower than ten
    wide = paragraph("日本語のとても長い名前 " * 3 + "abc", 16, "  ")
    assert "".join(wide).replace(" ", "") == "日本語のとても長い名前" * 3 + "abc"
    assert max(map(display_width, wide)) <= 16 and all(line.strip() for line in wide)
    assert paragraph("日" * 6, 10) == ["日" * 5, "日"]
    assert paragraph("aaaaaaaa bbbbbbbb cc", 12, "  ") == ["aaaaaaaa", "  bbbbbbbb", "  cc"]
