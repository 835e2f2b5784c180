"""Where records may go, and the command that shows them."""

from __future__ import annotations

import sys

import pytest

from ablate.errors import RecordError
from ablate.record.places import check_uri, default_uri, digest, redacted, ui_command
from ablate.record.runs import tag_key


@pytest.mark.parametrize(
    "uri",
    [
        "http://localhost:5000",
        "https://user:pw@mlflow.company.org/team",
        "sqlite:////tmp/mlflow.db",
        "postgresql+psycopg2://user@host/name",
    ],
)
def test_places_that_are(uri) -> None:
    assert check_uri(uri) == uri


@pytest.mark.parametrize(
    "uri", ["", "mlruns", "./mlruns", "file:///tmp/mlruns", "ftp://host", "http://", "sqlite://"]
)
def test_places_that_are_not(uri) -> None:
    with pytest.raises(RecordError, match=r"no place for records.*sqlite:////folder/mlflow\.db"):
        check_uri(uri)


def test_passwords_are_not_shown() -> None:
    assert redacted("http://me:secret@host:1") == "http://me:***@host:1"
    assert redacted("sqlite:////a@b/c") == "sqlite:////a@b/c"
    with pytest.raises(RecordError) as told:
        check_uri("ftp://me:secret@host")
    assert "secret" not in str(told.value)
    assert digest("http://a/") == digest("http://a") != digest("http://b")


def test_the_ui_listens_here_only(tmp_path) -> None:
    command = ui_command(default_uri(tmp_path), tmp_path / "artifacts", 5050)
    assert command[:4] == [sys.executable, "-m", "mlflow", "server"]
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert command[command.index("--port") + 1] == "5050"
    assert command[command.index("--backend-store-uri") + 1] == default_uri(tmp_path)
    with pytest.raises(RecordError, match="in a browser"):
        ui_command("http://host:5000", tmp_path)
    with pytest.raises(RecordError, match="--port 0"):
        ui_command(default_uri(tmp_path), tmp_path, 0)


@pytest.mark.parametrize(
    ("found", "key"),
    [
        ("units[0]", "units.0"),
        ("mix@laptop", "mix.laptop"),
        ("a.b_c/d-e f", "a.b_c/d-e f"),
        ("x=1,y", "x_1_y"),
    ],
)
def test_keys_that_mlflow_takes(found, key) -> None:
    assert tag_key(found) == key
