"""docs/calibration.md is of the code as it is, keeps its limits, and catches its twins."""

from __future__ import annotations

import ast

import numpy as np
import pytest

from tests.lab.calibration import page, sources
from tests.lab.calibration.row import Case, Limit, Measured, Row, Simulated, hold_equal, rate
from tests.lab.calibration.rows import ROWS
from tests.lab.calibration.run import measure

NUMBERS = page.read()
EACH_ROW = pytest.mark.parametrize("name", ROWS)
AGAIN = "run `make calibrate` (minutes), and read the diff of docs/calibration.md"


@EACH_ROW
def test_the_numbers_are_of_the_code_as_it_is(name):
    measured = NUMBERS.get(name, {}).get("digest")
    assert measured == sources.digest(name), f"{name}: the code has changed since; {AGAIN}"


@EACH_ROW
def test_every_rate_keeps_its_limit_and_every_twin_is_caught(name):
    row, found = ROWS[name], page.simulated(NUMBERS[name])
    assert {case.what for case in row.cases} == set(found), AGAIN
    assert [fault for case in row.cases for fault in row.faults(case, found[case.what])] == []


@EACH_ROW
def test_every_row_with_a_limit_has_a_twin(name):
    found = page.simulated(NUMBERS[name]).values()
    assert any(one.twin for one in found) == bool(ROWS[name].twin)


def test_the_page_is_that_of_the_numbers():
    assert page.PAGE.read_text() == page.written(NUMBERS), AGAIN


@pytest.mark.parametrize("name", ["any_time", "clusters"])
def test_rows_can_be_measured(name):
    row, found = ROWS[name], measure(name, 1_000)
    faults = [row.faults(case, found[case.what], few=True) for case in row.cases]
    assert faults == [[]] * len(row.cases)
    assert measure(name, 1_000) == found


ROW = Row(
    name="A row",
    promise="",
    draws="",
    of="draws",
    limit=Limit(most=5.5),
    twin="a wrong way",
    cases=(),
)


def out_of(hits: int, num: int = 10_000) -> Measured:
    return rate(np.arange(num) < hits)


def a_case(beyond: str = "", limit: Limit | None = None) -> Case:
    return Case("a case", lambda *_: Simulated(out_of(0)), limit=limit, beyond=beyond)


def test_a_rate_beyond_its_limit_and_a_twin_within_it_are_faults():
    assert ROW.faults(a_case(), Simulated(out_of(550), out_of(700))) == []
    (fault,) = ROW.faults(a_case(), Simulated(out_of(551)))
    assert "5.5 [5.1, 6.0]%, and the limit is at most 5.5" in fault
    (fault,) = ROW.faults(a_case(), Simulated(out_of(500), out_of(590)))
    assert "the twin (a wrong way) is not noticed" in fault
    assert ROW.faults(a_case(beyond="known"), Simulated(out_of(900))) == []
    narrow = Limit(least=6, most=8)
    assert ROW.faults(a_case(limit=narrow), Simulated(out_of(700), out_of(400))) == []


def test_of_few_draws_the_interval_must_be_beyond():
    few = Simulated(out_of(65, 1_000))
    assert ROW.faults(a_case(), few, few=True) == []
    assert len(ROW.faults(a_case(), few)) == 1


def test_tables_that_differ_from_numpy_are_named():
    with pytest.raises(AssertionError, match=r"arms: tables differ from numpy in draws \[1\]"):
        hold_equal(np.array([True, False, True]), [True, True], "arms")


@EACH_ROW
@pytest.mark.parametrize(
    ("file", "line", "edit"),
    [
        ("compare/judged.py", "ALPHA = 0.05", "ALPHA = 0.10"),
        ("store/replication.py", "MIN_PAIRS = 3", "MIN_PAIRS = 2"),
        ("study/looked.py", "def ", "async def "),
        ("compare/statistics/paired.py", "EXACT_FLIPS = 12", "EXACT_FLIPS = 2"),
        ("config/metrics.py", "log", "exp"),
    ],
)
def test_a_digest_is_of_all_that_a_table_imports(name, file, line, edit):
    edited = sources.PACKAGE / file
    text = edited.read_text()
    assert line in text
    again = sources.digest(name, {edited: text.replace(line, edit)})
    assert again != sources.digest(name)
    assert sources.digest(name, {edited: f"# Why.\n{text}"}) == sources.digest(name)


def test_imports_within_functions_count_and_those_for_type_checkers_do_not():
    code = "if TYPE_CHECKING:\n    import a\nelse:\n    import b\ndef f():\n    from c.d import e"
    assert [*sources.imported(ast.parse(code))] == ["b", "c.d.e"]


def test_a_digest_is_of_code_and_not_of_its_comments():
    code = '"""Doc."""\n\ndef f(x):\n    """Doc\n    of f."""\n    return "#" + x  # why\n'
    assert sources._code(code) == 'def f(x):\n    return "#" + x'
    assert sources._code(code.replace('"#"', '"+"')) != sources._code(code)
