"""The report: one page that needs nothing else, and says what the table says."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ablate import Arm, Scale, Search, Stage, Study, smaller, table
from ablate.commands.report import report
from ablate.commands.sync import sync_records
from ablate.compare import plots
from ablate.compare.page import SECTIONS, page, sections
from ablate.engine import run as engine
from ablate.record.client import make_database
from ablate.store import findings, study_record
from ablate.store.findings import SavedFinding
from ablate.store.store import Store
from tests.support.golden import changes
from tests.support.studies_by_hand import ByHand
from tests.support.whole_study import judged_of, whole_study

FOLDER = Path(sections.__file__).parent
KINDS_OF_LINK = ("src", "href", "srcset", "data", "action")
STAND_IN = "stand_in"


class Links(HTMLParser):
    """Every tag, and every address that a browser would follow."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in KINDS_OF_LINK]


def kept(study, workspace) -> str:
    study_record.write(workspace.store, study.record)
    for journal in study.journals.values():
        journal.write(workspace.store)
    path = report(workspace, study.record.key, still=True).splitlines()[0]
    with open(path, encoding="utf-8") as file:
        return file.read()


@pytest.mark.slow
def test_it_needs_nothing_else(study, workspace):
    text = kept(study, workspace)
    links = Links(text)
    inside = ("data:image/svg+xml;base64,", "#")
    assert links.links and all(link.startswith(inside) for link in links.links)
    places = {link[1:] for link in links.links if link.startswith("#")}
    assert places == {*re.findall('<h2 id="(.*?)"', text)}
    assert not {"script", "link", "iframe", "object"} & set(links.tags)
    assert links.tags.count("img") == len(plots.OF_PAGES)


@pytest.mark.slow
def test_what_users_wrote_is_text(workspace):
    study = whole_study("<script>alert(2)</script>")
    study.record_fields["question"] = "<script>alert(1)</script> & more?"
    study.record_fields["command"] = "ablate study '<b>.py'"
    text = kept(study, workspace)
    assert not {"script", "b"} & {*Links(text).tags}
    assert "<td>&lt;script&gt;alert(2)&lt;/script&gt; on, b on</td>" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more?" in text
    assert "&lt;b&gt;.py" in text


def test_every_file_of_a_section_has_its_place_on_the_page():
    files = (file.stem for file in FOLDER.glob("*.py"))
    assert sorted(SECTIONS) == sorted(name for name in files if name != "__init__")


def small_study() -> Study:
    base = {
        "corpus.name": "grammar",
        "embedding.size": 8,
        "backbone": "lstm",
        "head": "softmax",
        "optimizer": "sgd",
        "optimizer.learning_rate": 1.0,
        "training.epochs": 2,
    }
    return Study(
        question="Is it kept?",
        base=base,
        base_arm="a",
        design=table(Arm("a"), Arm("b", {"training.clip": 1.0})),
        scales={"s": Scale(seeds=3)},
        runner=STAND_IN,
        name="kept",
    )


def run(workspace) -> Store:
    engine.run_study(small_study(), None, workspace, engine.RunOptions(local=True, quiet=True))
    return workspace.store


@pytest.mark.slow
def test_the_studys_run_has_the_page_among_its_artifacts(workspace):
    make_database(workspace.tracking_uri)  # which may take MLflow a while
    store = run(workspace)
    assert sync_records(workspace) == 0
    (page,) = workspace.artifacts.rglob("report.html")
    text = page.read_text(encoding="utf-8")
    assert "Is it kept?" in text and "data:image/svg+xml" in text
    assert store.read("studies/kept@s/results/files/report.html") == text.encode()


@pytest.mark.slow
def test_a_page_that_fails_stops_no_study(workspace, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("of a picture")

    monkeypatch.setattr("ablate.compare.plots.described", broken)
    store = run(workspace)
    assert store.names("studies/kept@s/results/files") == ["table.txt"]


def cells_of_arms(workspace, study: Study, scale: str) -> dict[str, str]:
    """The last column of the section "Arms", by arm."""
    engine.run_study(study, scale, workspace, engine.RunOptions(local=True, quiet=True))
    path = report(workspace, study_record.study_key(study.name, scale)).splitlines()[0]
    with open(path, encoding="utf-8") as file:
        section = file.read().partition(">Arms</h2>")[2].partition("</table>")[0]
    rows = [
        re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall("<tr>(.*?)</tr>", section)
    ]
    return {row[0]: html.unescape(row[-1]) for row in rows if row}


def test_arms_are_described_as_they_were_trained(workspace):
    """After `adapt`, with the recipe of an arm that has another, and what a stage changes."""
    rate = "regularizer.weight_drop.rate"
    tuned = Stage("again", {"training.epochs": 1})
    study = Study(
        question="Which?",
        base="merity2018awd",
        base_arm="awd",
        design=table(
            Arm("awd"),
            Arm("drop", {rate: 0.4}, stages={"again": {"optimizer.learning_rate": 7.0}}),
            Arm("plain", {rate: 0.0}),
            Arm("zaremba", recipe="zaremba2014:small"),
            Arm("same", {rate: 0.5}),
        ),
        scales={
            "s": Scale(
                column="ptb",
                seeds=2,
                changes={"training.epochs": 2},
                adapt=smaller(strengths=4),
                stages=(tuned,),
            )
        },
        runner=STAND_IN,
        name="described",
    )
    cells = cells_of_arms(workspace, study, "s")
    assert cells["awd"] == "the base arm: recipe merity2018awd, its values are below"
    assert cells["drop"] == f"{rate} = 0.1; again: optimizer.learning_rate = 7.0"
    assert cells["plain"] == "without regularizer.weight_drop"
    assert cells["same"] == "nothing"
    assert cells["zaremba"].startswith("recipe zaremba2014:small; ")
    assert 'optimizer = "sgd"' in cells["zaremba"]


@pytest.mark.slow
def test_arms_of_a_tuned_study_have_the_values_that_the_search_chose(workspace, tmp_path):
    space = tmp_path / "rates.toml"
    space.write_text(
        'paper = "ours"\ntables = ["none"]\n\n["Rate"]\nfield = "regularizer.weight_drop.rate"\n'
        "range = [0.1, 0.6]\n"
    )
    rate = "regularizer.weight_drop.rate"
    search = Search(space=str(space), trials=2, repeats=2, synchronous=True, batch=2)
    study = replace(
        small_study(),
        base={**small_study().base, rate: 0.2},
        scales={"tuned": Scale(seeds=2, search=search)},
        design=table(Arm("a", {rate: 0.0}), Arm("b", {"training.clip": 1.0})),
    )
    cells = cells_of_arms(workspace, study, "tuned")
    seeds = re.findall(rf"seeds ([\d, ]+): {rate} = [\d.]+, training.clip = 1.0", cells["b"])
    assert seeds == ["1, 2", "3, 4"], cells


def of_two_stages() -> ByHand:
    """Arms of two stages whose seeds have other settings, one not started, one ensemble."""
    study = ByHand({"base": [4.1, 4.12], "other": [4.0, 4.01], "new": [None, None]})
    study.arm_fields = {
        "base": {"recipe": "merity2018awd"},
        "other": {"recipe": "zaremba2014:small", "num_parameters": 20_000},
        "new": {"recipe": "merity2018awd", "changes": {"head": "mos", "head.tied": True}},
    }
    rate = "optimizer.learning_rate"
    for arm, rates in (("base", (1.0, 1.0)), ("other", (2.0, 3.0))):
        for seed, value in enumerate(rates):
            first = study.trials[2 * (arm == "other") + seed]
            study.journals[first.id].config = {
                "head": "softmax",
                rate: value,
                **({"regularizer.l2.weight": 0.1} if arm == "other" else {}),
            }
            study.journals[first.id].trial = replace(study.journals[first.id].trial, arm=arm)
            again = f"{arm}-again-{seed}"
            study.plan(again, arm, seed, stage="again", parents=(first.id,))
            study.end(again, "completed", metrics={"valid_nll": 4.0, "test_nll": 3.9 + 0.1 * seed})
            clip = {"training.clip": 1.0} if arm == "other" else {}
            study.journals[again].config = {"head": "softmax", rate: 0.5, **clip}
    study.trials = [
        replace(trial, final=trial.stage == "again" or trial.arm == "new") for trial in study.trials
    ]
    study.plan("together", "other", 0, stage="ensemble", parents=("other-0", "other-1"))
    study.end("together", "diverged")
    return study


def golden_text(workspace) -> str:
    found = SavedFinding(
        analysis="closest",
        options="",
        trials=("other-0",),
        paper="Figure 2",
        title="Words & <neighbours>",
        columns=("word", "next"),
        rows=(("a", "<b>"), ("c", "d")),
        notes=("Of one seed.",),
        svg="<svg/>",
    )
    findings.write(workspace.store, of_two_stages().record.key, [found])
    workspace.store.write_json("trials/base-0/readings.json", {"readings": [{"split": "test"}] * 2})
    texts = []
    for title, study in (("searched", whole_study()), ("of two stages", of_two_stages())):
        text = page(judged_of(study), workspace.store)
        text = re.sub('base64,[^"]*', "base64,...", text).replace("<tr>", "\n<tr>")
        text = re.sub("<style>.*</style>", "<style>...</style>", text, flags=re.DOTALL)
        text = re.sub("(Table|provenance) [0-9a-f]{16}", r"\1 ...", text)  # of every last digit
        texts.append(f"== {title}\n{text}\n")
    return "\n".join(texts)


@pytest.mark.golden
def test_the_page_is_the_golden_one(workspace):
    """Without its pictures, which are in pictures.txt, and the style, which is in formats.txt."""
    assert not changes("report.html", golden_text(workspace))
