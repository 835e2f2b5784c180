"""A study is held to the plan that it stated before its first result."""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ablate import cli
from ablate.compare.judged import Judged
from ablate.compare.statistics.paired import t_interval
from ablate.compare.study_summary import open_study
from ablate.config import tasks
from ablate.engine.run import run
from ablate.errors import DamagedError, Interrupted
from ablate.results.verdict import Verdict
from ablate.store import study_record
from ablate.store.store import Store

pytestmark = pytest.mark.usefixtures("without_pages", "without_mlflow")

STUDY = '''
"""Which level?"""
import os
import signal
from dataclasses import dataclass

from ablate import Arm, Metric, Scale, Study, setting, table, task


@dataclass(frozen=True, kw_only=True)
class Levels:
    level: int = setting(1, doc="adds to the error", low=0)


calls = []


@task("levels", config=Levels, metrics=(Metric("error"), Metric("time")))
def train(run):
    if run.config.level == 66:
        raise ValueError("no")
    noise = run.streams.python(f"noise {run.config.level}").random()
    error = 1 + 0.05 * noise + 0.05 * run.config.level
    return {f"{s}_{m}": error for s in ("valid", "test") for m in ("error", "time")}


study = Study(
    question="Which level?",
    base={"task": "levels"},
    base_arm="one",
    design=table(Arm("one"), Arm("two", {"levels.level": 2}), Arm("nine", {"levels.level": 9})),
    scales={"small": Scale(seeds=5)},
)
'''
LEVEL = '    level: int = setting(1, doc="adds to the error", low=0)'
TWO = 'Arm("two", {"levels.level": 2}), '


@pytest.fixture
def ran(tmp_path: Path, monkeypatch):
    """Run the study, with parts of its text replaced, in one workspace."""
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))

    def ran(*changes: tuple[str, str], **options: Any) -> Judged:
        text = STUDY
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        (tmp_path / "levels.py").write_text(text)
        place = str(tmp_path / "workspace")
        options = {"local": True, "quiet": True, "keep": True, **options}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of trials that fail, as some must
            return run(tmp_path / "levels.py", workspace=place, **options)

    return ran


def interrupted_after(num: int) -> tuple[str, str]:
    """Return a change of the study's text that ends it with Ctrl-C after so many trials."""
    stop = f"if len(calls) > {num}:\n        os.kill(os.getpid(), signal.SIGINT)\n"
    return "    noise = run", f"    calls.append(1)\n    {stop}    noise = run"


def line(judged: Judged) -> str:
    return next(n for n in judged.notes if n.startswith(("As planned", "Changed", "Planned on")))


def test_a_study_that_is_run_again_is_as_planned(ran):
    for _ in range(2):
        judged = ran()
        assert line(judged).startswith("As planned on 20")
        assert judged.looks.is_one
        assert judged.arm("nine").comparison.verdict == Verdict.WORSE
    assert line(ran(('"small"', '"tiny"'))).startswith("As planned on 20")  # the name of the scale


def test_an_arm_that_is_left_out_still_counts(ran):
    before = ran().arm("nine").comparison
    judged = ran((TWO, ""))
    assert line(judged) == (
        "Changed since the first result: 1 of 3 arms left out (two; they still count)."
    )
    assert judged.num_comparisons == 2
    assert judged.arm("nine").comparison.p_holm == pytest.approx(2 * before.difference.p)
    renamed = ran(('Arm("two"', 'Arm("deux"'))
    assert line(renamed).startswith("As planned")
    assert ran((TWO, ""), ('"small"', '"tiny"')).num_comparisons == 2


def test_an_arm_that_never_had_a_result_does_not_count(ran):
    failing = ('"levels.level": 2', '"levels.level": 66')
    assert ran(failing, check=False).num_comparisons == 2
    judged = ran((TWO, ""))
    assert line(judged).startswith("As planned")
    assert judged.num_comparisons == 1


def test_a_margin_that_came_later_gives_no_same(ran):
    wide = ("scales=", "margin=50.0, scales=")
    ran()
    judged = ran(wide)
    assert "margin added (so `same` is not a test)" in line(judged)
    assert judged.arm("two").comparison.verdict != Verdict.SAME


def test_a_margin_that_was_planned_does(ran):
    wide = ("scales=", "margin=50.0, scales=")
    noisy = ("0.05 * noise", "0.5 * noise")
    assert ran(wide, noisy).arm("two").comparison.verdict == Verdict.SAME


@pytest.mark.parametrize("seeds", [3, 8])
def test_other_numbers_of_seeds_are_judged_at_any_time(ran, seeds):
    ran()
    judged = ran(("seeds=5", f"seeds={seeds}"))
    assert f"{seeds} seeds instead of 5" in line(judged)
    assert not judged.looks.as_planned


def test_fewer_seeds_after_an_interrupted_run_are_judged_at_any_time(ran):
    """Its first result is enough: whoever saw that may have stopped because of it."""
    with pytest.raises(Interrupted):
        ran(interrupted_after(4))
    judged = ran(("seeds=5", "seeds=3"))
    assert "3 seeds instead of 5" in line(judged)
    assert not judged.looks.as_planned


def test_a_metric_or_a_base_that_was_chosen_later_is_judged_at_any_time(ran):
    ran()
    judged = ran(("scales=", 'metric="time", scales='))
    assert "decided by time instead of error" in line(judged)
    assert not judged.looks.as_planned
    judged = ran(('base_arm="one"', 'base_arm="two"'))
    assert not judged.looks.as_planned


def test_any_two_arms_count_once_the_base_is_chosen(ran):
    """With the base and an arm chosen of ten, 18% of tables without any difference decided."""
    ran()
    whole = ran(('base_arm="one"', 'base_arm="two"'))
    assert line(whole).endswith(
        " results of its arms were already there; compared with two instead of one."
    )
    assert whole.record.tested_elsewhere == 1  # one with nine
    chosen = ran(('base_arm="one"', 'base_arm="two"'), ('Arm("one"), ', ""))
    assert chosen.record.tested_elsewhere == 2
    assert ran().record.tested_elsewhere == 0


def test_a_base_of_another_question_is_not_chosen(ran):
    ran()
    judged = ran(('base_arm="one"', 'base_arm="two"'), ('question="Which', 'question="What'))
    assert judged.record.tested_elsewhere == 0 and "instead" not in line(judged)


def test_what_was_stated_before_any_result_may_change(ran, tmp_path):
    """A study whose trials all fail has taught nobody anything; unless it was registered."""
    failing = ("if run.config.level == 66", "if True")
    ran(failing, check=False)
    assert line(ran((TWO, ""), ("seeds=5", "seeds=4"))).startswith("As planned")


def test_a_registered_plan_stays(ran, tmp_path, capsys):
    (tmp_path / "levels.py").write_text(STUDY)
    command = ["plan", str(tmp_path / "levels.py"), "--register"]
    command += ["--workspace", str(tmp_path / "workspace")]
    assert cli.main(command) == 0
    (stated,) = (tmp_path / "workspace" / "store" / "plans").rglob("plan.json")
    printed = capsys.readouterr().out
    assert "SHA-256" in printed
    assert cli.main(command) != 0
    assert "is not stated again" in capsys.readouterr().err
    before = stated.read_bytes()
    assert line(ran()).startswith("As planned")
    assert line(ran(("seeds=5", "seeds=4"))) == (
        "Changed since the first result: 4 seeds instead of 5."
    )
    assert stated.read_bytes() == before


def test_a_study_from_before_plans_were_stated_goes_on_as_it_was(ran, tmp_path):
    store = Store(str(tmp_path / "workspace" / "store"))
    record = replace(ran().record, kept_plan=None)
    shutil.rmtree(store.folder / "plans")
    study_record.write(store, record)
    judged = ran()
    assert judged.record.kept_plan is None
    assert judged.looks.is_one
    assert not list(store.names("plans"))


def test_a_damaged_plan_is_an_error_that_names_it(ran, tmp_path):
    ran()
    (stated,) = (tmp_path / "workspace" / "store" / "plans").rglob("plan.json")
    stated.write_text(json.dumps({"arms": 3}))
    with pytest.raises(DamagedError, match=r"plan\.json"):
        ran()


def test_while_a_study_runs_its_intervals_hold_at_any_time(ran, tmp_path):
    with pytest.raises(Interrupted):
        ran(interrupted_after(12))
    judged = open_study(Store(str(tmp_path / "workspace" / "store")), "levels@small")
    found = judged.arm("nine").comparison
    assert judged.arm("nine").counts.missing
    low, high = t_interval(found.difference.deltas, 0.05)
    assert found.interval[0] < low < high < found.interval[1]
    assert found.p_holm is None
    assert found.verdict == Verdict.UNDECIDED


def test_an_arm_that_was_tuned_and_left_out_still_counts(ran):
    """What confirms a winner is planned on the way, and its result counts as any other."""
    space = '{"Level": {"field": "levels.level", "choices": [0, 1, 3]}}'
    search = f"search=Search(space={space}, trials=2, repeats=3), "
    tuned = (
        ("import Arm,", "import Arm, Search,"),
        ("Scale(seeds=5)", f"Scale({search}seeds=1)"),
        ('Arm("two", {"levels.level": 2}), ', 'Arm("two", {"levels.scale": 2.0}), '),
        ('Arm("nine", {"levels.level": 9})', 'Arm("nine", {"levels.scale": 9.0})'),
        (LEVEL, f'{LEVEL}\n    scale: float = setting(1.0, doc="of the noise")'),
        ("0.05 * noise", "0.05 * run.config.scale * noise"),
    )
    ran(*tuned[2:])  # the arms as listed: another question
    assert line(ran(*tuned)).startswith("As planned")
    less = ('Arm("two", {"levels.scale": 2.0}), ', "")
    judged = ran(*tuned, less)
    assert "1 of 3 arms left out (two; they still count)" in line(judged)
    assert judged.num_comparisons == 2


def test_a_replication_says_what_came_of_those_before_it(ran, tmp_path, capsys):
    ran()
    command = ["study", str(tmp_path / "levels.py"), "--local"]
    command += ["--workspace", str(tmp_path / "workspace")]
    for number in ("1", "2"):
        assert cli.main([*command, "--replicate", number]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Replicates levels@small (seeds 1 to 5: two" in shown
    assert "and levels@small-replicate (seeds 6 to 10: two" in shown
