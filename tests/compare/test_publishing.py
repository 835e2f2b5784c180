"""Somebody else goes on from published results: what is there is not trained again."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ablate import Arm, Metric, Scale, Study, setting, table, task
from ablate.compare import publishing
from ablate.engine import run as engine
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.attempt import Attempt
from ablate.store.store import Store
from ablate.store.workspace import open_workspace
from tests.support.small_studies import BASE

STUDY = Study(
    question="Is it kept?",
    base=BASE,
    base_arm="a",
    design=table(Arm("a"), Arm("b", {"training.clip": 1.0})),
    scales={"s": Scale(seeds=2)},
    runner="stand_in",
    name="kept",
)
QUIETLY = engine.RunOptions(local=True, quiet=True)


@pytest.mark.slow
@pytest.mark.usefixtures("without_pages", "without_mlflow")
def test_only_what_is_missing_is_trained(workspace, tmp_path):
    engine.run_study(STUDY, None, workspace, QUIETLY)
    (record,) = publishing.publish(workspace.store, ["kept"], tmp_path / "published")
    elsewhere = open_workspace(str(tmp_path / "elsewhere"), store=str(tmp_path / "published"))
    assert (record.folder, study_record.read(elsewhere.store, "kept").folder) == (os.getcwd(), "")
    before = journals.read_all(elsewhere.store)
    assert set(before) == set(record.trial_ids()) and len(before) == 4
    larger = replace(STUDY, scales={"s": Scale(seeds=3)})
    engine.run_study(larger, None, elsewhere, QUIETLY)
    after = journals.read_all(elsewhere.store)
    assert len(after) == 6 and before == {trial: after[trial] for trial in before}


@dataclass(frozen=True, kw_only=True)
class WordsConfig:
    words: str = setting("words.txt", doc="one word a line", file=True)


def share(run):
    found = len(Path(run.config.words).read_text().split())
    return {"valid_accuracy": found / 10, "test_accuracy": found / 10}


@pytest.mark.slow
def test_a_file_that_a_setting_names_is_published_by_its_name(workspace, tmp_path):
    metric = Metric("accuracy", better="higher")
    task("share_of_words", config=WordsConfig, metrics=(metric,))(share)
    (tmp_path / "words.txt").write_text("one two")
    (tmp_path / "more.txt").write_text("one two three")
    more = Arm("more", {"share_of_words.words": str(tmp_path / "more.txt")})
    base = {"task": "share_of_words", "share_of_words.words": str(tmp_path / "words.txt")}
    scales = {"s": Scale(seeds=2)}
    study = Study(
        question="Is it told where?", base=base, base_arm="a", design=table(Arm("a"), more),
        scales=scales, name="where",
    )  # fmt: skip
    engine.run_study(study, None, workspace, QUIETLY)
    folder = tmp_path / "published"
    publishing.publish(workspace.store, ["where"], folder)
    texts = [path.read_text() for path in folder.rglob("*") if path.is_file()]
    assert not any(str(tmp_path) in text for text in texts)
    assert any("more.txt" in text for text in texts)
    elsewhere = open_workspace(str(tmp_path / "elsewhere"), store=str(folder))
    engine.run_study(study, None, elsewhere, QUIETLY)
    assert all(
        len(journal.attempts) == 1 for journal in journals.read_all(elsewhere.store).values()
    )


def test_the_readme_lists_the_code_of_every_attempt(by_hand, tmp_path):
    """What resumed under a later commit is of both; what ran outside a repository says so."""
    study = by_hand({"base": [4.0, 4.1], "b": [3.9, None]})
    record = study.record
    commits = {"base-0": ["a" * 40, "b" * 40], "base-1": ["b" * 40, None], "b-0": [None]}
    store = Store(str(tmp_path))
    study_record.write(store, record)
    for trial, known in commits.items():
        attempts = [Attempt(ablate_git={"commit": c} if c else None) for c in known]
        replace(study.journals[trial], attempts=attempts).write(store)
    text = publishing.readme(store, "results")
    assert f"- ablate at {'a' * 12}, {'b' * 12}; 2 trials recorded no commit" in text
    assert "- large products in float32" in text
