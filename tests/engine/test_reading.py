"""A study that is run, loaded, queried, compared and reported from Python, and trials that fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import ablate
from ablate.commands.query import query as command
from ablate.config import tasks
from ablate.errors import TrialError
from ablate.study.designs import table
from ablate.study.study import Study
from ablate.study.words import Arm, Scale


@dataclass(frozen=True, kw_only=True)
class Config:
    shift: float = ablate.setting(0.0, doc="added to the seed")
    ends: str = ablate.setting("well", doc="how it ends", choices=("well", "fails", "diverges"))


@pytest.fixture
def study(monkeypatch):
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))

    @ablate.task("ends", config=Config, metrics=ablate.Metric("accuracy", better="higher"))
    def train(run):
        print("now it", run.config.ends)
        if run.config.ends == "fails":
            raise ValueError("no luck")
        value = float("nan") if run.config.ends == "diverges" else run.seed + run.config.shift
        return {"valid_accuracy": value, "test_accuracy": value}

    def made(**arms) -> Study:
        listed = (Arm(name, {f"ends.{f}": v for f, v in own.items()}) for name, own in arms.items())
        return Study(
            name="ends", question="?", base={"task": "ends"}, base_arm="a",
            design=table(Arm("a"), *listed), scales={"s": Scale(seeds=2)},
        )  # fmt: skip

    return made


def test_what_was_run_is_loaded_queried_compared_and_reported(study, workspace) -> None:
    at: Any = {"workspace": str(workspace.folder)}
    summary = ablate.run(study(b={"shift": 0.5}), local=True, **at)
    assert ablate.load("ends", **at).arms == summary.arms
    sql = "SELECT arm, max(test_accuracy) AS top FROM trials GROUP BY arm ORDER BY arm"
    with pytest.warns(UserWarning, match="the mirror is missing"):
        found = ablate.query(sql, **at)
    assert found.to_frame().to_dict("list") == {"arm": ["a", "b"], "top": [2.0, 2.5]}
    assert str(found) == command(workspace, sql, "text") and "<td>b</td>" in found._repr_html_()
    beside = ablate.compare("ends", **at)
    assert "ends@s" in str(beside) and list(beside.to_frame()["arm or model"]) == ["a", "b"]
    changed = ablate.compare(differ="ends.shift", split="test", **at)
    assert list(changed.to_frame()["difference"]) == [0.5] and "2 " in str(changed)
    page = ablate.report("ends", static=True, **at)
    assert page == workspace.study_folder("ends@s") / "report.html"
    assert "<script" not in page.read_text()


def test_trials_that_fail_raise_unless_told_otherwise(study, workspace) -> None:
    at: Any = {"workspace": str(workspace.folder), "local": True}
    asked = study(b={"ends": "fails"}, c={"ends": "diverges"})
    with pytest.raises(TrialError, match=r"(?s)4 of 6 trials failed .*ValueError: no luck") as lost:
        ablate.run(asked, **at)
    assert "Its last output:\n    now it fails" in str(lost.value)
    assert f"--log --workspace {workspace.folder}\n" in str(lost.value)
    assert str(lost.value).endswith("run(..., check=False) returns the table anyway.")
    with pytest.warns(UserWarning, match="4 of 6 trials failed or diverged"):
        summary = ablate.run(asked, check=False, **at)
    assert summary.arm("a").counts.completed == 2 and summary.arm("b").counts.completed == 0


def test_a_trial_that_diverges_is_a_result(study, workspace) -> None:
    with pytest.warns(UserWarning, match="2 of 4 trials failed or diverged"):
        ablate.run(study(c={"ends": "diverges"}), workspace=str(workspace.folder), local=True)


def test_progress_is_shown_where_somebody_watches(study, workspace, capsys) -> None:
    at: Any = {"workspace": str(workspace.folder), "local": True}
    ablate.run(study(), **at)
    assert "trials" not in capsys.readouterr().out, "neither a terminal nor a notebook"
    ablate.run(study(b={"shift": 0.5}), quiet=False, **at)
    assert "ends@s: 4 of 4 trials done" in capsys.readouterr().out
