"""What `ablate doctor` says of a machine and its places, above all of what is wrong with them."""

from __future__ import annotations

import contextlib
import http.server
import os
import socket
import sqlite3
import sys
import threading
import time
from pathlib import Path

import pytest

from ablate.commands.doctor import examine as doctor
from ablate.commands.doctor import machine as doctor_machine
from ablate.commands.doctor import places as doctor_places
from ablate.commands.doctor.examine import Running, examine
from ablate.commands.doctor.finding import FAIL, OK, WARN, Check, Finding
from ablate.errors import RecordError
from ablate.store.workspace import open_workspace


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    places = ("RAY_ADDRESS", "MLFLOW_TRACKING_URI", "ABLATE_STORE", "ABLATE_SEARCHES")
    for name in (*places, "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def workspace(tmp_path: Path):
    """A workspace in which nothing was ever run."""
    return open_workspace(str(tmp_path / "workspace"))


def outcome(name: str, workspace, address: str = "") -> list[Finding]:
    """The findings of a check."""
    (check,) = (check for check in doctor.checks(address) if check.name == name)
    return check.findings(workspace)


def one(name: str, workspace, address: str = "") -> Finding:
    """The only finding of a check."""
    (finding,) = outcome(name, workspace, address)
    return finding


# -- the command --


@pytest.mark.slow
def test_all_is_well_in_a_new_place(workspace, capsys):
    assert examine(workspace) == 0
    lines = capsys.readouterr().out.splitlines()
    named = [line.split()[1] for line in lines[:-2]]
    assert list(dict.fromkeys(named)) == [check.name for check in doctor.checks("")]
    assert lines[-1].startswith("no failures, ")
    assert not workspace.folder.exists()  # it looks, and makes nothing


def test_the_first_failure_gives_the_exit_code(workspace, capsys, monkeypatch):
    findings = [
        Finding(WARN, "w"),
        Finding(FAIL, "f", "Do this.", 6),
        Finding(FAIL, "g", exit_code=3),
    ]
    monkeypatch.setattr(doctor, "checks", lambda _: [Check("it", lambda _: findings)])
    assert examine(workspace) == 6
    assert capsys.readouterr().out.splitlines() == [
        "warn  it         w",
        "FAIL  it         f. Do this.",
        "FAIL  it         g",
        "",
        "2 failures, 1 warning",
    ]


def test_a_check_that_hangs_is_left_behind(workspace):
    running = Running(Check("it", lambda _: time.sleep(5) or []), workspace)
    assert [(each.state, each.found) for each in running.findings(0.05)] == [
        (FAIL, "no answer within 0.05 s")
    ]


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

    (finding,) = Check("it", check).findings(workspace)
    assert (finding.state, finding.exit_code) == (FAIL, code)
    assert says in finding.found
    assert (finding.remedy == "This is a bug in ablate.") == (code == 4)


# -- the machine --


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ({"torch": "2.6"}, []),
        ({"torch": "2.5.1"}, [(FAIL, "torch 2.5.1 is older than 2.6")]),
        ({"torch": None}, [(WARN, "torch is not installed: language models do not train")]),
        ({"numpy": None}, [(FAIL, "numpy is not installed")]),
        (
            {"ray": None, "optuna": None},
            [(WARN, "ray, optuna are not installed: studies do not run")],
        ),
        ({"ray": "3.0.0rc1"}, []),
        ({"ray": "2.9.3"}, [(FAIL, "ray 2.9.3 is older than 2.50")]),
    ],
)
def test_packages_against_their_minima(workspace, monkeypatch, versions, expected):
    installed = doctor_machine._installed
    monkeypatch.setattr(
        doctor_machine, "_installed", lambda name: versions.get(name, installed(name))
    )
    *wrong, good = outcome("packages", workspace)
    assert [(each.state, each.found) for each in wrong] == expected
    assert good.state == OK and "pyarrow" in good.found and "pytest" not in good.found
    assert all("pip install" in each.remedy for each in wrong)


KERNELS = '"yes", "c++ 12.2"'


def said(gpus: str, cuda: str = "null", kernels: str = KERNELS) -> str:
    """A script that says what a machine has, as the check's own does."""
    return f"print('[{gpus}, {cuda}, [], [[{kernels}, \"MKL\"]]]')"


@pytest.mark.parametrize(
    ("script", "at", "state", "says"),
    [
        (said('["H200", "H200"]', '"13.0"'), 1, OK, "GPUs: H200; H200 (CUDA 13.0)"),
        (said("[]"), 1, WARN, "torch, built without CUDA, sees no GPU: trials run on"),
        ("raise ImportError('libtorch.so: no such file')", 1, FAIL, "libtorch.so: no such file"),
        ("import time; time.sleep(9)", 1, FAIL, "has not listed GPUs within 0.5 s"),
        (said("[]"), 2, OK, "built by c++ 12.2; products of output layers by MKL"),
        (said("[]", kernels='"off", ""'), 2, OK, "switched off by ABLATE_NATIVE=off"),
        (said("[]", kernels='"no", "no C++ compiler is found"'), 2, WARN, "no C++ compiler"),
    ],
)
def test_cores_accelerators_and_kernels(workspace, monkeypatch, script, at, state, says):
    monkeypatch.setattr(doctor_machine, "DEVICES", script)
    monkeypatch.setattr(doctor_machine, "usable_cores", lambda: 1.5)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(doctor_machine.shutil, "which", lambda name: f"/usr/bin/{name}")
    if "sleep" in script:
        monkeypatch.setattr(doctor_machine, "SECONDS", 0.5)
    found = outcome("devices", workspace)
    assert found[0].state == OK and "1.5 of 8 cores" in found[0].found
    assert found[at].state == state and says in found[at].found
    assert ("CXX" in found[at].remedy) == ("no C++" in script)


# What torch says in `is_available`; its `device_count` asks another library, which counts one.
TROUBLED = """
import torch, warnings
torch.version.cuda = "13.0"
torch.cuda.device_count = lambda: 1
def none():
    warnings.warn("CUDA initialization: " + {said!r})
    return False
torch.cuda.is_available = none
"""
OLD = "The NVIDIA driver on your system is too old (found version 12040). Please update it. Or"
BROKEN = "CUDA unknown error - this may be due to an incorrectly set up environment. Setting the"


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (OLD, "The NVIDIA driver on your system is too old (found version 12040)"),
        (BROKEN, "torch for CUDA 13.0 sees no GPU: trials run on the processor. CUDA initializat"),
    ],
)
def test_a_gpu_that_torch_cannot_use(workspace, monkeypatch, said, found):
    script = TROUBLED.format(said=said) + doctor_machine.DEVICES
    monkeypatch.setattr(doctor_machine, "DEVICES", script)
    monkeypatch.setattr(doctor_machine.shutil, "which", lambda name: None)
    gpus = outcome("devices", workspace)[1]
    assert gpus.state == WARN
    assert found in gpus.found and "Update the driver" in gpus.remedy


@pytest.mark.parametrize(("free", "state"), [(4.9e9, WARN), (5e9, OK)])
def test_room_on_the_disk(workspace, monkeypatch, free, state):
    usage = doctor_places.shutil.disk_usage("/")._replace(free=int(free))
    monkeypatch.setattr(doctor_places.shutil, "disk_usage", lambda path: usage)
    finding = one("workspace", workspace)
    assert (finding.state, f"{free / 1e9:.1f} GB free" in finding.found) == (state, True)
    assert ("--workspace" in finding.remedy) == (state != OK)


# -- places --


def test_a_workspace_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    finding = one("workspace", open_workspace(str(tmp_path / "file")))
    assert finding.state == FAIL and "Not a directory" in finding.found
    finding = one("workspace", open_workspace(str(tmp_path / "file" / "below")))
    assert finding.state == FAIL and "cannot be created" in finding.found


def test_a_store_elsewhere_is_tried(tmp_path):
    workspace = open_workspace(str(tmp_path), store=f"file://{tmp_path}/elsewhere")
    assert one("store", workspace).state == OK
    assert list((tmp_path / "elsewhere").iterdir()) == []
    (tmp_path / "file").write_text("")
    finding = one("store", open_workspace(str(tmp_path), store=str(tmp_path / "file")))
    assert finding.state == FAIL and "--store" in finding.found


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
        finding = one("mlflow", open_workspace(str(tmp_path), mlflow=uri))
    assert finding == Finding(OK, f"http://me:***@127.0.0.1:{port} answers")
    assert requests == [
        ("/api/2.0/mlflow/experiments/search?max_results=1", "Basic bWU6aHVudGVyMg==")
    ]


@pytest.mark.parametrize(
    ("status", "remedy"),
    [(401, "MLFLOW_TRACKING_USERNAME"), (403, "--allowed-hosts"), (404, "Is it an MLflow server")],
)
def test_a_server_that_refuses(tmp_path, status, remedy):
    with server(status) as (port, _):
        workspace = open_workspace(str(tmp_path), mlflow=f"http://127.0.0.1:{port}")
        finding = one("mlflow", workspace)
    assert (finding.state, finding.exit_code) == (FAIL, 6)
    assert f"answers {status}" in finding.found and remedy in finding.remedy


def test_the_database_of_the_records(workspace):
    assert "will be created" in one("mlflow", workspace).found
    workspace.folder.mkdir()
    file = workspace.folder / "mlflow.db"
    with contextlib.closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE t (a)")
    assert one("mlflow", workspace).state == OK
    file.write_bytes(b"this is no database" * 100)
    finding = one("mlflow", workspace)
    assert (finding.state, finding.exit_code) == (FAIL, 6)
    assert "not a database" in finding.found and "Move it away" in finding.remedy


def test_a_database_on_a_server(tmp_path, monkeypatch):
    url = f"postgresql+psycopg://me:hunter2@127.0.0.1:{closed_port()}/searches"
    finding = one("searches", open_workspace(str(tmp_path), searches=url))
    assert (finding.state, finding.exit_code) == (FAIL, 6)
    assert "hunter2" not in f"{finding}" and "Is the database up" in finding.remedy
    monkeypatch.setitem(sys.modules, "psycopg", None)
    plain = open_workspace(str(tmp_path), searches=url.replace("+psycopg", ""))
    finding = one("searches", plain)
    assert (finding.state, finding.exit_code) == (FAIL, 7)
    assert finding.remedy == "pip install 'ablate-studies[cluster]'"
    finding = one("searches", open_workspace(str(tmp_path), searches="mongo://x/y"))
    assert (finding.state, finding.exit_code) == (FAIL, 6)
