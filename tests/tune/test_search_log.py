"""Searches in a file: Optuna's own format, whole after any crash, a clear error when damaged."""

from __future__ import annotations

import os
from pathlib import Path

import optuna
import pytest
from optuna.exceptions import StorageInternalError
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

from ablate.errors import RecordError, StoreError
from ablate.tune.search import log as search_log
from ablate.tune.search.arm import answering, open_storage
from ablate.tune.search.log import LoggedStorage


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "workspace" / "searches" / "q@s.log"


def opened(log: Path) -> optuna.Study:
    storage = LoggedStorage(log)
    return optuna.create_study(study_name="q", storage=storage, load_if_exists=True)


def ask_and_tell(study: optuna.Study, value: float) -> None:
    trial = study.ask()
    trial.suggest_float("rate", 1e-3, 1.0, log=True)
    trial.suggest_categorical("way", ["a", "b"])
    trial.set_user_attr("ablate.index", trial.number)
    trial.report(value, 1)
    study.tell(trial, value)


def known(study: optuna.Study) -> list:
    return [(t.number, t.state, t.params, t.value, t.user_attrs) for t in study.get_trials()]


def test_everything_is_there_when_it_is_opened_again(log):
    study = opened(log)
    for value in (3.0, 1.0 / 3.0, float("inf")):
        ask_and_tell(study, value)
    assert known(opened(log)) == known(study)
    assert len(known(study)) == 3


def test_a_trial_goes_on_in_another_process(log):
    trial = opened(log).ask()
    trial.suggest_float("rate", 0.0, 1.0)
    study = opened(log)
    again = optuna.Trial(study, trial._trial_id)
    again.report(1.0, 1)
    study.tell(again, 2.0)
    assert study.best_value == 2.0


def test_optuna_itself_reads_and_writes_the_file(log):
    ask_and_tell(opened(log), 1.0)
    lock = JournalFileOpenLock(str(log))
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(log), lock))
    theirs = optuna.load_study(study_name="q", storage=storage)
    assert known(theirs) == known(opened(log))
    ask_and_tell(theirs, 2.0)
    assert known(theirs) == known(opened(log))


def test_cut_off_anywhere_it_opens_and_goes_on(log):
    ask_and_tell(opened(log), 1.0)
    whole = log.read_bytes()
    for length in range(0, len(whole), 23):
        log.write_bytes(whole[:length])
        study = opened(log)
        ask_and_tell(study, 2.0)
        assert known(study)[-1][3] == 2.0
        assert known(opened(log)) == known(study)


def test_a_reader_leaves_a_line_that_is_being_written(log):
    """As `ablate plot importance` may read it while a study runs."""
    ask_and_tell(opened(log), 1.0)
    whole = log.read_bytes()
    log.write_bytes(whole[:-7])
    storage = LoggedStorage(log)
    assert log.read_bytes() == whole[:-7]
    log.write_bytes(whole)
    assert [study.study_name for study in storage.get_all_studies()] == ["q"]


def test_damage_is_told_with_the_file_and_the_line(log):
    ask_and_tell(opened(log), 1.0)
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join([*lines[:2], "nonsense\n", *lines[2:]]))
    with pytest.raises(RecordError, match=r"q@s.log are damaged \(line 3: .* Move the file away"):
        opened(log)
    log.write_text("{}\n")
    with pytest.raises(RecordError, match=r"are damaged \(KeyError: 'op_code'\)"):
        opened(log)


def test_a_full_disk_leaves_whole_lines(log, monkeypatch):
    study = opened(log)
    ask_and_tell(study, 1.0)
    before = log.read_bytes()

    class Full:
        def __init__(self, path: Path) -> None:
            self.path = path

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def write(self, data: bytes) -> None:
            with open(self.path, "wb") as file:
                file.write(before + data[:5])
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", lambda self, mode: Full(self))
        with pytest.raises(StoreError, match=r"No space left on device\..*Free some space"):
            study.ask()
    assert log.read_bytes() == before
    ask_and_tell(opened(log), 2.0)


def test_it_waits_for_the_disk_only_in_sync(log, monkeypatch):
    synced = []
    monkeypatch.setattr(search_log, "sync", synced.append)
    storage = LoggedStorage(log)
    ask_and_tell(optuna.create_study(study_name="q", storage=storage), 1.0)
    assert synced == []
    storage.sync()
    storage.sync()
    assert synced == [log, log.parent, log]


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot read .*file"):
        LoggedStorage(tmp_path / "file" / "q.log")
    if os.geteuid() != 0:
        tmp_path.chmod(0o500)
        with pytest.raises(StoreError, match="Permission denied"):
            LoggedStorage(tmp_path / "new" / "q.log")
        tmp_path.chmod(0o700)


def test_a_database_that_does_not_answer_is_named_without_its_password():
    with pytest.raises(RecordError) as refused, answering("postgresql://u:secret@db/x"):
        raise StorageInternalError("the server is gone\nsecond line")
    text = str(refused.value)
    assert "does not answer: the server is gone. Is the database up" in text
    assert "db/x" in text and "secret" not in text and "second line" not in text
    with pytest.raises(RecordError, match="why it was"), answering("sqlite:///x"):
        raise StorageInternalError("what was seen") from OSError("why it was")


def test_a_database_of_many_drivers_gets_few_connections_from_each(monkeypatch):
    made: list[dict] = []

    class Storage:
        def __init__(self, url: str, engine_kwargs: dict) -> None:
            made.append(engine_kwargs)

    monkeypatch.setattr("ablate.tune.search.arm.RetryingStorage", Storage)
    assert isinstance(open_storage("postgresql://u@db/x", "q@s"), Storage)
    assert made == [{"pool_pre_ping": True, "pool_size": 2, "max_overflow": 2}]


@pytest.mark.parametrize(
    ("error", "why"), [(OSError(28, "No space left"), "No space left"), (OSError("odd"), "odd")]
)
def test_what_the_system_says_is_said(error, why):
    assert f"cannot read x: {why}. Free some space" in str(
        search_log._refused(Path("x"), "read", error)
    )
