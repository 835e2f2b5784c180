"""A/A: arms that differ in nothing but chance, and how often a table calls them different.

A table that calls such arms different is wrong, which may happen as often as the table states and
no more. This is counted over NUM tables whose losses are drawn here: enough to notice a table that
errs in 7.5% of cases instead of 5%. NUM_RUN studies of each kind show that the pipeline (plan,
schedule, searches by Optuna, journals, winners confirmed on fresh seeds, the table) makes tables of
such draws: everything in them is real except the training (`stand_in.Noise`), and their differences
are distributed like the draws here.

Every study that is run has different values, and so different trials and draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from ablate.compare.statistics.paired import t_test
from ablate.compare.table.rows import Summary
from ablate.compare.table.summary import summarise
from ablate.config import tasks
from ablate.config.fields import setting
from ablate.config.metrics import Metric
from ablate.results.verdict import Verdict
from ablate.store import journal as journals
from ablate.store.study_record import SearchRecord
from ablate.study.designs import table
from ablate.study.plan import make_plan
from ablate.study.study import Study
from ablate.study.words import Arm, Scale, Search
from ablate.testing.stand_in import Noise
from ablate.tune import local
from ablate.tune.schedule import Schedule
from ablate.tune.search.arm import open_search
from tests.support.small_studies import BASE, RATE, order_in

pytestmark = pytest.mark.timeout(1200)  # some 20 s of one core, which a busy machine gives slowly
NUM = 2500
NUM_RUN = 30
STATED, NOTICED = 0.05, 0.075
TUNED = Scale(seeds=1, search=Search(space="rate", trials=2, sampler="random", repeats=3))
LISTED = Scale(seeds=3)
ACCURACY = Metric("accuracy", better="higher", scale="logit")


@dataclass(frozen=True, kw_only=True)
class LuckConfig:
    number: int = setting(0, doc="of the study: other numbers are other trials")
    unread: int = setting(0, doc="a setting that is never read")
    loss: float = setting(5.0, doc="that the luck of the seed and of the arm is added to")


def by_luck(run) -> dict[str, float]:
    """The accuracy whose loss is one draw of `Noise`."""
    shared = np.random.default_rng([run.config.number, run.seed]).normal(0, Noise.SHARED)
    own = np.random.default_rng([run.config.number, run.seed, run.config.unread + 1])
    loss = run.config.loss + shared + own.normal(0, Noise.OWN)
    return reported_as(ACCURACY, {"valid_nll": loss, "test_nll": loss})


@pytest.fixture
def tables_of_accuracy(workspace, monkeypatch):
    """Runs a study of three arms of a user's task; the last may have another loss."""
    monkeypatch.setattr(tasks, "_kinds", dict(tasks._kinds))
    tasks.task("luck", config=LuckConfig, metrics=ACCURACY)(by_luck)

    def run(number: int, last: float = 5.0) -> Summary:
        arms = [Arm(f"arm {i}", {"luck.unread": i}) for i in range(2)]
        study = Study(
            question="Is chance called by its name?",
            base={"task": "luck", "luck.number": number},
            base_arm="arm 0",
            design=table(*arms, Arm("arm 2", {"luck.unread": 2, "luck.loss": last})),
            scales={"s": LISTED},
            name=f"luck {number}",
        )
        return finished(study, workspace)

    return run


def finished(study: Study, workspace) -> Summary:
    plan = make_plan(study, "s", data=workspace.data)
    schedule = Schedule(plan, workspace.store, open_search(workspace.searches))
    local.run(schedule, order_in(workspace))
    record = schedule.plan.record
    return summarise(record, journals.read_all(workspace.store, record.trial_ids()))


@pytest.fixture
def tables(workspace):
    """Runs a study of arms that differ only in a setting that is never read."""
    folder = Path(workspace.folder)
    (folder / "rate.toml").write_text(RATE)

    def run(number: int, scale: Scale, rates: tuple[float, ...]) -> Summary:
        arms = [
            Arm(f"arm {i}", {"training.window": 20 + i, "optimizer.learning_rate": rate})
            for i, rate in enumerate(rates)
        ]
        study = Study(
            question="Is chance called by its name?",
            base={**BASE, "training.clip": 1.0 + number},
            base_arm="arm 0",
            design=table(*arms),
            scales={"s": scale},
            runner="noise",
            name=f"study {number}",
            file=str(folder / "study.py"),
        )
        return finished(study, workspace)

    return run


def decided(summary: Summary) -> list[Verdict]:
    verdicts = [arm.comparison.verdict for arm in summary.arms if arm.comparison]
    return [verdict for verdict in verdicts if verdict.decided]


def rate(summaries: list[Summary]) -> int:
    """The number of tables that call some arm different."""
    return sum(bool(decided(summary)) for summary in summaries)


def not_more_often_than(wrong: int, level: float) -> bool:
    """Return whether a test that errs at this level may well be wrong that often in NUM tables."""
    return stats.binomtest(wrong, NUM, level, alternative="greater").pvalue > 0.01


def drawn(generator, num_arms: int, num_searches: int, num_seeds: int, tried: int = 1):
    """Losses [arm, search, seed] as `Noise` makes them: each search confirms the rate of the best
    of `tried` trials; arms share their seeds."""
    trials = generator.uniform(-3, 1, (num_arms, num_searches, tried))  # log10 of the rate
    away = Noise.CURVATURE * (trials - np.log10(Noise.BEST_RATE)) ** 2
    noise = generator.normal(0, np.hypot(Noise.SHARED, Noise.OWN), away.shape)
    best = np.argmin(away + noise, axis=-1)[..., None]
    luck = np.take_along_axis(away, best, axis=-1) if tried > 1 else 0.0
    shared = generator.normal(0, Noise.SHARED, (num_searches, num_seeds))
    return 5 + luck + shared + generator.normal(0, Noise.OWN, (num_arms, *shared.shape))


def table_of(
    by_hand, losses, alpha: float = STATED, tuned: bool = False, metric: Metric | None = None
) -> Summary:
    num_arms, num_searches, num_seeds = losses.shape
    names = [f"arm {i}" for i in range(num_arms)]
    study = by_hand(dict(zip(names, losses.reshape(num_arms, -1), strict=True)), base_arm="arm 0")
    searches = tuple(
        SearchRecord(arm=arm, repeat=repeat, num_trials=2)
        for repeat in range(num_searches)
        for arm in names
    )
    study.record_fields = {"num_seeds": num_seeds, "searches": searches if tuned else ()}
    if metric is not None:
        study.record_fields["judged_by"] = metric
        for journal in study.journals.values():
            reported = reported_as(metric, journal.outcome.metrics)
            journal.outcome = replace(journal.outcome, metrics=reported)
    return summarise(study.record, study.journals, alpha=alpha)


def reported_as(metric: Metric, nats: Mapping[str, float]) -> dict[str, float]:
    """What trials report whose losses by this metric are these."""
    return {
        metric.key(key.removesuffix("_nll")): metric.show(loss) / metric.factor
        for key, loss in nats.items()
    }


@pytest.mark.slow
def test_a_table_that_errs_in_more_cases_than_it_states_is_noticed(by_hand):
    """A table that errs in 7.5% of cases is noticed, and would be in 99% of draws."""
    most = max(wrong for wrong in range(NUM) if not_more_often_than(wrong, STATED))
    assert stats.binom.sf(most, NUM, NOTICED) > 0.99
    generator = np.random.default_rng(1)
    summaries = [table_of(by_hand, drawn(generator, 2, 1, 3), NOTICED) for _ in range(NUM)]
    assert not not_more_often_than(rate(summaries), STATED)
    assert not_more_often_than(rate(summaries), NOTICED)


@pytest.mark.slow
def test_identical_arms_are_called_different_no_more_often_than_stated(by_hand):
    """Three arms as listed: two comparisons a table, which errs as a whole."""
    generator = np.random.default_rng(2)
    summaries = [table_of(by_hand, drawn(generator, 3, 1, 3)) for _ in range(NUM)]
    assert not_more_often_than(rate(summaries), STATED)
    assert not_more_often_than(sum(any(arm.best for arm in s.arms) for s in summaries), STATED)
    assert rate(summaries) > 0.02 * NUM  # it is not deaf


@pytest.mark.slow
def test_identical_arms_are_no_more_often_where_higher_is_better(by_hand):
    generator = np.random.default_rng(6)
    losses = [drawn(generator, 3, 1, 3) for _ in range(NUM)]
    summaries = [table_of(by_hand, each, metric=ACCURACY) for each in losses]
    assert not_more_often_than(rate(summaries), STATED)
    assert not_more_often_than(sum(any(arm.best for arm in s.arms) for s in summaries), STATED)
    assert rate(summaries) > 0.02 * NUM  # it is not deaf
    for summary, each in zip(summaries[:200], losses, strict=False):
        in_nats = table_of(by_hand, each)
        assert decided(summary) == [verdict.opposite for verdict in decided(in_nats)]


@pytest.mark.slow
@pytest.mark.parametrize(("num_seeds", "tried"), [(1, 2), (5, 8)])
def test_identical_arms_that_three_searches_tuned_are_no_more_often(by_hand, num_seeds, tried):
    """Each search finds a rate of its own: a pair is a search, and not a seed of one."""
    generator, covered, summaries = np.random.default_rng(3), 0, []
    for _ in range(NUM):
        summaries.append(table_of(by_hand, drawn(generator, 2, 3, num_seeds, tried), tuned=True))
        low, high = summaries[-1].arm("arm 1").comparison.difference.interval
        covered += low <= 0 <= high
    assert not_more_often_than(rate(summaries), STATED)
    assert not_more_often_than(NUM - covered, STATED)


def test_one_search_per_arm_gets_no_verdict_because_it_would_err_too_often(by_hand):
    """Its seeds share its luck: a test that takes them for repetitions errs more than twice as
    often as it states, and so do intervals that are taken for those of the arms."""
    generator = np.random.default_rng(4)
    losses = [drawn(generator, 2, 1, 5, tried=8) for _ in range(NUM)]
    by_seeds = sum((t_test(arm[0] - base[0]) or 0) <= STATED for base, arm in losses)
    assert by_seeds > 2 * STATED * NUM
    summaries = [table_of(by_hand, comparison, tuned=True) for comparison in losses[:100]]
    assert {s.arm("arm 1").comparison.verdict for s in summaries} == {"no verdict"}
    assert not any(arm.best for s in summaries for arm in s.arms)


def differences(summaries: list[Summary]) -> np.ndarray:
    """The differences of the first two arms, [table, pair]."""
    return np.array([s.arm("arm 1").comparison.difference.deltas for s in summaries])


@pytest.mark.slow
def test_what_the_pipeline_lists_are_such_draws(tables):
    summaries = [tables(number, LISTED, (1.0, 1.0, 1.0)) for number in range(NUM_RUN)]
    assert all(summary.whole for summary in summaries)
    one = differences(summaries) / (np.sqrt(2) * Noise.OWN)
    assert one.shape == (NUM_RUN, 3)
    assert stats.kstest(one.ravel(), "norm").pvalue > 0.01
    assert all(abs(np.corrcoef(one.T)[i, j]) < 0.5 for i, j in ((0, 1), (0, 2), (1, 2)))


@pytest.mark.slow
def test_what_the_pipeline_tunes_are_such_draws(tables):
    summaries = [tables(number, TUNED, (1.0, 1.0)) for number in range(NUM_RUN)]
    one = differences(summaries)
    assert all(len(arm.values) == 3 for summary in summaries for arm in summary.arms)
    generator = np.random.default_rng(5)
    ours = [drawn(generator, 2, 3, 1, tried=2)[..., 0] for _ in range(NUM)]
    theirs = np.array([arm - base for base, arm in ours])
    assert stats.ks_2samp(one.ravel(), theirs.ravel()).pvalue > 0.01
    assert all(abs(np.corrcoef(one.T)[i, j]) < 0.5 for i, j in ((0, 1), (0, 2), (1, 2)))


def test_an_arm_that_is_worse_is_called_so(tables):
    """The same pipeline finds a difference of forty spreads: it is not deaf."""
    summaries = [tables(number, LISTED, (0.1, 1e-6)) for number in range(5)]
    assert [decided(summary) for summary in summaries] == [["worse"]] * 5


@pytest.mark.slow
def test_what_the_pipeline_lists_of_a_users_task_are_such_draws(tables_of_accuracy):
    summaries = [tables_of_accuracy(number) for number in range(NUM_RUN)]
    assert all(summary.whole for summary in summaries)
    one = differences(summaries) / (np.sqrt(2) * Noise.OWN)
    assert one.shape == (NUM_RUN, 3)
    assert stats.kstest(one.ravel(), "norm").pvalue > 0.01


def test_an_arm_of_lower_accuracy_is_called_so(tables_of_accuracy):
    """A loss that is higher by forty spreads is an accuracy that is lower."""
    summary = tables_of_accuracy(1, last=5 + 40 * Noise.OWN)
    assert summary.arm("arm 2").comparison.verdict == Verdict.WORSE
    assert summary.arm("arm 2").comparison.delta < 0
