"""Each page: what it shows, from a study made by hand."""

from __future__ import annotations

import html
import itertools
import re
import socket
from dataclasses import replace

import pytest

from ablate.commands.table import show_table
from ablate.live.mlflow import MLflow
from ablate.live.served import Served
from ablate.store.workspace import Workspace, held
from tests.support.live_pages import ARM, KEY, Client, Place, eventually


def cells(page: str, block: str) -> list[list[str]]:
    """The rows of the first table of a block, as a reader sees them."""
    part = (
        page.partition(f'<section id="{block}"')[2].partition("<tbody>")[2].partition("</tbody>")[0]
    )
    rows = re.findall(r"<tr>(.*?)</tr>", part, re.DOTALL)
    bare = [
        [re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<td.*?</td>", row)]
        for row in rows
    ]
    return [[html.unescape(cell) for cell in row] for row in bare]


def printed_table(workspace: Workspace, key: str) -> list[list[str]]:
    """The headings and the rows of `ablate table`, whole, without marks."""
    markdown = show_table(workspace, key, "markdown").splitlines()
    start = next(at for at, line in enumerate(markdown) if line.startswith("| "))
    lines = list(itertools.takewhile(lambda line: line.startswith("|"), markdown[start:]))
    rows = [re.sub(r"\\(.)", r"\1", line).strip("|").split("|") for line in (lines[0], *lines[2:])]
    return [[cell.strip().strip("*") for cell in row] for row in rows]


def test_the_table_has_every_cell_of_ablate_table(client, place):
    headings, *rows = printed_table(place.workspace, KEY)
    page = client.seen(f"/study/{KEY}")
    shown = page.partition('<section id="table"')[2].partition("</thead>")[0]
    found = [html.unescape(one) for one in re.findall(r"<th .*?>(.*?)</th>", shown)]
    (drawn,) = (at for at, heading in enumerate(found) if "<span>" in heading)
    without = [[*row[:drawn], *row[drawn + 1 :]] for row in (found, *cells(page, "table")[:3])]
    assert without == [headings, *rows] and len(rows) == 3
    assert "verdict" in headings and page.count('decided" width=') == 3


def test_verdicts_are_provisional_until_the_plan_ends(client, place):
    assert "Provisional: 2 of 12 planned results are missing" in client.seen(f"/study/{KEY}")
    place.grow("mos-3", 2, 4.41)
    place.grow(f"{ARM}-2", 2, 4.62)
    assert "Provisional" not in client.seen(f"/study/{KEY}")


def test_an_arm_called_script_is_text(client):
    for path in ("/", f"/study/{KEY}", "/trial/mos-0"):
        assert "<script>alert" not in client.seen(path)
    assert "&lt;script&gt;alert" in client.seen(f"/study/{KEY}")


def test_all_studies_and_what_runs(client, place):
    assert "stopped, 2 left" in client.seen("/")
    with held(place.workspace, KEY):
        assert "10 completed, 2 left, running" in client.seen("/")
    place.grow("mos-3", 2, 4.41)
    place.grow(f"{ARM}-2", 2, 4.62)
    answer = "mos is better than base, and than every other arm"
    eventually(lambda: "2025-11-25" in client.seen("/") and answer in client.seen("/"))
    page = client.seen("/")
    assert 'class="bar"' not in page
    assert 'aria-label="1 better, 1 worse"' in page
    assert KEY in client.seen("/?find=MIXTURE") and KEY not in client.seen("/?find=nothing")


def test_running_trials_have_a_place_among_workers(client, place):
    place.grow("mos-3", 3)
    with held(place.workspace, KEY):
        assert cells(client.seen(f"/study/{KEY}"), "workers")[0][:3] == [
            "mos seed 4",
            "node-7",
            "12",
        ]
    assert "Workers</h2>" not in client.seen(f"/study/{KEY}")


def test_a_failure_is_shown_with_its_reason_and_what_it_printed(client, place):
    journal = place.study.journals["base-0"]
    journal.outcome = replace(journal.outcome, status="failed", reason="no space left", metrics={})
    journal.write(place.workspace.store)
    page = client.seen(f"/study/{KEY}?state=failed")
    assert cells(page, "trouble")[0][-1] == "no space left"
    assert "hello from the task" in page
    assert [row[0] for row in cells(page, "trials")] == ["base seed 1"]


def test_trials_are_listed_by_page(tmp_path, monkeypatch):
    place = Place(tmp_path, {"base": [4.5] * 60, "mos": [4.4] * 60})
    client = Client(Served(place.workspace))
    assert len(cells(client.seen(f"/study/{KEY}"), "trials")) == 50
    page = client.seen(f"/study/{KEY}?page=3")
    assert len(cells(page, "trials")) == 20 and "of 3</nav>" in page
    assert len(cells(client.seen(f"/study/{KEY}?arm=mos&page=2"), "trials")) == 10
    assert len(cells(client.seen(f"/study/{KEY}?page=nonsense"), "trials")) == 50


def test_a_trial_next_to_its_base(client):
    page = client.seen("/trial/mos-1")
    assert "<mark>&quot;mos&quot;</mark>" in page  # the setting in which it differs from its base
    assert "ablate trial rerun mos-1" in page and "hello from the task" in page
    assert cells(page, "settings") == [["head.name", '"mos"', '"base"']]


@pytest.mark.parametrize("kind", ["svg", "png", "pdf", "csv", "json"])
def test_a_figure_can_be_saved(client, kind):
    answer = client.get(f"/figure/{KEY}/deltas.{kind}")
    assert answer.status_code == 200 and len(answer.content) > 100
    start = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF", "csv": b"arm,", "json": b"{"}[kind]
    assert answer.content.startswith(start)


def test_a_trial_without_epochs_was_not_trained_for_0_s(client, place):
    place.grow("mos-3", 1, 4.4)
    assert "trained for" in client.seen("/trial/mos-3")
    place.grow("mos-3", 0, 4.4)
    assert "trained for" not in client.seen("/trial/mos-3").partition("<h2")[0]


def test_the_page_stands_if_mlflow_does_not(client, place, monkeypatch):
    place.workspace.folder.joinpath("mlflow-artifacts").write_text("in the way")
    page = client.seen("/mlflow", 503)
    assert "cannot be written" in page
    client.seen(f"/study/{KEY}")


def test_mlflow_takes_another_port_if_its_own_is_taken(place, monkeypatch):
    started = []
    monkeypatch.setattr("ablate.record.attended.start", lambda words, **_: started.append(words))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        mlflow = MLflow(place.workspace, port, "token")
        assert mlflow.address() is None and not mlflow.trouble
    ((words,),) = [started]
    assert int(words[words.index("--port") + 1]) > port


NOT_HERE = (
    *("/study/nothing", "/trial/nothing", "/figure/x/deltas.svg", "/nothing"),
    *(f"/figure/{KEY}/nothing.svg", f"/figure/{KEY}/deltas.exe"),
)


@pytest.mark.parametrize("path", NOT_HERE)
def test_what_is_not_here_is_said_to_be_so(client, path):
    client.seen(path, 404)
