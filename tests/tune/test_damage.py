"""Damaged and deleted files: what a schedule makes again by itself, and advice that works."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ablate.commands.status import show_status
from ablate.errors import DamagedError, RecordError
from ablate.store import journal as journals
from ablate.store.outcome import Status
from ablate.study.designs import table
from ablate.study.study import Study
from ablate.study.words import Arm, Scale, Search, Stage
from ablate.trial import checkpoint
from ablate.tune import local
from ablate.tune.listener import Listener
from tests.support import small_studies
from tests.support.small_studies import RATE, order_in
from tests.tune.test_schedule import run, scheduled

SMALL = {"corpus.train_tokens": 2000, "corpus.eval_tokens": 300}
STAGES = (Stage("finetune", {"optimizer.learning_rate": 0.5}),)


def trained(**scale) -> Study:
    """One arm that is really trained, and trained on."""
    return Study(
        question="Is it made again?",
        base={**small_studies.BASE, **SMALL},
        base_arm="a",
        design=table(Arm("a")),
        scales={"s": Scale(seeds=1, **{"stages": STAGES, **scale})},
        name="q",
    )


def searched(tmp_path: Path, **words) -> Study:
    """One arm that is searched, and trains nothing."""
    (tmp_path / "rates.toml").write_text(RATE)
    search = Search(space=str(tmp_path / "rates.toml"), **{"trials": 4, **words})
    base = {**small_studies.BASE, "training.epochs": 5}
    return Study(
        question="Is it made again?",
        base=base,
        base_arm="a",
        design=table(Arm("a")),
        scales={"s": Scale(seeds=1, search=search)},
        runner="stand_in",
        name="q",
    )


def ended(workspace) -> dict[str, tuple]:
    """What each trial has learned."""
    known = journals.read_all(workspace.store)
    return {
        name: (j.status, j.metrics, j.outcome.digest, [e.metrics["valid_nll"] for e in j.epochs])
        for name, j in known.items()
    }


def flip(workspace, key: str) -> None:
    """Flip one bit in the middle of a file of the store."""
    path = workspace.store.folder / key
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def parent_and_child(workspace) -> tuple[str, str]:
    known = journals.read_all(workspace.store)
    child = next(name for name, journal in known.items() if journal.trial.parents)
    return known[child].trial.parent_ids()[0], child


@pytest.mark.parametrize("damage", ["deleted", "flipped"])
def test_lost_weights_are_made_again_if_a_trial_still_builds_on_them(workspace, damage):
    run(trained(), workspace)
    before, (parent, child) = ended(workspace), parent_and_child(workspace)
    if damage == "deleted":
        workspace.store.delete(checkpoint.weights_key(parent))
    else:
        flip(workspace, checkpoint.weights_key(parent))
    assert run(trained(), workspace)[1] == []  # nothing builds on them any more
    workspace.store.delete(f"trials/{child}")
    assert run(trained(), workspace)[1] == [parent, child]
    assert ended(workspace) == before


def test_a_study_without_the_budget_to_train_again_leaves_the_results_of_others(workspace):
    """It would need the weights of two trials that another study trained."""
    first = replace(trained(stages=()), scales={"s": Scale(seeds=2)})
    run(first, workspace)
    for trial_id in ended(workspace):
        workspace.store.delete(checkpoint.weights_key(trial_id))
    before = ended(workspace)
    arms = table(Arm("a"), Arm("more", then=STAGES))
    scales = {"s": Scale(seeds=2, hours=0)}
    second = replace(first, name="other", design=arms, scales=scales)
    schedule, started = run(second, workspace)
    assert started == [] and schedule.closed_reason == "the budget of 0 hours is spent"
    assert ended(workspace) == before


def test_other_weights_than_those_that_were_lost_are_noted(workspace):
    class Notes(Listener):
        def __init__(self) -> None:
            self.notes: list[str] = []

        def note(self, text: str) -> None:
            self.notes.append(text)

    run(trained(), workspace)
    parent, child = parent_and_child(workspace)
    journal = journals.read(workspace.store, parent)
    journal.outcome = type(journal.outcome)(**{**vars(journal.outcome), "digest": "another"})
    journal.write(workspace.store)
    workspace.store.delete(checkpoint.weights_key(parent))
    workspace.store.delete(f"trials/{child}")
    notes = Notes()
    local.run(scheduled(trained(), workspace, notes), order_in(workspace))
    started_again, differs = notes.notes
    assert (
        started_again
        == "a seed 1 starts again: others build on its weights, and the store has none"
    )
    assert differs.startswith(
        "a seed 1 was run again because its weights were lost, and ended with"
    )
    status = show_status(workspace, "q@s")
    assert "since others build on its weights, which were lost or never saved here" in status


def test_damaged_weights_stop_a_trial_with_advice_that_works(workspace):
    """The damage happens after the schedule has looked at the weights."""
    run(trained(), workspace)
    before, (parent, _) = ended(workspace), parent_and_child(workspace)
    flip(workspace, checkpoint.weights_key(parent))
    with pytest.raises(DamagedError, match=f"Delete the folder trials/{parent} in the store"):
        checkpoint.read_weights(workspace.store, parent)
    workspace.store.delete(f"trials/{parent}")
    assert run(trained(), workspace)[1] == [parent]
    assert ended(workspace) == before


@pytest.mark.parametrize("words", [{}, {"early_stopping": "asha", "trials": 12}])
def test_a_damaged_trial_of_a_search_is_made_again_as_advised(workspace, tmp_path, words):
    study = searched(tmp_path, **words)
    run(study, workspace)
    before = ended(workspace)
    stages = {name: j.trial.stage for name, j in journals.read_all(workspace.store).items()}
    names = [name for name in before if stages[name] == "search"]
    if words:
        names = [name for name in names if before[name][0] == Status.PRUNED]
    for name in names[:2]:
        flip(workspace, journals.key(name))
        with pytest.raises(DamagedError, match=f"Delete the folder trials/{name} in the store"):
            run(study, workspace)
        workspace.store.delete(f"trials/{name}")
    assert sorted(run(study, workspace)[1]) == sorted(names[:2])
    assert ended(workspace) == before


def test_a_damaged_log_of_searches_is_moved_away_as_advised(workspace, tmp_path):
    study, log = searched(tmp_path), workspace.folder / "searches" / "q@s.log"
    run(study, workspace)
    before, whole = ended(workspace), log.read_bytes()
    lines = whole.splitlines(keepends=True)
    at = whole.index(b'"param_value_internal":') + 25
    digit = b"1" if whole[at : at + 1] != b"1" else b"2"
    for damaged, why in (
        (whole[:at] + digit + whole[at + 1 :], "checksum"),
        (b"".join(lines[:5] + lines[6:]), "line 6: its checksum"),
        (b"".join(lines[: len(lines) // 2]), "trials of a are left"),
    ):
        log.write_bytes(damaged)
        with pytest.raises(RecordError, match=rf"q@s\.log are damaged .*{why}.*Move the file away"):
            run(study, workspace)
    log.rename(tmp_path / "away")
    assert run(study, workspace)[1] == []
    assert ended(workspace) == before


def test_a_damaged_ledger_stops_only_a_study_with_a_budget(workspace):
    key = "studies/q@s/ledger.json"
    schedule, _ = run(trained(), workspace)
    schedule.ledger.write()
    flip(workspace, key)
    assert run(trained(), workspace)[1] == []
    with pytest.raises(DamagedError, match=r"What q@s has spent is lost\. Delete the file"):
        run(trained(hours=9), workspace)
    workspace.store.delete(key)
    assert run(trained(hours=9), workspace)[1] == []
