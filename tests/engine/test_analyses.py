"""The analyses that a study names: made when it ends, kept, shown, and never in its way."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablate import Analyze, Arm, Scale, Study, table
from ablate.commands.report import report
from ablate.engine import analyses
from ablate.engine.run import RunOptions, run_study
from ablate.errors import ConfigError, StoreError, StudyError
from ablate.lm.analysis import timescales
from ablate.store import findings
from ablate.store import journal as journals
from tests.support.small_studies import BASE

KEY = "looked@tiny"
ARMS = (
    Arm("linear", {"backbone": "irlm"}),
    Arm("gated", {"backbone": "lstm", "backbone.num_layers": 1}),
)
CURVES = Analyze("learning_curve", ("linear", "gated"))
TIMES = Analyze("timescales", ("linear",), shows="Figure 1a")


def study_of(*analyses: Analyze) -> Study:
    return Study(
        name="looked",
        question="?",
        paper="pachitariu2013irlm",
        base={**BASE, "corpus.train_tokens": 300, "corpus.eval_tokens": 200},
        base_arm="linear",
        design=table(*ARMS),
        analyses=analyses,
        scales={"tiny": Scale(seeds=2)},
    )


def run(study, workspace):
    return run_study(study, "tiny", workspace, RunOptions(local=True, quiet=True))


@pytest.mark.slow
def test_they_are_kept_shown_and_made_once(workspace, monkeypatch):
    ended = run(study_of(CURVES, TIMES), workspace)
    curves, times = findings.read(workspace.store, KEY)
    first = {
        arm.name: next(t.id for t in ended.record.trials if (t.arm, t.seed) == (arm.name, 1))
        for arm in ARMS
    }
    assert curves.trials == (first["linear"], first["gated"])
    assert times.trials == (first["linear"],)
    assert times.paper.startswith("Figure 1a: IRLM, the units' timescales")
    assert times.title == "Timescales of linear seed 1" and times.svg.startswith("<?xml")
    assert (workspace.folder / "analyses" / first["linear"] / "timescales.csv").exists()
    page = Path(report(workspace, KEY).split("\n")[0]).read_text(encoding="utf-8")
    assert f">{times.title}</h2>" in page and "Paper: Figure 1a" in page
    assert f'alt="{times.title}" src="data:image/svg+xml' in page

    def unwanted(*args, **options):
        raise AssertionError("made again")

    monkeypatch.setattr(timescales, "ANALYSIS", timescales.Analysis(run=unwanted))
    run(study_of(CURVES, TIMES), workspace)
    assert findings.read(workspace.store, KEY) == (curves, times)


@pytest.mark.slow
def test_a_damaged_file_is_made_again(workspace):
    run(study_of(TIMES), workspace)
    before = findings.read(workspace.store, KEY)
    path = workspace.store.folder / "studies" / KEY / "analyses.json"
    path.write_bytes(path.read_bytes().replace(b"median", b"medial"))
    run(study_of(TIMES), workspace)
    assert findings.read(workspace.store, KEY) == before


def test_an_analysis_that_cannot_be_made_stops_nothing(workspace, capsys):
    ended = run(study_of(Analyze("timescales", ("gated",)), TIMES), workspace)
    assert ended.interrupted is None
    assert [each.title for each in findings.read(workspace.store, KEY)] == [
        "Timescales of linear seed 1"
    ]


def test_an_error_inside_an_analysis_stops_nothing_either(workspace, monkeypatch):
    def broken(*subjects, options):
        raise ZeroDivisionError("by 0")

    monkeypatch.setattr(timescales, "ANALYSIS", timescales.Analysis(run=broken))
    ended = run(study_of(TIMES, CURVES), workspace)
    assert ended.interrupted is None and ended.unrecorded == ""
    assert [each.analysis for each in findings.read(workspace.store, KEY)] == ["learning_curve"]


def test_findings_that_cannot_be_kept_stop_nothing(workspace, monkeypatch):
    def full(*_: object) -> None:
        raise StoreError("No space left on device")

    monkeypatch.setattr(findings, "write", full)
    ended = run(study_of(CURVES), workspace)
    assert ended.interrupted is None and ended.unrecorded == ""


def test_an_arm_without_a_trained_model_stops_nothing(workspace, monkeypatch):
    """As when all trials of its search failed."""
    monkeypatch.setattr(analyses, "NO_MODEL", ("train",))
    assert run(study_of(TIMES), workspace).interrupted is None
    assert findings.read(workspace.store, KEY) == ()


@pytest.mark.parametrize(
    ("analysis", "error", "message"),
    [
        (Analyze("timescale", ("linear",)), ConfigError, "Did you mean 'timescales'"),
        (Analyze("timescales", ("linear",), options={"num": 1}), ConfigError, "num"),
        (Analyze("gate_words", ("linear",), published={"nums": 1}), ConfigError, "'num'"),
        (Analyze("next_words", ("linear",)), ConfigError, "takes 2 trials, not 1"),
    ],
)
def test_mistakes_are_found_before_anything_trains(analysis, error, message, workspace):
    with pytest.raises(error, match=message):
        run(study_of(analysis), workspace)
    assert journals.read_all(workspace.store) == {}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"arms": ("lineal",)}, "Did you mean 'linear'"),
        ({"shows": "Figure 9"}, "Figure 1a"),
    ],
)
def test_a_study_that_names_what_is_not_there_is_refused(wrong, message):
    with pytest.raises(StudyError, match=message):
        study_of(Analyze(**{"analysis": "timescales", "arms": ("linear",), **wrong}))


def test_an_analysis_is_of_some_arm():
    with pytest.raises(StudyError, match="the name of an arm"):
        Analyze("timescales", ())
