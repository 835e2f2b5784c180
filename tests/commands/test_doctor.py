"""What `ablate doctor` says of a machine and its places, above all of what is wrong with them."""

from __future__ import annotations

import contextlib
import http.server
import os
import socket
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from ablate.commands.doctor import examine as doctor
from ablate.commands.doctor import machine as doctor_machine
from ablate.commands.doctor import places as doctor_places
from ablate.commands.doctor import studies as doctor_studies
from ablate.commands.doctor.examine import examine, outcome
from ablate.commands.doctor.finding import FAIL, OK, WARN, Finding
from ablate.errors import RecordError
from ablate.store import journal as journals
from ablate.store.outcome import Status
from ablate.store.store import Store
from ablate.store.workspace import held, open_workspace


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    places = ("RAY_ADDRESS", "MLFLOW_TRACKING_URI", "ABLATE_STORE", "ABLATE_SEARCHES")
    for name in (*places, "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def workspace(tmp_path: Path):
    """A workspace in which nothing was ever run."""
    return open_workspace(str(tmp_path / "workspace"))


def one(check, workspace) -> Finding:
    """The only finding of a check."""
    findings = outcome("it", check, workspace)
    assert len(findings) == 1, findings
    return findings[0]


def states(check, workspace) -> list[str]:
    return [finding.state for finding in outcome("it", check, workspace)]


# -- the command --


@pytest.mark.slow
def test_all_is_well_in_a_new_place(workspace, capsys):
    assert examine(workspace) == 0
    lines = capsys.readouterr().out.splitlines()
    named = [line.split()[1] for line in lines[:-2]]
    assert list(dict.fromkeys(named)) == list(doctor.checks())
    assert lines[-1].startswith("no failures, ")
    assert not workspace.folder.exists()  # it looks, and makes nothing


def test_the_first_failure_gives_the_exit_code(workspace, capsys, monkeypatch):
    findings = [
        Finding(WARN, "w"),
        Finding(FAIL, "f", "Do this.", 6),
        Finding(FAIL, "g", exit_code=3),
    ]
    monkeypatch.setattr(doctor, "checks", lambda: {"it": lambda workspace: findings})
    assert examine(workspace) == 6
    assert capsys.readouterr().out.splitlines() == [
        "warn  it         w",
        "FAIL  it         f. Do this.",
        "FAIL  it         g",
        "",
        "2 failures, 1 warning",
    ]


def test_a_check_that_hangs_is_left_behind(workspace):
    finding = outcome("it", lambda workspace: time.sleep(5) or [], workspace, patience=0.05)
    assert [(each.state, each.found) for each in finding] == [(FAIL, "no answer within 0.05 s")]


@pytest.mark.parametrize(
    ("error", "says", "code"),
    [
        (RecordError("no workspace for records."), "no workspace for records.", 6),
        (ModuleNotFoundError("No module named 'numpy'", name="numpy"), "package numpy", 7),
        (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero", 4),
    ],
)
def test_trouble_of_a_check_is_a_finding(workspace, error, says, code):
    def check(workspace):
        raise error

    finding = one(check, workspace)
    assert (finding.state, finding.exit_code) == (FAIL, code)
    assert says in finding.found


# -- the machine --


def test_an_old_python_fails(workspace, monkeypatch):
    assert one(doctor_machine.python, workspace).state == OK
    monkeypatch.setattr(doctor_machine, "PYTHON", (99, 0))
    finding = one(doctor_machine.python, workspace)
    assert (finding.state, finding.exit_code, finding.remedy) == (
        FAIL,
        7,
        "ablate needs Python 99.0 or newer.",
    )


def test_the_requirements_are_those_of_the_project():
    finding = {each.name: each for each in doctor_machine.requirements()}
    assert {"torch", "numpy", "safetensors", "pyarrow"} <= finding.keys()
    assert {"ray", "optuna", "mlflow", "rich", "scipy"} <= finding.keys()
    assert not finding["torch"].optional and finding["ray"].optional
    assert "pytest" not in finding


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ({"torch": "2.13.0+cpu"}, []),
        ({"torch": "2.6"}, []),
        ({"torch": "2.5.1"}, [(FAIL, "torch 2.5.1 is older than 2.6")]),
        ({"torch": None}, [(FAIL, "torch is not installed")]),
        ({"ray": "3.0.0rc1"}, []),
        ({"ray": "2.9.3"}, [(FAIL, "ray 2.9.3 is older than 2.50")]),
        ({"ray": None}, [(WARN, "ray is not installed: `ablate trial` works, studies do not")]),
    ],
)
def test_packages_against_their_ranges(workspace, monkeypatch, versions, expected):
    installed = doctor_machine._installed
    monkeypatch.setattr(
        doctor_machine, "_installed", lambda name: versions.get(name, installed(name))
    )
    *wrong, good = outcome("packages", doctor_machine.packages, workspace)
    assert [(each.state, each.found) for each in wrong] == expected
    assert good.state == OK and "numpy" in good.found
    assert all("pip install" in each.remedy for each in wrong)


@pytest.mark.slow
def test_a_share_of_the_cores_is_said(workspace, monkeypatch):
    monkeypatch.setattr(doctor_machine, "_accelerators", lambda: Finding(OK, "no GPU"))
    monkeypatch.setattr(doctor_machine, "usable_cores", lambda: 1.5)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    finding = outcome("devices", doctor_machine.devices, workspace)[0]
    assert finding.state == OK
    assert "1.5 cores" in finding.found and "8 cores" in finding.found


@pytest.mark.parametrize(
    ("script", "state", "says"),
    [
        ("print('H200; H200'); print('13.0')", OK, "GPUs: H200; H200 (CUDA 13.0)"),
        ("print(); print()", WARN, "torch was built without CUDA and sees no GPU"),
        ("raise ImportError('libtorch.so: no such file')", FAIL, "libtorch.so: no such file"),
        ("import os; os.abort()", FAIL, "killed by signal 6"),
        ("import time; time.sleep(9)", FAIL, "has not listed GPUs within 0.5 s"),
    ],
)
def test_accelerators(monkeypatch, script, state, says):
    monkeypatch.setattr(doctor_machine, "TORCH_QUERY", script)
    monkeypatch.setattr(doctor_machine.shutil, "which", lambda name: f"/usr/bin/{name}")
    if "sleep" in script:
        monkeypatch.setattr(doctor_machine, "TORCH_SECONDS", 0.5)
    finding = doctor_machine._accelerators()
    assert finding.state == state and says in finding.found


@pytest.mark.parametrize(
    ("script", "state", "says"),
    [
        ("print('yes'); print('c++ 12.2')", OK, "kernels: built by c++ 12.2"),
        ("print('off'); print('c++ 12.2')", OK, "switched off by ABLATE_NATIVE=off"),
        ("print('no'); print('no C++ compiler is found')", WARN, "no C++ compiler is found"),
        ("raise ImportError('torch')", WARN, "without torch"),
    ],
)
def test_kernels(monkeypatch, script, state, says):
    monkeypatch.setattr(doctor_machine, "KERNELS_QUERY", script)
    finding = doctor_machine._kernels()
    assert finding.state == state and says in finding.found
    assert ("CXX" in finding.remedy) == script.startswith("print('no')")


@pytest.mark.parametrize(("free", "state"), [(50e6, FAIL), (1e9, WARN), (1e12, OK)])
def test_room_on_the_disk(workspace, monkeypatch, free, state):
    usage = doctor_machine.shutil.disk_usage("/")._replace(free=int(free))
    monkeypatch.setattr(doctor_machine.shutil, "disk_usage", lambda path: usage)
    finding = one(doctor_machine.disk, workspace)
    assert finding.state == state
    assert ("--workspace" in finding.remedy) == (state != OK)


# -- places --


def test_a_workspace_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    finding = one(doctor_places.folder, open_workspace(str(tmp_path / "file")))
    assert finding.state == FAIL and "is not a folder" in finding.found
    finding = one(doctor_places.folder, open_workspace(str(tmp_path / "file" / "below")))
    assert finding.state == FAIL and "cannot be created" in finding.found


def test_a_workspace_that_cannot_be_written(workspace, monkeypatch):
    workspace.folder.mkdir()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    finding = one(doctor_places.folder, workspace)
    assert finding.state == FAIL and "No space left on device" in finding.found
    assert list(workspace.folder.iterdir()) == []


def test_a_slow_disk_is_said(workspace, monkeypatch):
    workspace.folder.mkdir()
    monkeypatch.setattr(doctor_places, "SLOW_MS", 0.0)
    assert one(doctor_places.folder, workspace).state == WARN


def test_a_store_elsewhere_is_tried(tmp_path):
    workspace = open_workspace(str(tmp_path), store=f"file://{tmp_path}/elsewhere")
    assert one(doctor_places.store, workspace).state == OK
    assert list((tmp_path / "elsewhere").iterdir()) == []
    (tmp_path / "file").write_text("")
    finding = one(doctor_places.store, open_workspace(str(tmp_path), store=str(tmp_path / "file")))
    assert finding.state == FAIL and "--store" in finding.remedy


def test_a_store_that_nobody_knows_keeps_its_secrets(tmp_path):
    uri = "ftp://key:hunter2@bucket/path?secret_key=hunter3"
    finding = one(doctor_places.store, open_workspace(str(tmp_path), store=uri))
    assert finding.state == FAIL
    assert "hunter" not in f"{finding}" and "bucket/path" in finding.found


@contextlib.contextmanager
def server(status: int):
    """An HTTP server that always answers with this status, and records the requests."""
    requests: list[tuple[str, str | None]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append((self.path, self.headers.get("Authorization")))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as finding:
        thread = threading.Thread(target=finding.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield finding.server_port, requests
        finding.shutdown()
        thread.join()


def closed_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


def test_a_server_that_answers_is_asked_with_the_login(tmp_path):
    with server(200) as (port, requests):
        uri = f"http://me:hunter2@127.0.0.1:{port}"
        finding = one(doctor_places.mlflow, open_workspace(str(tmp_path), mlflow=uri))
    assert finding == Finding(OK, f"http://me:***@127.0.0.1:{port} answers")
    assert requests == [
        ("/api/2.0/mlflow/experiments/search?max_results=1", "Basic bWU6aHVudGVyMg==")
    ]


def test_a_server_is_asked_with_the_token_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "t0ken")
    with server(200) as (port, requests):
        uri = f"http://127.0.0.1:{port}"
        assert one(doctor_places.mlflow, open_workspace(str(tmp_path), mlflow=uri)).state == OK
    assert [login for _, login in requests] == ["Bearer t0ken"]


@pytest.mark.parametrize(
    ("status", "remedy"),
    [(401, "MLFLOW_TRACKING_USERNAME"), (403, "--allowed-hosts"), (404, "Is it an MLflow server")],
)
def test_a_server_that_refuses(tmp_path, status, remedy):
    with server(status) as (port, _):
        workspace = open_workspace(str(tmp_path), mlflow=f"http://127.0.0.1:{port}")
        finding = one(doctor_places.mlflow, workspace)
    assert (finding.state, finding.exit_code) == (FAIL, 6)
    assert f"answers {status}" in finding.found and remedy in finding.remedy


def test_a_server_that_is_not_there(tmp_path):
    uri = f"http://me:hunter2@127.0.0.1:{closed_port()}"
    finding = one(doctor_places.mlflow, open_workspace(str(tmp_path), mlflow=uri))
    assert (finding.state, finding.exit_code) == (FAIL, 6)
    assert "does not answer" in finding.found and "ablate sync" in finding.remedy
    assert "hunter2" not in finding.found


def test_a_folder_of_files_is_no_place_for_records(tmp_path):
    finding = one(doctor_places.mlflow, open_workspace(str(tmp_path), mlflow="./mlruns"))
    assert (finding.state, finding.exit_code) == (FAIL, 6)


def test_the_database_of_the_records(workspace):
    assert "will be created" in one(doctor_places.mlflow, workspace).found
    workspace.folder.mkdir()
    file = workspace.folder / "mlflow.db"
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE t (a)")
    assert one(doctor_places.mlflow, workspace).state == OK
    file.write_bytes(b"this is no database" * 100)
    finding = one(doctor_places.mlflow, workspace)
    assert (finding.state, finding.exit_code) == (FAIL, 6)
    assert "not a database" in finding.found and "Move it away" in finding.remedy


def test_the_searches_of_the_workspace(workspace):
    assert one(doctor_places.searches, workspace) == Finding(OK, "none yet")
    log = workspace.folder / "searches" / "q@s.log"
    log.parent.mkdir(parents=True)
    log.write_text('{"op_code":0}\n{"op_co')  # a crash cut off the last line
    assert one(doctor_places.searches, workspace).state == OK
    log.write_text('{"op_code":0}\nnothing like it\n{"op_code":1}\n')
    finding = one(doctor_places.searches, workspace)
    assert (finding.state, finding.exit_code) == (FAIL, 6)
    assert "q@s.log" in finding.found and "Move it away" in finding.remedy


def test_a_database_on_a_server(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor_places, "find_spec", lambda name: None)
    url = f"postgresql://me:hunter2@127.0.0.1:{closed_port()}/searches"
    workspace = open_workspace(str(tmp_path), searches=url)
    finding = one(doctor_places.searches, workspace)
    assert (finding.state, finding.exit_code) == (FAIL, 7)
    assert finding.remedy == "pip install psycopg2"
    monkeypatch.setattr(doctor_places, "find_spec", lambda name: name)
    finding = one(doctor_places.searches, workspace)
    assert (finding.state, finding.exit_code) == (FAIL, 6)
    assert "hunter2" not in f"{finding}"
    finding = one(doctor_places.searches, open_workspace(str(tmp_path), searches="mongo://x/y"))
    assert (finding.state, finding.exit_code) == (FAIL, 6)


def test_the_cluster_named(workspace, monkeypatch):
    assert one(doctor_places.ray, workspace).state == OK
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{closed_port()}")
    finding = one(doctor_places.ray, workspace)
    assert (finding.state, finding.exit_code) == (FAIL, 5)
    assert "unset RAY_ADDRESS" in finding.remedy
    with server(200) as (port, _):
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
        assert one(doctor_places.ray, workspace).state == OK
    monkeypatch.setenv("RAY_ADDRESS", "ray://127.0.0.1:10001")
    assert one(doctor_places.ray, workspace).state == FAIL
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    assert one(doctor_places.ray, workspace).state == OK


# -- what is in the workspace --


@pytest.mark.slow
def test_a_damaged_corpus(workspace):
    assert states(doctor_studies.corpora, workspace) == [OK]
    folder = Path(workspace.data) / "ptb"
    folder.mkdir(parents=True)
    for split in ("train", "valid", "test"):
        (folder / f"ptb.{split}.txt").write_text("not the published text\n")
    wrong, good = outcome("corpora", doctor_studies.corpora, workspace)
    assert (wrong.state, wrong.exit_code) == (FAIL, 3)
    assert "ablate data get ptb" in wrong.remedy
    assert "grammar built in" in good.found


@pytest.fixture
def stopped(workspace):
    """A study of two trials, one of them done."""
    from ablate.store.study_record import ArmRecord, PlannedTrial, StudyRecord, write

    trials = [
        PlannedTrial(id=f"{name * 16}", arm="a", stage="train", seed=n, seed_index=n, final=True)
        for n, name in enumerate("ab")
    ]
    record = StudyRecord(
        name="q", scale="s", question="?", paper="", tables=(), file="q.py",
        command="ablate study q.py", corpus="grammar", corpus_digest="", level="word",
        num_seeds=2, base_arm="a", arms=(ArmRecord(name="a"),), trials=tuple(trials),
    )  # fmt: skip
    write(workspace.store, record)
    _finish(workspace.store, trials[0].id)
    return workspace


def _finish(store: Store, trial_id: str) -> None:
    from ablate.config.identity import Trial

    trial = Trial(id=trial_id, values={}, seed=1, corpus_digest="")
    journals.close(store, trial, Status.COMPLETED)


@pytest.mark.slow
def test_a_study_that_stopped(stopped):
    finding, _ = outcome("studies", doctor_studies.studies, stopped)
    assert finding.state == WARN
    assert finding.found == "q@s stopped with 1 of 2 trials left"
    assert finding.remedy == "Resume with: ablate study q.py"
    _finish(stopped.store, "b" * 16)
    assert outcome("studies", doctor_studies.studies, stopped) == [Finding(OK, "1 finished")]


def test_a_study_that_runs(stopped):
    with held(stopped, "q@s"):
        finding, _ = outcome("studies", doctor_studies.studies, stopped)
        assert finding.state == OK and f"process {os.getpid()}" in finding.found


def test_a_damaged_journal_is_named(stopped):
    stopped.store.write(journals.key("b" * 16), b"{")
    finding, _ = outcome("studies", doctor_studies.studies, stopped)
    assert (finding.state, finding.exit_code) == (FAIL, 4)
    assert journals.key("b" * 16) in finding.found


def test_leftovers_of_killed_runs(stopped):
    assert states(doctor_studies.leftovers, stopped) == [OK]
    partial = stopped.store.folder / "trials" / ("a" * 16) / "tmp123.partial"
    partial.write_text("half")
    (stopped.folder / "ray" / "tune-x").mkdir(parents=True)
    finding = one(doctor_studies.leftovers, stopped)
    assert finding.state == WARN and finding.found.startswith("2 unfinished files")
    assert str(partial) in finding.remedy
    with held(stopped, "q@s"):
        assert states(doctor_studies.leftovers, stopped) == [OK]


def test_no_secret_is_shown(tmp_path):
    uri = "s3://AKIA12:se%2Fcret@bucket/x?access_key=AKIA34&secret_key=abc/def"
    open_workspace(str(tmp_path), store=uri)
    message = f"cannot open {uri}: key se/cret (or se%2Fcret) and abc/def refused by bucket"
    safe = Finding(FAIL, message, message)
    for text in (safe.found, safe.remedy):
        assert not any(secret in text for secret in ("AKIA", "se/cret", "se%2Fcret", "abc/def"))
        assert "refused by bucket" in text


class AtOnce(threading.Timer):
    """A timer whose time is up while SQLite executes its first instructions."""

    def start(self) -> None:
        database = self.function.__self__  # type: ignore[attr-defined]
        database.set_progress_handler(lambda: 1, 1)
        super().start()


def test_the_check_of_a_database_of_gigabytes_ends_and_says_that_it_is_of_a_part(
    tmp_path, monkeypatch
):
    file = tmp_path / "mlflow.db"
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE runs (name TEXT)")
    whole = doctor_places._sqlite(file, "")
    assert (whole.state, "of which" in whole.found) == (OK, False)
    monkeypatch.setattr(doctor_places.threading, "Timer", AtOnce)
    part = doctor_places._sqlite(file, "")
    assert part.state == OK and "MB, of which 2 s of checking found nothing wrong)" in part.found
