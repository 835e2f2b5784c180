"""Settings that name files: what is in them is part of a trial's id, and where they are is not."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from ablate.config import tasks
from ablate.config.contents import digest_of_contents
from ablate.config.fields import setting
from ablate.config.identity import is_as_planned, make_trial
from ablate.config.metrics import Metric
from ablate.config.resolve import resolve_near
from ablate.config.tasks import task
from ablate.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class ReadsConfig:
    words: str = setting("words.txt", doc="one word a line", file=True)
    more: str | None = setting(None, doc="a folder of texts", file=True)
    report: str | None = setting(None, doc="where to write a log", file=True, identity=False)


@pytest.fixture(autouse=True)
def reads(monkeypatch):
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))
    task("reads", config=ReadsConfig, metrics=Metric("error"))(lambda run: {})


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "words.txt").write_text("one\ntwo\n")
    return tmp_path


def planned(folder: Path, **values):
    named = {"task": "reads", **{f"reads.{name}": value for name, value in values.items()}}
    config = resolve_near(named, folder, "study.py")
    return make_trial(config, values={**named, **config.files}, seed=1, corpus_digest="")


def test_contents_decide_the_id_even_of_the_default_file(folder, tmp_path_factory):
    first = planned(folder)
    assert first.values["reads.words"] == str(folder / "words.txt")
    other = tmp_path_factory.mktemp("other")
    (other / "renamed.txt").write_text("one\ntwo\n")
    assert planned(other, words="renamed.txt").id == first.id
    (other / "renamed.txt").write_text("one\nthree\n")
    assert planned(other, words="renamed.txt").id != first.id


def test_a_folder_is_identified_by_the_names_and_contents_of_its_files(folder):
    texts = folder / "texts"
    (texts / "deep").mkdir(parents=True)
    with pytest.raises(ConfigError, match="the folder has no files"):
        planned(folder, more="texts")
    (texts / "deep" / "a.txt").write_text("a")
    first = planned(folder, more="texts").id
    os.utime(texts / "deep" / "a.txt", (0, 0))
    assert planned(folder, more="texts").id == first
    (texts / "deep" / "a.txt").rename(texts / "a.txt")
    assert planned(folder, more="texts").id != first


def test_a_file_that_is_missing_is_refused_with_the_nearest(folder):
    with pytest.raises(
        ConfigError,
        match=r"study\.py: reads\.words: the file 'word\.txt' does not exist in .*"
        r"Did you mean 'words\.txt'\?",
    ):
        planned(folder, words="word.txt")
    assert planned(folder, report="log.txt").id == planned(folder).id, "no part of the id"


def test_a_file_that_is_edited_after_planning_is_noticed(folder):
    trial = planned(folder)
    assert is_as_planned(trial)
    (folder / "words.txt").write_text("none\n")
    assert not is_as_planned(trial)
    assert trial.config.extras == {
        "reads.words contents": digest_of_contents(str(folder / "words.txt"))[:16]
    }
