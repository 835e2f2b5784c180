"""A kind of task with its data and its metric: the file that docs/adding.md prints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ablate import DataConfig, DataSource, Metric, run, setting, task
from ablate.cli import main
from ablate.config import tasks
from ablate.config.data_source import source_of
from ablate.errors import CombinationError, ConfigError, CorpusError, TechniqueError
from ablate.lm.analysis import learning_curve
from ablate.lm.analysis.learning_curve import LearningCurveOptions
from ablate.lm.analysis.subject import Subject
from ablate.store import journal as journals
from ablate.store.store import Store
from ablate.study.file import load
from ablate.study.plan import make_plan
from ablate.trial import travel
from tests.support.tables import written
from tests.test_adding import FILES


@pytest.fixture(autouse=True)
def own_kinds(monkeypatch):
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))


@pytest.fixture
def corners(tmp_path) -> Path:
    file = tmp_path / "corners.py"
    file.write_text(FILES[file.name])
    return file


@pytest.mark.slow
def test_it_is_planned_trained_judged_and_tabled(corners, workspace, capsys):
    main(["plan", str(corners), "--workspace", str(workspace.folder)])
    assert "100 train, 50 valid, 50 test" in capsys.readouterr().out
    summary = run(corners, workspace=str(workspace.folder), local=True)
    base, hidden = summary.arms
    assert summary.metric.name == "accuracy"
    assert (base.num_parameters, hidden.num_parameters) == (4 * 16 + 4, 8 * 16 + 8 + 4 * 8 + 4)
    assert base.cells["test"].mean > 60, "a corner is right by chance in 25%"
    text = written(summary, "text")
    assert f"corpus corners, digest {summary.record.corpus_digest}" in text
    assert "accuracy in %" in text and "perplexity" not in text and "published" not in text

    journal = journals.find(workspace.store, base.trials[0])
    subject = Subject(journal, workspace.store, workspace.data)
    curve = learning_curve.run(subject, options=LearningCurveOptions())
    assert [row[3] for row in curve.rows] == [
        pytest.approx(100 * epoch.metrics["valid_accuracy"]) for epoch in journal.epochs
    ]
    with pytest.raises(CombinationError, match="reads no text"):
        _ = subject.corpus


def test_its_data_are_part_of_ids(corners, data):
    study = load(corners)
    laptop, noisy = (make_plan(study, scale, data=data) for scale in study.scales)
    corpus: Any = laptop.configs["linear"].data
    assert laptop.record.corpus_digest == source_of(corpus, data).digest()
    assert laptop.record.corpus_digest != noisy.record.corpus_digest
    assert not {trial.id for trial in laptop.trials} & {trial.id for trial in noisy.trials}


def test_an_error_of_its_source_is_shown_with_its_line(corners, data):
    corners.write_text(corners.read_text().replace("contents = f", "contents = 1 / 0, f"))
    with pytest.raises(
        TechniqueError, match=r"the digest of the corpus raised(.|\n)*1 / 0"
    ) as told:
        make_plan(load(corners), "laptop", data=data)
    assert "record.py" not in str(told.value)


class Numbers(DataSource):
    """A file of numbers in the data folder."""

    def digest(self) -> str:
        return "digest of the numbers"

    def open(self, seed: int = 0) -> list[int]:
        return [*map(int, self.files()[0].read_text().split())]

    def files(self) -> list[Path]:
        return [(self.folder or Path()) / self.config.name]


@dataclass(frozen=True, kw_only=True)
class NumbersConfig(DataConfig):
    name: str = setting("own/numbers.txt", doc="the file")
    reader = Numbers


def test_its_files_reach_another_host(tmp_path, monkeypatch):
    store, here = Store(str(tmp_path / "store")), tmp_path / "here"
    (here / "own").mkdir(parents=True)
    (here / "own" / "numbers.txt").write_text("3 5")
    parcel = travel.send(NumbersConfig(), str(here), store)
    monkeypatch.setenv("ABLATE_WORKSPACE", str(tmp_path / "there"))
    there = travel.receive(parcel, store)
    assert Path(there).is_relative_to(tmp_path / "there")
    assert source_of(NumbersConfig(), there).open() == [3, 5]
    with pytest.raises(CorpusError, match=r"cannot travel\. Expected: a file in the data folder"):
        travel.send(NumbersConfig(name=str(tmp_path / "elsewhere")), str(here), store)


@pytest.mark.parametrize("corpus", [DataConfig, dict, NumbersConfig()])
def test_what_reads_no_data_is_refused(corpus):
    with pytest.raises(ConfigError, match=r"corpus.*Expected: a subclass of DataConfig whose `re"):
        task("counting_corners", config=NumbersConfig, metrics=Metric("x"), corpus=corpus)
