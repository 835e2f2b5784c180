"""What rows and conditions mean, and which of them are refused."""

from __future__ import annotations

from typing import Any

import pytest

from ablate.errors import SpaceError
from ablate.space.row import Choices, Row
from ablate.space.space import Space, load
from tests.support.spaces import SMALL, every, written


@pytest.fixture
def small(tmp_path) -> Space:
    return load(written(tmp_path, SMALL))


def test_rows_are_asked_for_once_their_conditions_are_known(small):
    suggested: list[str] = []

    def suggest(row: Row) -> Any:
        suggested.append(row.name)
        domain = row.domain
        return domain.values[-1] if isinstance(domain, Choices) else domain.ends[0]

    assert small.sample(suggest, "ptb") == {
        "optimizer.learning_rate": 1e-3,
        "training.epochs": 1,
        "backbone.rank": 50,
        "backbone": "mogrifier",
        "embedding.size": 4,
        "backbone.last_units": 4,
        "training.batch_size": 20,
    }
    assert suggested == ["Rate", "Epochs", "Kind", "Depth", "Rank and file", "Width"]


def test_open_rows_and_fixed_values(small):
    assert [row.name for row in small.open_rows("ptb")] == [
        *("Rate", "Epochs", "Rank and file", "Kind", "Depth", "Units", "Width"),
    ]
    assert small.values("wikitext-2") == {"training.batch_size": 80}
    assert small.values("ptb", {"Width": 4}) == {
        "embedding.size": 4,
        "backbone.last_units": 4,
        "training.batch_size": 20,
    }
    assert small.corpora == ("ptb", "wikitext-2")


def test_a_corpus_that_the_table_does_not_have_is_refused(small):
    for ask in (small.values, small.open_rows):
        with pytest.raises(SpaceError) as error:
            ask("wikitext2")
        assert str(error.value) == (
            f"{small.path}:1: the values differ by corpus: unknown corpus 'wikitext2'. "
            "Did you mean 'wikitext-2'? Expected one of: ptb, wikitext-2."
        )
    with pytest.raises(SpaceError, match="unknown corpus 'None'"):
        small.values()


def test_a_suggestion_outside_its_row_is_refused(small):
    with pytest.raises(SpaceError) as error:
        small.sample(lambda row: 2.0, "ptb")
    assert str(error.value) == (
        f"{small.path}:5: row 'Rate': 2.0 was suggested. Expected: 0.001 .. 1.0, log scale."
    )


def test_a_condition_on_a_field_outside_the_file_is_told_by_what_is_fixed(tmp_path):
    text = SMALL.replace("Kind = mogrifier", "head = doc")
    loaded = load(written(tmp_path, text))
    points = list(every(loaded, "ptb", {"head": "doc", "Rate": 1, "Depth": 2}))
    assert any("backbone.rank" in values for values in points)
    base = {"head": "mos", "training.epochs": 99}
    points = list(every(loaded, "ptb", {"Rate": 1, "Depth": 2}, base=base))
    assert {values["training.epochs"] for values in points} == {1, 2, 3, 4, 5}
    assert not any("backbone.rank" in values for values in points)
    with pytest.raises(SpaceError) as error:
        loaded.values("ptb")
    assert str(error.value) == (
        f"{loaded.path}:15: row 'Rank and file': when 'head = doc and Depth != 1' needs 'head', "
        "which no row of this file sets. Set it in the base or in the arm."
    )


def test_a_field_may_have_rows_whose_conditions_exclude_each_other(tmp_path):
    more = '\n["Few"]\nfield = "training.window"\nvalue = 5\nwhen = "Depth = 1"\n'
    more += '\n["Many"]\nfield = "training.window"\nvalue = 50\nwhen = "Depth > 1"\n'
    loaded = load(written(tmp_path, SMALL + more))
    windows = {
        depth: next(every(loaded, "ptb", {"Rate": 1, "Depth": depth}))["training.window"]
        for depth in (1, 2)
    }
    assert windows == {1: 5, 2: 50}
    loaded = load(written(tmp_path, SMALL + more.replace("Depth > 1", "Depth >= 1")))
    with pytest.raises(SpaceError) as error:
        next(every(loaded, "ptb", {"Rate": 1, "Depth": 1}))
    assert str(error.value) == (
        f"{loaded.path}:49: row 'Many': field 'training.window' is set by row 'Few' (line 44) at "
        "the same time. Instead: use conditions that exclude each other."
    )


def test_prose_and_place_are_no_part_of_what_a_space_is(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    one = load(written(tmp_path, SMALL))
    other = load(written(tmp_path / "elsewhere", "\n# moved\n" + SMALL + 'note = "a remark"\n'))
    assert one.identity == other.identity
    assert repr(one.rows) == repr(other.rows)
    changed = load(written(tmp_path, SMALL.replace("[1, 5]", "[1, 6]")))
    assert changed.identity != one.identity


CONDITIONS = {
    "Kind = mogrfier": "'Kind' is never 'mogrfier'. Did you mean 'mogrifier'? "
    "Expected: lstm | mogrifier.",
    "backbone != rhn": "'backbone' is never 'rhn'. Expected: lstm | mogrifier.",
    "Depth in [1, 9]": "'Depth' is never 9. Expected: 1 | 2 | 3.",
    "Depth = true": "'Depth' is never True. Expected: 1 | 2 | 3.",
    "Epochs = 9": "'Epochs' is never 9. Expected: 1 .. 5, whole.",
    "Last = 3": "'Last' is never 3. Expected: 2 | 4.",
    "Depth < deep": "'Depth < deep' needs a number after '<', not 'deep'.",
}
UNREADABLE = (
    "Kind",
    "Kind mogrifier",
    "Kind = ",
    "Kind in mogrifier",
    "Kind == lstm",
    "Kind = [1]",
)


@pytest.mark.parametrize("condition", [*CONDITIONS, *UNREADABLE])
def test_a_condition_that_cannot_be_is_refused(condition, tmp_path):
    text = SMALL.replace("Kind = mogrifier and Depth != 1", condition)
    path = written(tmp_path, text)
    with pytest.raises(SpaceError) as error:
        load(path)
    cannot = (
        f"'{condition}' is not a valid condition. Expected: 'NAME = VALUE', with = != < <= > >= or "
        "'in [..]', joined by ' and '."
    )
    rest = CONDITIONS.get(condition, cannot)
    assert str(error.value) == f"{path}:18: row 'Rank and file': when: {rest}"


def test_a_rule_between_rows_is_refused_with_what_says_it_now(tmp_path):
    rule = 'require = ["Units = Width"]'
    path = written(tmp_path, SMALL.replace("# Every kind of row.", rule))
    with pytest.raises(SpaceError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}:3: rules between rows (`require`) are no longer")
    assert 'same_as = "ROW"' in str(error.value) and 'when = "ROW <= 3"' in str(error.value)


def test_a_longer_circle_is_named_whole(tmp_path):
    text = SMALL.replace(
        'choices = ["lstm", "mogrifier"]', 'choices = ["lstm"]\nwhen = "Units = 2"'
    )
    path = written(tmp_path, text.replace("Kind = mogrifier", "Kind = lstm"))
    with pytest.raises(SpaceError) as error:
        load(path)
    assert str(error.value) == (
        f"{path}:15: row 'Rank and file': these rows depend on each other: "
        "Rank and file -> Kind -> Units -> Rank and file."
    )
