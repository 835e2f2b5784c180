"""Run before MLflow starts, as often as it does: its databases and its logins.

UPGRADE=1 brings the records' tables up to this MLflow's version: back them up first.
"""

import json
import os
import subprocess
import time
from pathlib import Path

import sqlalchemy
from sqlalchemy.exc import OperationalError

LOGINS = Path(os.environ.get("LOGINS", "/etc/mlflow/logins.json"))
PATIENCE = float(os.environ.get("PATIENCE", "240"))  # seconds


def wait_for(url: str) -> None:
    """Return once the database takes connections."""
    engine = sqlalchemy.create_engine(url)
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with engine.connect():
                return
        except OperationalError as error:
            if time.monotonic() > deadline:
                raise SystemExit(f"no database at {engine.url!r}: {error.orig}") from None
            time.sleep(2)


def make_logins(path: Path) -> None:
    """Make the logins that are missing, and give those that are there their password of today."""
    from mlflow.server.auth.config import read_auth_config
    from mlflow.server.auth.sqlalchemy_store import SqlAlchemyStore

    url = read_auth_config().database_uri
    wait_for(url)
    store = SqlAlchemyStore()
    store.init_db(url)
    for name, login in json.loads(path.read_text()).items():
        if store.has_user(name):
            store.update_user(name, login["password"], login["admin"])
        else:
            store.create_user(name, login["password"], login["admin"])
            print(f"login {name} made")


def main() -> None:
    url = os.environ["MLFLOW_BACKEND_STORE_URI"]
    wait_for(url)
    if os.environ.get("UPGRADE"):
        subprocess.run(["mlflow", "db", "upgrade", url], check=True)
    make_logins(LOGINS)


if __name__ == "__main__":
    main()
