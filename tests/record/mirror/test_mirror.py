"""The mirror against what was recorded: typed, incremental, whole, and no clock's fool."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from dataclasses import replace

import duckdb
import pytest

from ablate.commands.query import query as ask_records
from ablate.compare.across.query import MirrorDamaged, ask
from ablate.errors import DamagedError, RecordError, StoreError
from ablate.record.mirror.files import MANIFEST, Damaged, Folder
from ablate.record.mirror.syncing import mirror_folder, update_mirror
from ablate.results.labels import labels_of
from ablate.store.epoch import Epoch
from ablate.store.workspace import held
from tests.support.damage import as_new_process, flip_on_disk

CONFIG = {
    "head": "mos",
    "loss": "cross_entropy",
    "head.experts": 15,
    "optimizer.learning_rate": 0.5,
    "training.variable_window": True,
    "training.clip": None,
}


def files(recorded, pattern="*"):
    return sorted(mirror_folder(recorded.workspace).glob(pattern))


def test_a_config_has_the_types_that_it_had(recorded, rows_of):
    recorded.study("one", {"a": [recorded.trial("t1", CONFIG)]})
    fields = '"head.experts", "optimizer.learning_rate", "training.variable_window"'
    assert rows_of(recorded, f"SELECT {fields} FROM trials") == [(15, 0.5, True)]
    kinds_of = rows_of(recorded, "SELECT column_name, column_type FROM (DESCRIBE trials)")
    types = dict(kinds_of)
    assert types["head.experts"] == types["seed"] == types["num_parameters"] == "BIGINT"
    assert types["optimizer.learning_rate"] == types["valid_nll"] == "DOUBLE"
    assert types["training.variable_window"] == types["in_cell"] == "BOOLEAN"
    assert types["started"] == "TIMESTAMP"


def test_a_trial_may_have_more_metrics_than_sqlite_allows_columns(recorded, rows_of):
    classes = {f"valid_class_{number}": float(number) for number in range(1010)}
    curve = [Epoch(epoch, {"valid_nll": 4.0, **classes}, seconds=0.5) for epoch in (1, 2)]
    trial = recorded.trial("t1", CONFIG, metrics={"valid_nll": 4.0, **classes}, curve=curve)
    recorded.study("one", {"a": [trial]})
    columns = "valid_class_0, valid_class_999, valid_class_1009"
    numbers = (0.0, 999.0, 1009.0)
    assert rows_of(recorded, f"SELECT {columns} FROM trials") == [numbers]
    epochs = rows_of(recorded, f"SELECT epoch, {columns} FROM epochs ORDER BY epoch")
    assert epochs == [(1, *numbers), (2, *numbers)]


@pytest.mark.parametrize(
    "value, kind",
    [
        (15, "BIGINT"),
        (10**20, "DOUBLE"),
        (1e-5, "DOUBLE"),
        ("inf", "DOUBLE"),  # as journals write it
        (True, "BOOLEAN"),
        ("15", "VARCHAR"),
        ("True", "VARCHAR"),
        ("[1, 2]", "VARCHAR"),
    ],
)
def test_a_column_has_the_type_of_its_values(recorded, rows_of, value, kind):
    recorded.study("one", {"a": [recorded.trial("t1", {"head.x": value})]})
    (row,) = rows_of(recorded, 'SELECT "head.x", typeof("head.x") FROM trials')
    assert row == (math.inf if value == "inf" else value, kind)


def test_a_truth_value_in_a_column_of_text_is_written_as_python_writes_it(recorded, rows_of):
    """Whether it came before the column was one of text, or after."""
    for number, value in enumerate((True, "both", False)):
        recorded.study(f"s{number}", {"a": [recorded.trial(f"t{number}", {"head.tied": value})]})
        update_mirror(recorded.workspace)
    told = rows_of(recorded, 'SELECT "head.tied" FROM trials ORDER BY trial')
    assert told == [("True",), ("both",), ("False",)]


def test_only_what_is_new_is_read(recorded):
    recorded.study("one", {"a": [recorded.trial(f"t{i}", CONFIG, seed=i) for i in range(5)]})
    assert update_mirror(recorded.workspace).read == 6  # and the study's own run
    before = files(recorded)
    again = update_mirror(recorded.workspace)
    assert (again.read, again.notes) == (0, ())
    assert files(recorded) == before
    recorded.study("two", {"a": [recorded.trial("new", CONFIG, seed=9)]})
    assert update_mirror(recorded.workspace).read == 2


def test_a_wrong_clock_hides_nothing(recorded, rows_of):
    recorded.study("one", {"a": [recorded.trial("t1", CONFIG)]})
    update_mirror(recorded.workspace)
    for year in ("1999", "2026", "2099"):
        journal = recorded.trial(
            f"t{year}", CONFIG, started=f"{year}-01-02T03:04:05Z", seed=int(year)
        )
        recorded.study(f"study{year}", {"a": [journal]})
        result = rows_of(recorded, f"SELECT trial FROM trials WHERE trial = 't{year}'")
        assert result == [(f"t{year}",)]


def test_a_trial_that_goes_on_is_read_again_and_old_epochs_go(recorded, rows_of):
    running = recorded.trial("t1", CONFIG, status=None, epochs=1)
    recorded.study("one", {"a": [running]})
    assert rows_of(recorded, "SELECT status, valid_nll FROM trials") == [("interrupted", None)]
    done = recorded.trial("t1", CONFIG, epochs=3)
    recorded.study("one", {"a": [done]})
    assert rows_of(recorded, "SELECT status, valid_nll FROM trials") == [("completed", 4.0)]
    assert rows_of(recorded, "SELECT count(*), max(epoch) FROM epochs") == [(3, 3)]


def test_a_trial_without_an_outcome_runs_while_its_study_has_a_driver(recorded, rows_of):
    half, done = recorded.trial("t1", CONFIG, status=None), recorded.trial("t2", CONFIG, seed=2)
    record = recorded.study("one", {"a": [half, done]})
    sql = "SELECT t.status, s.status, t.ended IS NULL FROM trials t JOIN studies s USING (study) "
    sql += "ORDER BY trial"
    assert rows_of(recorded, sql)[0] == ("interrupted", "interrupted", False)
    with held(recorded.workspace, record.key):
        update = update_mirror(recorded.workspace)
        assert update.read == 2  # the study and what runs
        assert rows_of(recorded, sql) == [
            ("running", "running", True),
            ("completed", "running", False),
        ]
    assert rows_of(recorded, sql)[0] == ("interrupted", "interrupted", False)


def test_a_trial_has_the_name_that_its_study_gives_it_now(recorded, rows_of):
    trials = [recorded.trial(f"t{seed}", CONFIG, seed=seed) for seed in (1, 2)]
    record = recorded.study("one", {"a": trials})
    assert rows_of(recorded, "SELECT DISTINCT arm, paper FROM trials") == [("a", None)]
    recorded.save(replace(record, paper="takase2018doc"))
    assert rows_of(recorded, "SELECT DISTINCT arm, paper FROM trials") == [("a", "takase2018doc")]
    planned = tuple(replace(trial, arm="b") for trial in record.trials[1:])
    recorded.save(replace(record, trials=(record.trials[0], *planned)))
    told = rows_of(recorded, "SELECT arm FROM trials ORDER BY trial")
    assert told == [("a",), ("b",)]


def test_a_trial_of_two_studies_is_of_the_one_that_ran_it(recorded, rows_of):
    shared = recorded.trial("t1", CONFIG)
    shared.trial = replace(shared.trial, study="two", scale="laptop")
    recorded.study("one", {"a": [shared]})
    assert rows_of(recorded, "SELECT study, arm FROM trials") == [("one", "a")]
    recorded.study("two", {"b": [shared]})
    assert rows_of(recorded, "SELECT study, arm FROM trials") == [("two", "b")]
    recorded.workspace.store.delete("studies/two@laptop")
    assert rows_of(recorded, "SELECT study, arm FROM trials") == [("one", "a")]


def test_a_damaged_journal_is_named(recorded, rows_of):
    recorded.study("one", {"a": [recorded.trial("t1", CONFIG), recorded.trial("t2", CONFIG)]})
    update_mirror(recorded.workspace)
    path = recorded.workspace.store.folder / "trials/t2/journal.json"
    whole = path.read_text()
    path.write_text(whole.replace('"seed": 1', '"seed": 3'))
    for _ in range(2):
        with pytest.raises(DamagedError, match=r"t2/journal\.json"):
            update_mirror(recorded.workspace)
    path.write_text(whole)
    assert len(rows_of(recorded, "SELECT trial FROM trials")) == 2


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["trials-*.parquet", "epochs-*.parquet", "seen-*", MANIFEST])
@pytest.mark.parametrize("how", ["deleted", "cut"])
def test_a_damaged_mirror_is_rebuilt_and_says_so(recorded, rows_of, capsys, pattern, how):
    recorded.study("one", {"a": [recorded.trial("t1", CONFIG)]})
    before = rows_of(recorded, "SELECT * EXCLUDE run_id FROM trials, epochs")
    (path,) = files(recorded, pattern)
    data = path.read_bytes()
    path.unlink() if how == "deleted" else path.write_bytes(data[: len(data) // 2])
    result = ask_records(recorded.workspace, "SELECT count(*) AS n FROM trials", "csv")
    assert result == "n\n1"
    printed = capsys.readouterr().err
    assert "the mirror was damaged" in printed and "rebuilt" in printed
    assert rows_of(recorded, "SELECT * EXCLUDE run_id FROM trials, epochs") == before


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["trials-*.parquet", "epochs-*.parquet", "studies-*", "seen-*"])
def test_a_bit_that_a_disk_has_changed_is_noticed(recorded, capsys, pattern):
    """The file keeps its times, and most such files can be read: a sum was 113.07, not 7.52."""
    recorded.study("one", {"a": [recorded.trial("t1", CONFIG)]})
    sql = "SELECT sum(e.valid_nll) AS s FROM trials JOIN epochs e USING (trial)"
    before = ask_records(recorded.workspace, sql, "csv")
    (path,) = files(recorded, pattern)
    flip_on_disk(path, len(path.read_bytes()) // 3)
    as_new_process()
    capsys.readouterr()
    assert ask_records(recorded.workspace, sql, "csv") == before
    assert f"the mirror was damaged ({path.name} differs" in capsys.readouterr().err


@pytest.mark.slow
def test_what_duckdb_cannot_read_in_a_file_that_was_whole_is_rebuilt(recorded, capsys):
    """The process has hashed the file before it was damaged."""
    recorded.study("one", {"a": [recorded.trial("t1", CONFIG)]})
    before = ask_records(recorded.workspace, "SELECT * EXCLUDE run_id FROM trials", "csv")
    mirror = update_mirror(recorded.workspace)
    (path,) = files(recorded, "trials-*.parquet")
    whole = path.read_bytes()
    left = whole[: len(whole) // 3]
    path.write_bytes(left + bytes(len(whole) - len(left)))
    with pytest.raises(MirrorDamaged, match=f"{path.name} differs"):
        ask(mirror, "SELECT * FROM trials")
    recorded.study("two", {"a": [recorded.trial("t2", CONFIG, seed=2)]})
    sql = "SELECT * EXCLUDE run_id FROM trials WHERE trial = 't1'"
    assert ask_records(recorded.workspace, sql, "csv") == before
    assert "the mirror was damaged" in capsys.readouterr().err


def test_a_deleted_mirror_is_built_again_and_says_so(recorded, capsys):
    import shutil

    recorded.study("one", {"a": [recorded.trial("t1", CONFIG)]})
    update_mirror(recorded.workspace)
    shutil.rmtree(recorded.workspace.folder / "mirror")
    assert ask_records(recorded.workspace, "SELECT trial FROM trials", "csv") == "trial\nt1"
    assert "built from store:" in capsys.readouterr().err


def test_a_crash_before_the_manifest_leaves_the_mirror_as_it_was(recorded, monkeypatch):
    recorded.study("one", {"a": [recorded.trial("t1", CONFIG)]})
    before = update_mirror(recorded.workspace)
    recorded.study("two", {"a": [recorded.trial("t2", CONFIG, seed=2)]})
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "write", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            update_mirror(recorded.workspace)
    assert Folder(mirror_folder(recorded.workspace)).read() == before.manifest
    assert update_mirror(recorded.workspace).read == 2


def test_a_mirror_of_another_format_is_made_again(recorded):
    recorded.study("one", {"a": [recorded.trial("t1", CONFIG)]})
    update_mirror(recorded.workspace)
    path = mirror_folder(recorded.workspace) / MANIFEST
    plain = {**json.loads(path.read_text()), "format": 0}
    del plain["checksum"]  # older versions wrote none
    path.write_text(json.dumps(plain))
    with pytest.raises(Damaged, match="format 0"):
        Folder(path.parent).read()
    assert "format 0" in update_mirror(recorded.workspace).notes[0]


@pytest.mark.slow
def test_readers_and_writers_at_once(recorded, rows_of):
    recorded.study("one", {"a": [recorded.trial("t0", CONFIG)]})
    troubles, done = [], threading.Event()

    def read() -> None:
        last = 0
        while not done.is_set():
            try:
                ((num, epochs),) = rows_of(
                    recorded,
                    "SELECT (SELECT count(*) FROM trials), (SELECT count(*) FROM epochs)",
                )
                assert epochs == 2 * num and num >= last
                last = num
            except Exception as error:
                troubles.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(1, 6):
        recorded.study(f"s{number}", {"a": [recorded.trial(f"t{number}", CONFIG, seed=number)]})
    done.set()
    for reader in readers:
        reader.join()
    assert troubles == []
    assert rows_of(recorded, "SELECT count(*) FROM trials") == [(6,)]


def test_a_server_that_does_not_answer_leaves_the_mirror(recorded):
    recorded.study("one", {"a": [recorded.trial("t1", CONFIG)]})
    update_mirror(recorded.workspace)

    def away(workspace):
        raise RecordError("nobody there.")

    mirror = update_mirror(recorded.workspace, away)
    assert mirror.manifest.generation == 1
    assert "as of" in mirror.notes[0] and "nobody there" in mirror.notes[0]


ARMS = "SELECT study, arm, num, nll FROM arms WHERE split = 'valid' ORDER BY 1, 2"


def test_a_trial_that_another_arm_builds_on_stays_in_its_own_arms_cell(recorded, rows_of):
    first = recorded.trial("t1", CONFIG, nats=4.0)
    later = recorded.trial("t2", CONFIG, nats=3.0, parents=("t1",))
    record = recorded.study("one", {"plain": [first], "longer": [later]})
    early = replace(record.trials[0], arm="longer", final=False)
    record = replace(record, trials=(*record.trials, early))
    recorded.save(record)
    assert rows_of(recorded, ARMS) == [("one", "longer", 1, 3.0), ("one", "plain", 1, 4.0)]
    assert labels_of(record)["t1"].arm == "plain"


@pytest.mark.parametrize("name", ["what's new", "50% more", "ça va [2]", 'a "b"'])
def test_a_study_of_any_name_has_its_arms(recorded, rows_of, name):
    shared = recorded.trial("t1", CONFIG)
    recorded.study("one", {"a": [shared]})
    recorded.study(name, {"b": [shared]})
    assert (name, "b", 1, 4.0) in rows_of(recorded, ARMS)


@pytest.mark.parametrize("kind", [OSError, "duckdb"])
def test_a_disk_that_is_full_while_the_mirror_is_written_is_told(recorded, monkeypatch, kind):
    """DuckDB's own error is no OSError."""

    def full(self, seen):
        if kind is OSError:
            raise OSError(28, "No space left on device")
        raise duckdb.IOException('IO Error: Could not write file "x": No space left on device')

    recorded.study("one", {"a": [recorded.trial("t1", CONFIG)]})
    monkeypatch.setattr("ablate.record.mirror.writing.Generation.finish", full)
    with pytest.raises(StoreError, match=r"No space left on device.*Free some.*--workspace"):
        update_mirror(recorded.workspace)


def test_beside_a_process_that_still_builds_the_mirror_nothing_is_called_damaged(
    recorded, monkeypatch
):
    recorded.study("one", {"a": [recorded.trial("t1", CONFIG)]})
    monkeypatch.setattr("ablate.record.mirror.files.LOCK_SECONDS", 0.05)
    with Folder(mirror_folder(recorded.workspace)).locked() as acquired:
        assert acquired
        with pytest.raises(RecordError, match=r"cannot be read yet.*Try again later"):
            update_mirror(recorded.workspace)
    assert update_mirror(recorded.workspace).manifest.generation == 1


def test_a_file_that_a_new_generation_replaces_stays_for_those_who_read_it(recorded, monkeypatch):
    """Whenever it was written: here it is an hour old."""
    recorded.study("one", {"a": [recorded.trial("t1", CONFIG)]})
    before = update_mirror(recorded.workspace)
    old = before.folder.path_to(before.manifest.trials)
    an_hour_ago = time.time() - 3600
    os.utime(old, (an_hour_ago, an_hour_ago))
    recorded.study("two", {"b": [recorded.trial("t2", CONFIG, seed=2)]})
    after = update_mirror(recorded.workspace)
    assert after.manifest.trials != before.manifest.trials and old.exists()
