"""What docs/notes/performance.md says of each processor is what was measured on it."""

from __future__ import annotations

import pytest

from benchmarks import columns, table

XEON = """processor : 0
cpu family : 6
model : 143
model name : Intel(R) Xeon(R) Platinum 8481C
flags : fpu avx512f amx_bf16 amx_tile

processor : 1
cpu family : 6
"""


def test_the_tables_are_those_of_the_files():
    """If not: `python -m benchmarks.columns`."""
    page = columns.PAGE.read_text(encoding="utf-8")
    assert columns.rendered(page, columns.read_all()) == page


def test_every_row_has_a_table_and_every_table_rows():
    page = columns.PAGE.read_text(encoding="utf-8")
    named = [row for found in columns.BLOCK.finditer(page) for row in found["rows"].split()]
    assert sorted(named) == sorted(table.ROWS)


def test_a_processor_is_told_by_more_than_its_name():
    said = columns.processor(XEON)
    assert said == "Intel(R) Xeon(R) Platinum 8481C, family 6, model 143, AMX"
    assert columns.file_of(said).name == "intel-r-xeon-r-platinum-8481c-family-6-model-143-amx.json"
    assert "AMX" not in columns.processor(XEON.replace("amx_tile", ""))
    assert columns.processor("")  # another system than Linux


def results(processor: str, **rows: list[dict]) -> dict:
    kept = {
        name: {"began": "2026-11-27 14:00", "figures": figures} for name, figures in rows.items()
    }
    return {"machine": {"processor": processor}, "rows": kept}


def figure(what: str, ratio: float, **words) -> dict:
    plain = {"ours": 2.0, "theirs": 1234.5, "unit": "ms", "sense": "share", "limit": 0.5}
    return {"what": what, "ratio": ratio, "kept": ratio <= 0.5, **plain, **words}


def test_each_processor_is_a_column():
    slow = results("A", softmax=[figure("time", 0.75), figure("memory", 0.0123)])
    fast = results("B", softmax=[figure("time", 0.25)], awd=[figure("step", 0.25)])
    assert columns.table(["softmax"], [slow, fast]).splitlines() == [
        "| what | limit | A | B |",
        "| --- | --- | --- | --- |",
        "| time | 0.5 | 0.75: **missed** (2 and 1234 ms) | 0.25: met (2 and 1234 ms) |",
        "| memory | 0.5 | 0.0123: met (2 and 1234 ms) | not measured |",
        "| measured on |  | 2026-11-27 | 2026-11-27 |",
    ]


def test_rows_measured_later_replace_their_own_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "RESULTS", tmp_path)
    monkeypatch.setattr(columns, "PAGE", tmp_path / "page.md")
    columns.PAGE.write_text("<!-- rows: awd softmax -->\n<!-- end of rows -->\n")
    rows = results("A", softmax=[figure("time", 0.75)], awd=[figure("step", 0.25)])["rows"]
    table.write(rows, None)
    table.write({"awd": {**rows["awd"], "figures": [figure("step", 0.125)]}}, None)
    (kept,) = columns.read_all()
    assert kept["machine"]["processor"] == columns.processor()
    page = columns.PAGE.read_text()
    assert "| time | 0.5 | 0.75: **missed**" in page
    assert "| step | 0.5 | 0.125: met" in page and "0.25: met" not in page


@pytest.mark.parametrize(
    ("sense", "limit", "said"),
    [
        ("faster", 10.0, "10 times faster"),
        ("faster", 1.0, "no slower"),
        ("added", 0.2, "0.2 s more"),
        ("share", 0.35, "0.35"),
        ("known", None, "none"),
    ],
)
def test_a_limit_says_how_it_is_read(sense, limit, said):
    of_one = results("A", awd=[figure("step", 1.0, sense=sense, limit=limit, kept=None)])
    assert f"| step | {said} | 1 (2 and 1234 ms) |" in columns.table(["awd"], [of_one])
