"""The papers' tables as data: all typed values, no others, and no contradictions."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import Counter

import pytest

from ablate import papers
from ablate.errors import ConfigError
from tests.support import places

TYPED = places.TABLES / "results.csv"
IDS = {
    "000": "takase2017iog",
    "001": "pachitariu2013irlm",
    "002": "oliva2021dual",
    "003": "takase2018doc",
    "004": "inan2017tying",
}
CORPORA = {"PTB": "ptb", "WikiText-2": "wikitext-2"}


def test_each_typed_value_is_there_and_nothing_else():
    with TYPED.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    typed = Counter(_typed(row) for row in rows)
    ours = Counter(_ours(cell, paper) for paper in papers.ids() for cell in _cells(paper))
    assert ours == typed
    assert ours.total() == 444
    noted = Counter(_typed(row) for row in rows if row["note"])
    assert noted <= Counter(
        _ours(c, paper) for paper in papers.ids() for c in _cells(paper) if c.note
    )


def _typed(row: dict[str, str]) -> tuple:
    return (
        IDS[row["paper_id"]],
        row["table"],
        CORPORA.get(row["dataset"], row["dataset"]),
        row["model"],
        row["variant"],
        row["params_millions"] and float(row["params_millions"]),
        row["split"],
        row["metric"],
        row["value"],
        row["std"] and float(row["std"]),
        row["dagger"],
    )


def _ours(cell: papers.Cell, paper: str) -> tuple:
    return (
        paper,
        cell.table,
        cell.corpus,
        cell.model,
        cell.variant,
        "" if cell.parameters is None else cell.parameters,
        cell.split or "-",
        cell.metric,
        cell.printed,
        "" if cell.std is None else cell.std,
        "yes" if cell.quoted else "no",
    )


def _cells(paper: str) -> tuple[papers.Cell, ...]:
    return papers.load(paper).cells


def test_a_paper_repeats_itself_without_contradiction():
    """The same model, variant, corpus, split and metric in two tables of a paper have one value."""
    for paper in papers.ids():
        first: dict[tuple, float] = {}
        for cell in _cells(paper):
            key = (cell.model, cell.variant, cell.corpus, cell.split, cell.metric)
            assert first.setdefault(key, cell.value) == cell.value, (paper, key)


def test_cells_are_those_of_a_table_or_of_its_split():
    table = papers.cells("takase2018doc", "Table 3")
    assert len(table) == 20
    layers = "i3=15,i2=5,i1=0,i0=0,lambda_beta=0.001"
    loaded = [c for c in table if (c.model, c.variant) == ("AWD-LSTM-DOC", layers)]
    assert {cell.split: cell.value for cell in loaded} == {"valid": 54.62, "test": 52.87}
    assert papers.cells("takase2018doc", "Table 3", split="test") == table[1::2]


def test_unknown_papers_and_tables_are_named():
    with pytest.raises(ConfigError) as paper:
        papers.load("takase2018dco")
    assert str(paper.value) == (
        "unknown paper 'takase2018dco'. Did you mean 'takase2018doc'? Expected one of: "
        "inan2017tying, oliva2021dual, pachitariu2013irlm, takase2017iog, takase2018doc."
    )
    with pytest.raises(ConfigError) as table:
        papers.cells("inan2017tying", "Table1")
    assert str(table.value) == (
        "inan2017tying: unknown table 'Table1'. Did you mean 'Table 1'? Expected one of: Table 1, "
        "Table 2, Figure 1a, Table 3, Figure 1b, Figure 2, Section 6.4."
    )


def test_loading_imports_neither_torch_nor_pyarrow():
    code = (
        "import sys; from ablate import papers; [papers.load(i) for i in papers.ids()]; "
        "sys.exit('torch' in sys.modules or 'pyarrow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_each_typed_word_is_there_and_nothing_else():
    short = {"takase2017iog": "000", "inan2017tying": "004"}
    with (TYPED.parent / "qualitative.csv").open(encoding="utf-8", newline="") as file:
        typed = [
            (r["paper_id"], r["table"], r["key"], r["model"], int(r["rank"]), r["item"], r["prob"])
            for r in csv.DictReader(file)
        ]
    ours = []
    for paper in papers.ids():
        for listed in papers.load(paper).words:
            numbers = listed.probabilities or ("",) * len(listed.words)
            key = (short[paper], listed.table, listed.after, listed.model)
            for rank, (word, number) in enumerate(zip(listed.words, numbers, strict=True), 1):
                ours.append((*key, rank, word.replace("<eos>", "〈eos〉"), str(number)))
    assert sorted(ours) == sorted(typed)


def test_a_table_of_words_is_a_row_for_each_model():
    (row,) = [row for row in papers.rows("takase2017iog") if row.table == "Table 5"]
    assert row.shows == "5 words after each of: of, in, go, attention, whether"
    two = [row.model for row in papers.rows("inan2017tying") if row.table == "Table 3"]
    assert two == ["VD-LSTM", "VD-LSTM+REAL"]
