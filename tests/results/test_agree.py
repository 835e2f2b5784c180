"""What a table counts is what `ablate query` counts: over random stores, and over old workspaces.

The table's numbers are computed from a study's record and its journals; those of the view `arms`
from the mirror. Whatever became of the trials, both must say the same of each arm and split.
"""

from __future__ import annotations

import math
import shutil
import tempfile
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ablate.compare.across.query import ask
from ablate.compare.judged import Judged
from ablate.compare.table.rows import ArmSummary
from ablate.config.identity import Parent, Trial
from ablate.config.metrics import BITS, MORE_PARAMETERS, PERPLEXITY, Metric
from ablate.record.mirror.syncing import Mirror, update_mirror
from ablate.store import journal as journals
from ablate.store import study_record
from ablate.store.attempt import Attempt
from ablate.store.epoch import Epoch
from ablate.store.journal import Journal
from ablate.store.outcome import Outcome, Status
from ablate.store.store import Store
from ablate.store.study_record import ArmRecord, PlannedTrial, SearchRecord, StudyRecord
from ablate.store.workspace import open_workspace
from tests.support import places

ACCURACY = Metric("accuracy", better="higher", scale="logit", factor=100)
RANK = Metric("rank.rank", better="neither", scale="log")
METRICS = (PERPLEXITY, BITS, ACCURACY, Metric("loss"), Metric("error", scale="log", factor=100))
NAMES = ("a", "b b", "15,0,0,0", "c'\"@[1]", "ü")
# What becomes of a trial. `nan` completes with a test result that is no number.
FATES = (*Status, "nan", "untested", "never started")


def numbers(draw: Any, metric: Metric, fate: str) -> dict[str, Any]:
    value = st.floats(0.05, 0.95, allow_nan=False)
    values = {metric.key(split): draw(value) for split in metric.splits}
    if fate == "nan":
        values[metric.key("test")] = math.nan
    if fate == "untested":
        del values[metric.key("test")]
    return values


def journal_of(draw: Any, planned: PlannedTrial, metric: Metric, arm: str) -> Journal | None:
    """The journal of a trial of any fate, with the arm's name in the study that ran it first."""
    fate = draw(st.sampled_from(FATES))
    if fate == "never started":
        return None
    trial = Trial(
        id=planned.id,
        values={"head": "mos"},
        seed=planned.seed,
        corpus_digest="c0",
        parents=tuple(Parent("start", parent) for parent in planned.parents),
        arm=arm,
        stage=planned.stage,
    )
    ended = fate not in (Status.RUNNING, Status.INTERRUPTED, Status.LEFT)
    whole = fate in (Status.COMPLETED, "nan", "untested")
    status = Status.COMPLETED if whole else fate
    values: dict[str, Any] = {}
    if whole:
        of = RANK if planned.stage == "measure" else metric
        values = numbers(draw, of, fate)
    size = draw(st.sampled_from((None, 1000, 1001)))
    outcome = Outcome(status=Status(status), metrics=values, num_parameters=size) if ended else None
    epochs = [Epoch(n, {"valid_nll": 4.0}, seconds=1.0 * n, tokens=100) for n in (1, 2)]
    attempt = Attempt(started="2026-01-02T03:04:05Z", host="box")
    attempts = [attempt] * draw(st.integers(1, 2))
    return Journal(trial, {"corpus.name": "grammar"}, attempts, epochs, outcome)


def planned_trials(draw: Any, study: str, arm: int, num_seeds: int) -> list[PlannedTrial]:
    """The trials of one arm: a chain of one or two stages for each seed, perhaps measured."""
    chain, measured = draw(st.booleans()), draw(st.booleans())
    name, trials = NAMES[arm], []
    for index in range(num_seeds):
        first = f"{study}{arm}x{index}"
        role = {"arm": name, "seed": index + 1, "seed_index": index}
        last = first
        trials.append(PlannedTrial(id=first, stage="train", final=not chain, **role))
        if chain:
            last = f"{first}again"
            more = {"stage": "again", "final": True, "parents": (first,)}
            trials.append(PlannedTrial(id=last, **more, **role))
        if measured:
            more = {"stage": "measure", "final": False, "parents": (last,)}
            trials.append(PlannedTrial(id=f"{first}measure", **more, **role))
    return trials


@st.composite
def stored_studies(draw: Any) -> list[tuple[StudyRecord, dict[str, Journal]]]:
    """One or two studies; the second shares the trials of the first's first arm."""
    studies: list[tuple[StudyRecord, dict[str, Journal]]] = []
    metric = draw(st.sampled_from(METRICS))
    for number in range(draw(st.integers(1, 2))):
        num_arms, num_seeds = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        key = f"s{number}"
        trials = [t for arm in range(num_arms) for t in planned_trials(draw, key, arm, num_seeds)]
        known: dict[str, Journal] = {}
        for planned in trials:
            made = journal_of(draw, planned, metric, draw(st.sampled_from(NAMES)))
            if made is not None:
                known[planned.id] = made
        if studies:
            before, theirs = studies[0]
            own = [t for t in before.trials if t.arm == NAMES[0]]
            renamed = [replace(t, arm=NAMES[num_arms]) for t in own]
            trials += renamed
            known |= {t.id: theirs[t.id] for t in own if t.id in theirs}
            num_seeds = max(num_seeds, before.num_seeds)
        studies.append((record_of(draw, key, trials, num_seeds, metric), known))
    return studies


def record_of(
    draw: Any, name: str, trials: list[PlannedTrial], num_seeds: int, metric: Metric
) -> StudyRecord:
    searches = [
        SearchRecord(arm=arm, repeat=repeat, num_trials=2, chosen="x")
        for arm in dict.fromkeys(trial.arm for trial in trials)
        for repeat in range(draw(st.integers(1, 3)))
    ]
    return study(
        name,
        trials,
        columns=draw(st.sampled_from(((), (RANK,), (MORE_PARAMETERS,)))),
        level="character" if metric == BITS else "word",
        num_seeds=num_seeds,
        searches=tuple(searches) if draw(st.booleans()) else (),
        published_scale=draw(st.booleans()),
        judged_by=metric,
    )


def study(name: str, trials: list[PlannedTrial], **more: Any) -> StudyRecord:
    names = list(dict.fromkeys(trial.arm for trial in trials))
    published = {"valid": 60.0, "test": 58.2}
    arms = (ArmRecord(name=arm, num_parameters=1000, published=published) for arm in names)
    fields: dict[str, Any] = {"level": "word", "num_seeds": 1, **more}
    return StudyRecord(
        name=name,
        scale="laptop",
        question="Which?",
        paper="",
        tables=(),
        file="x.py",
        command="ablate study x.py",
        corpus="grammar",
        corpus_digest="c0",
        base_arm=names[0],
        arms=tuple(arms),
        trials=tuple(trials),
        **fields,
    )


def expected(record: StudyRecord, known: dict[str, Journal]) -> dict[tuple[str, str], tuple]:
    """What the table says: (arm, split) -> num, mean, spread, loss, parameters, published."""
    summary = Judged(record, known)
    return {
        (arm.name, split): (
            cell.num,
            close(cell.mean),
            close(cell.spread),
            arm.published.get(split),
            num_searches(record, arm.name),
        )
        for arm in summary.arms
        for split, cell in arm.cells.items()
    }


def num_searches(record: StudyRecord, arm: str) -> int | None:
    of_settings = [s for s in record.searches if s.arm == arm and s.seed_index is None]
    return len({search.repeat for search in of_settings}) or None


def close(value: float | None) -> Any:
    return None if value is None else pytest.approx(value, rel=1e-9, abs=1e-9)


def mirror_of(store: Store, folder: str) -> Mirror:
    return update_mirror(open_workspace(folder, store=store.uri))


def mirrored(mirror: Mirror, key: str) -> dict[tuple[str, str], tuple]:
    """What `ablate query` says of the same."""
    study, scale = key.split("@")
    sql = (
        "SELECT arm, split, num, mean, spread, published, num_searches FROM arms "
        f"WHERE study = '{study}' AND scale = '{scale}' AND num > 0"
    )
    return {(arm, split): tuple(rest) for arm, split, *rest in ask(mirror, sql).rows}


def write(store: Store, studies: list[tuple[StudyRecord, dict[str, Journal]]]) -> None:
    for record, known in studies:
        study_record.write(store, record)
        for journal in known.values():
            journal.write(store)


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(studies=stored_studies())
def test_a_table_and_a_query_say_the_same(studies):
    with tempfile.TemporaryDirectory() as folder:
        store = Store(f"{folder}/store")
        write(store, studies)
        for record, _ in studies:
            known = journals.read_all(store, record.trial_ids())
            mirror = mirror_of(store, folder)
            assert mirrored(mirror, record.key) == expected(record, known)
            assert lost(mirror, record) == not_there(record, known)


@pytest.mark.slow
@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])
@given(studies=stored_studies(), again=st.randoms(use_true_random=False))
def test_arms_that_are_counted_again_are_as_if_all_were(studies, again):
    """A trial is run again, with another result; only its arms are counted again."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store(f"{folder}/store")
        write(store, studies)
        workspace = open_workspace(folder, store=store.uri)
        update_mirror(workspace)
        known = {trial: journal for _, journals in studies for trial, journal in journals.items()}
        done = [t for t, j in known.items() if j.outcome and j.outcome.status == Status.COMPLETED]
        for trial in again.sample(done, min(1, len(done))):
            run_again(store, known[trial])
        updated = ask(update_mirror(workspace), "SELECT * FROM _arms ORDER BY ALL")
        assert updated == ask(update_mirror(workspace, rebuild=True), "FROM _arms ORDER BY ALL")


def run_again(store: Store, journal: Journal) -> None:
    metrics = {name: 0.9 * value for name, value in journal.metrics.items()}
    journal.outcome = replace(journal.outcome, metrics=metrics, num_parameters=1002)
    journal.write(store)


def test_a_model_that_is_measured_again_is_counted_again(tmp_path):
    """What measures it is listed with another arm, which has the same trial."""
    values = {name: {"valid_nll": 4.0, "test_nll": 4.0} for name in ("t1", "t2")}
    values["m1"] = {"rank.valid_rank": 8.0}
    started = [Attempt(started="2026-01-02T03:04:05Z")]
    known = {}
    for name, metrics in values.items():
        parents = (Parent("member", "t1"),) if name == "m1" else ()
        trial = Trial(id=name, values={}, seed=1, corpus_digest="c0", parents=parents)
        outcome = Outcome(status=Status.COMPLETED, metrics=metrics)
        known[name] = Journal(trial, {}, started, [], outcome)
    role = {"stage": "train", "seed": 1, "seed_index": 0, "final": True}
    measure = {**role, "arm": "b", "stage": "measure", "final": False, "parents": ("t1",)}
    trials = [PlannedTrial(id="t1", arm=arm, **role) for arm in "ab"]
    trials += [PlannedTrial(id="t2", arm="a", **{**role, "seed_index": 1})]
    store = Store(str(tmp_path / "store"))
    record = study(name="s", trials=[*trials, PlannedTrial(id="m1", **measure)], columns=(RANK,))
    write(store, [(record, known)])
    workspace = open_workspace(str(tmp_path), store=store.uri)
    sql = "SELECT arm, mean FROM _arms WHERE metric = 'rank.rank' ORDER BY arm"
    for mean, again in ((8.0, "m1"), (7.2, "t2"), (7.2, "m1")):
        rows = ask(update_mirror(workspace), sql).rows
        assert rows == [("a", pytest.approx(mean)), ("b", pytest.approx(mean))]
        run_again(store, known[again])


@pytest.mark.slow
def test_what_was_recorded_agrees_too(tmp_path):
    """The published results, and a workspace of version 0.1.0."""
    shutil.unpack_archive(places.GOLDEN / "workspace_0.1.0.tar.xz", tmp_path, filter="data")
    for store in (Store(str(places.ROOT / "results")), Store(str(tmp_path / "workspace/store"))):
        keys = study_record.names(store)
        assert keys
        mirror = mirror_of(store, str(tmp_path / "asked"))
        for key in keys:
            record = study_record.read(store, key)
            known = journals.read_all(store, record.trial_ids())
            assert mirrored(mirror, key) == expected(record, known), key


def lost(mirror: Mirror, record: StudyRecord) -> dict[tuple[str, str], int]:
    sql = f"SELECT arm, split, num_lost FROM arms WHERE study = '{record.name}'"
    return {(arm, split): num for arm, split, num in ask(mirror, sql).rows if num}


def not_there(record: StudyRecord, known: dict[str, Journal]) -> dict[tuple[str, str], int]:
    """(arm, split) -> how many results of the arm there are not, although the split was read."""
    counts: dict[tuple[str, str], int] = {}
    for arm in Judged(record, known).arms:
        for split in record.metric.splits:
            num = len(arm.losses.get(split, {}))
            unread = sum(is_unread(known.get(t), record.metric, split) for t in arm.trials)
            if missing := len(finals(record, arm)) - num - unread:
                counts[arm.name, split] = missing
    return counts


def finals(record: StudyRecord, arm: ArmSummary) -> set[int]:
    return {trial.seed_index for trial in record.trials if trial.arm == arm.name and trial.final}


def is_unread(journal: Journal | None, metric: Metric, split: str) -> bool:
    """A completed trial that reports nothing of a split did not read it."""
    return journal is not None and metric.key(split) not in journal.metrics
