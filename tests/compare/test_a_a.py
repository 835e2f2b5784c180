"""Arms that differ in nothing but chance, and arms that differ by far, through the real pipeline.

How often tables call equal arms different is measured by `make calibrate` (tests/lab/calibration).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ablate.compare.judged import Judged
from ablate.compare.statistics.paired import t_test
from ablate.config import tasks
from ablate.config.fields import setting
from ablate.config.metrics import Metric
from ablate.results.verdict import Verdict
from ablate.store import journal as journals
from ablate.study.designs import table
from ablate.study.plan import make_plan
from ablate.study.study import Study
from ablate.study.words import Arm, Scale
from ablate.trial.stand_in import Noise
from ablate.tune import local
from ablate.tune.schedule import Schedule
from ablate.tune.search.arm import open_search
from tests.lab.calibration.draws import arms_of
from tests.lab.calibration.rows.tuned import searched
from tests.lab.calibration.tables import SMALL, tuned_table
from tests.support.small_studies import BASE, order_in

LISTED = Scale(seeds=3)
ACCURACY = Metric("accuracy", better="higher", scale="logit")


@dataclass(frozen=True, kw_only=True)
class LuckConfig:
    unread: int = setting(0, doc="a setting that is never read")
    loss: float = setting(5.0, doc="that the luck of the seed and of the arm is added to")


def by_luck(run) -> dict[str, float]:
    """The accuracy whose loss is one draw of `Noise`."""
    shared = np.random.default_rng(run.seed).normal(0, Noise.SHARED)
    own = np.random.default_rng([run.seed, run.config.unread + 1]).normal(0, Noise.OWN)
    loss = run.config.loss + shared + own
    return reported_as(ACCURACY, {"valid_nll": loss, "test_nll": loss})


def reported_as(metric: Metric, nats: Mapping[str, float]) -> dict[str, float]:
    """What trials report whose losses by this metric are these."""
    return {
        metric.key(key.removesuffix("_nll")): metric.show(loss) / metric.factor
        for key, loss in nats.items()
    }


def finished(study: Study, workspace) -> Judged:
    plan = make_plan(study, "s", data=workspace.data)
    schedule = Schedule(plan, workspace.store, open_search(workspace.searches))
    local.run(schedule, order_in(workspace))
    record = schedule.plan.record
    return Judged(record, journals.read_all(workspace.store, record.trial_ids()))


def decided(summary: Judged) -> list[Verdict]:
    verdicts = [arm.comparison.verdict for arm in summary.arms if arm.comparison]
    return [verdict for verdict in verdicts if verdict.decided]


def test_where_higher_is_better_the_same_losses_have_the_same_verdicts(by_hand):
    for losses in arms_of(np.random.default_rng(6), 40, 3, 3):
        losses[1:] += [[9.0], [-9.0]]
        named = zip(("base", "high", "low"), (5 + SMALL * losses).tolist(), strict=True)
        study = by_hand(dict(named))
        in_nats = decided(Judged(study.record, study.journals))
        study.record_fields = {"judged_by": ACCURACY}
        for journal in study.journals.values():
            reported = reported_as(ACCURACY, journal.outcome.metrics)
            journal.outcome = replace(journal.outcome, metrics=reported)
        assert decided(Judged(study.record, study.journals)) == in_nats != []


def test_one_search_per_arm_gets_no_verdict_because_it_would_err_too_often():
    """Its seeds share its luck: a test that takes them for repetitions errs more than twice as
    often as it states, and so do intervals that are taken for those of the arms."""
    generator = np.random.default_rng(4)
    losses = searched(generator, 1_000, searches=1, tried=8, seeds=5, apart=1.0)
    by_seeds = [(t_test((arm - base)[0].tolist()) or 0) <= 0.05 for base, arm in losses]
    assert np.mean(by_seeds) > 0.1
    summaries = [tuned_table(comparison / SMALL) for comparison in losses[:20]]
    assert {s.arm("arm 1").comparison.verdict for s in summaries} == {"no verdict"}
    assert not any(arm.best for s in summaries for arm in s.arms)


def test_an_arm_that_is_worse_is_called_so(workspace):
    """The pipeline finds a difference of forty spreads: it is not deaf."""
    arms = [
        Arm(f"arm {i}", {"training.window": 20 + i, "optimizer.learning_rate": rate})
        for i, rate in enumerate((0.1, 1e-6))
    ]
    study = Study(
        question="Is chance called by its name?",
        base=BASE,
        base_arm="arm 0",
        design=table(*arms),
        scales={"s": LISTED},
        runner="noise",
        name="noise",
        file=str(Path(workspace.folder) / "study.py"),
    )
    assert decided(finished(study, workspace)) == ["worse"]


def test_an_arm_of_lower_accuracy_is_called_so(workspace, monkeypatch):
    """A loss that is higher by forty spreads is an accuracy that is lower."""
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))
    tasks.task("luck", config=LuckConfig, metrics=ACCURACY)(by_luck)
    worse = {"luck.unread": 2, "luck.loss": 5 + 40 * Noise.OWN}
    study = Study(
        question="Is chance called by its name?",
        base={"task": "luck"},
        base_arm="arm 0",
        design=table(Arm("arm 0"), Arm("arm 1", {"luck.unread": 1}), Arm("arm 2", worse)),
        scales={"s": LISTED},
        name="luck",
    )
    summary = finished(study, workspace)
    assert summary.arm("arm 2").comparison.verdict == Verdict.WORSE
    assert summary.arm("arm 2").comparison.delta < 0
