"""The report: one page that needs nothing else, and says what the table says."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from whole_study import whole_study

from ablate import Arm, Scale, Study, engine, plots, study_record, table
from ablate.compare import provenance
from ablate.plots.report import TITLES, report
from ablate.record.database import _make_database
from ablate.store import Store

KINDS_OF_LINK = ("src", "href", "srcset", "data", "action")
STAND_IN = "ablate.train.stand_in:StandIn"


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
    path = report(workspace, study.record.key).splitlines()[0]
    with open(path, encoding="utf-8") as file:
        return file.read()


def test_it_needs_nothing_else(study, workspace):
    found = Links(kept(study, workspace))
    assert found.links and all(
        link.startswith("data:image/svg+xml;base64,") for link in found.links
    )
    assert not {"script", "link", "iframe", "object"} & set(found.tags)
    assert found.tags.count("img") == len(plots.NAMES)


def test_it_has_every_section_and_leads_to_what_is_behind_it(study, workspace):
    text = kept(study, workspace)
    headings = re.findall("<h2>(.*?)</h2>", text)
    rest = ["Arms", "Trials", "Again"]
    assert headings == ["Tests in full", *TITLES.values(), *rest]
    key = re.search(r"ablate provenance ([0-9a-f]{16})", text)
    assert key and "a on, b off" in provenance.show(workspace.store, key[1])
    assert text.count("<tr>") > len(study.journals)  # every trial is in it


def test_what_users_wrote_is_text(study, workspace):
    study.record_fields["question"] = "<script>alert(1)</script> & more?"
    study.record_fields["command"] = "ablate study '<b>.py'"
    text = kept(study, workspace)
    assert "script" not in Links(text).tags
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more?" in text
    assert "&lt;b&gt;.py" in text


def test_frozen_and_re_tuned_deltas_come_from_the_other_scale(study, workspace):
    listed = whole_study()
    listed.record_fields = {"design": "factorial", "scale": "listed"}
    study_record.write(workspace.store, listed.record)
    study.record_fields["scale"] = "tuned"
    text = kept(study, workspace)
    assert "Δ frozen (listed)" in text and "Δ re-tuned (tuned)" in text


def test_further_readings_of_the_test_split_are_told(study, workspace):
    assert "read again" not in kept(study, workspace)
    trial = study.trials[0].id
    workspace.store.write_json(f"trials/{trial}/readings.json", [{"split": "test"}])
    assert "read again 1 time," in kept(study, workspace)


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


def test_the_studys_run_has_the_page_among_its_artifacts(workspace):
    _make_database(workspace.tracking_uri, workspace.artifacts)  # which may take MLflow a while
    store = run(workspace)
    assert engine.sync_records(workspace) == 0
    (page,) = workspace.artifacts.rglob("report.html")
    text = page.read_text(encoding="utf-8")
    assert "Is it kept?" in text and "data:image/svg+xml" in text
    assert store.read("studies/kept@s/results/files/report.html") == text.encode()


def test_a_page_that_fails_holds_up_no_study(workspace, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("of a picture")

    monkeypatch.setattr("ablate.plots.report.pictures", broken)
    store = run(workspace)
    assert store.names("studies/kept@s/results/files") == ["table.txt"]


@pytest.mark.parametrize("name", ["nobody", "mixture_layer"])
def test_a_study_that_is_not_there(name, workspace):
    with pytest.raises(engine.study_record.ConfigError, match="study"):
        report(workspace, name)
