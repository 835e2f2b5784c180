"""Every analysis from the command line to its files."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ElementTree

import pytest

from ablate import cli
from ablate.lm import analysis
from ablate.lm.analysis import writing
from ablate.lm.commands import analyze as show
from ablate.store.journal import LISTED
from tests.support import places

TRIALS = {  # a case for each analysis, and for each number of trials that changes what it shows
    "by_frequency": [["irlm"], ["irlm", "ngram"]],
    "by_preceding_word": [["ngram"], ["irlm", "doc"]],
    "coordinate_check": [["doc"]],
    "eigenvalues": [["irlm"], ["doc"]],
    "gate_words": [["doc"]],
    "learning_curve": [["irlm", "doc"]],
    "mixture_use": [["doc"]],
    "next_words": [["irlm", "doc"]],
    "rank": [["irlm", "doc"]],
    "subspace_distance": [["irlm", "doc"]],
    "timescales": [["irlm"]],
}
OPTIONS = {
    "coordinate_check": ["widths=8,16", "steps=1"],
    "rank": ["num=200"],
    "next_words": ["num=3", "tokens=100"],
}
CASES = [(name, trials) for name, cases in TRIALS.items() for trials in cases]
PNG = b"\x89PNG\r\n\x1a\n"


def test_every_analysis_has_a_case_here():
    assert sorted(TRIALS) == analysis.names()


def test_every_analysis_has_a_section_and_an_example_in_the_docs():
    page = (places.DOCS / "analyses.md").read_text()
    for name in analysis.names():
        section = page.partition(f"\n## `{name}`: ")[2].partition("\n## ")[0]
        assert "**Formula.**" in section and f"$ ablate trial analyze {name} " in section


def arguments(name, trials, place, request) -> list[str]:
    ids = [request.getfixturevalue(trial).id for trial in trials]
    options = [part for option in OPTIONS.get(name, ()) for part in ("--set", option)]
    return ["analyze", name, *ids, *options, "--workspace", str(place.folder)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "trials"), CASES)
def test_an_analysis_end_to_end(name, trials, place, request, capsys):
    words = arguments(name, trials, place, request)
    assert cli.main(words) == 0
    printed = capsys.readouterr().out
    ids = [word for word in words[2:] if word in place.store.names("trials")]
    folder = place.folder / "analyses" / "-".join(ids)
    files = {kind: folder / f"{name}.{kind}" for kind in ("txt", "csv", "png", "svg")}
    assert all(f"  {path}" in printed.splitlines() for path in files.values())
    assert printed.startswith(files["txt"].read_text())
    with files["csv"].open(newline="") as file:
        columns, *rows = csv.reader(file)
    assert rows and all(len(row) == len(columns) == len(set(columns)) for row in rows)
    for cell in (cell for row in rows for cell in row):
        assert cell.lower() not in ("nan", "inf", "-inf")
    assert files["png"].read_bytes().startswith(PNG)
    root = ElementTree.parse(files["svg"]).getroot()
    drawn = {element.get("id", "").split("_")[0] for element in root.iter()}
    assert {"axes", "text"} <= drawn and drawn & {"line2d", "patch"}
    assert root.tag.endswith("svg")


def test_without_a_name_they_are_listed(capsys):
    assert cli.main(["analyze"]) == 0
    printed = capsys.readouterr().out
    for name in analysis.names():
        assert f"\n{name} " in printed
    assert "takase2018doc Table 5" in printed


@pytest.mark.parametrize("name", analysis.names())
def test_without_a_trial_an_analysis_explains_itself(name, capsys):
    assert cli.main(["analyze", name]) == 0
    printed = capsys.readouterr().out
    assert analysis.get(name).run.__doc__ in printed
    for option in show.fields.describe(analysis.get(name).options):
        assert f"\n{option.name} " in printed
        assert option.limits.doc in " ".join(printed.split())  # which may take several lines


def refused(capsys, place, *words: str, status: int = 2) -> str:
    assert cli.main(["analyze", *words, "--workspace", str(place.folder)]) == status
    return capsys.readouterr().err


def test_a_wrong_request_is_refused_by_name(irlm, doc, place, capsys):
    assert "Did you mean 'rank'?" in refused(capsys, place, "rnak", irlm.id)
    printed = refused(capsys, place, "timescales", irlm.id, doc.id)
    assert "takes 1 trial, not 2" in printed and LISTED in printed
    assert "takes 2 trials, not 1" in refused(capsys, place, "next_words", irlm.id)
    printed = refused(capsys, place, "rank", irlm.id, "--set", "nun=3")
    assert "unknown field 'nun'. Did you mean 'num'?" in printed
    assert "--set num has no value" in refused(capsys, place, "rank", irlm.id, "--set", "num")
    printed = refused(capsys, place, "rank", irlm.id, "--set", "num=many")
    assert "rank.num = 'many' is not allowed. Expected: whole number, at least 1." in printed
    assert "no trial 'zz'" in refused(capsys, place, "rank", "zz", status=5)


def test_an_option_is_what_its_field_makes_of_it():
    assert show._parsed("of,in", "list of text") == ["of", "in"]
    assert show._parsed("30,60", "list of whole number") == [30, 60]
    assert show._parsed("7", "text") == "7"
    assert show._parsed("1e-3", "number or none") == 1e-3
    assert show._parsed("none", "number or none") is None
    assert show._parsed("true", "true or false") is True


def test_without_matplotlib_there_is_the_table(irlm, place, request, capsys, monkeypatch):
    def missing(*_):
        raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")

    monkeypatch.setattr(writing, "save_pictures", missing)
    assert cli.main(arguments("timescales", ["irlm"], place, request)) == 0
    printed = capsys.readouterr().out
    assert "(a picture needs the package matplotlib, which is not installed. " in printed
    assert "median" in printed
