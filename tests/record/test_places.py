"""Where records may go, and the command that shows them."""

from __future__ import annotations

import socket
import subprocess
import sys
from urllib.parse import parse_qs, urlsplit

import pytest

from ablate import cli
from ablate.errors import RecordError
from ablate.record.places import (
    check_uri,
    first_error,
    ui_command,
    ui_environment,
    ui_page,
)
from ablate.record.tracking import Away


@pytest.mark.parametrize(
    "uri", ["", "mlruns", "./mlruns", "file:///tmp/mlruns", "ftp://host", "http://", "sqlite://"]
)
def test_invalid_uris(uri) -> None:
    with pytest.raises(RecordError, match=r"cannot be stored in.*sqlite:////folder/mlflow\.db"):
        check_uri(uri)


def test_the_ui_listens_here_only(tmp_path) -> None:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    command = ui_command(uri, tmp_path / "artifacts", 5050)
    assert command[:4] == [sys.executable, "-m", "mlflow", "server"]
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert command[command.index("--port") + 1] == "5050"
    with pytest.raises(RecordError, match="in a browser"):
        ui_command("http://host:5000", tmp_path)
    with pytest.raises(RecordError, match="--port 0"):
        ui_command(uri, tmp_path, 0)


def test_the_uis_arguments_have_no_password(tmp_path) -> None:
    """Every user of the machine can read them."""
    uri = "postgresql://me:correct-horse@host/records"
    assert "correct-horse" not in str(ui_command(uri, tmp_path))
    assert ui_environment(uri)["MLFLOW_BACKEND_STORE_URI"] == uri


def test_the_ui_opens_on_the_training_of_models() -> None:
    """MLflow reads its mode behind the #, and otherwise shows that of agents and prompts."""
    page = urlsplit(ui_page(5050))
    assert (page.netloc, page.query) == ("127.0.0.1:5050", "")
    route = urlsplit(page.fragment)
    assert route.path == "/experiments"
    assert parse_qs(route.query) == {"workflowType": ["machine_learning"]}


def test_a_busy_port_is_refused_before_anything_starts(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.delattr(subprocess, "Popen")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        workspace = ["--workspace", str(tmp_path / "ws")]
        assert cli.main(["ui", "--mlflow", "--port", str(port), *workspace]) == 6
    out, err = capsys.readouterr()
    assert out == "" and not (tmp_path / "ws").exists()
    assert f"port {port}" in err and f"lsof -i :{port}" in err and "--port" in err


def test_the_ui_ended_for_its_first_error_not_its_last_line() -> None:
    log = (
        "2026/11/22 05:11:00 INFO:     Application startup complete.\n"
        "2026/11/22 05:11:00 ERROR:    [Errno 98] address already in use\n"
        "2026/11/22 05:11:00 INFO:     Application shutdown complete.\n"
    )
    assert first_error(log).endswith("ERROR:    [Errno 98] address already in use")
    assert first_error("one\ntwo\n") == "two"
    assert first_error("") == "it logged nothing"


@pytest.mark.parametrize("uri", ["sqlite:////proc", "postgresql+psycopg://nobody@127.0.0.1:1/x"])
def test_a_database_that_cannot_be_opened_is_tried_once(monkeypatch, uri):
    """MLflow's own client, which is not reached, would try for 100 seconds."""
    from ablate.record import client, quiet

    monkeypatch.setattr(quiet.load("mlflow.tracking"), "MlflowClient", None)
    with pytest.raises(Away, match="cannot store records now"):
        client.open_client(uri, quiet.load("mlflow.tracking"))
