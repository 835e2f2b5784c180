"""A workspace with a study made by hand, and clients of its page."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ablate.live.app import make_app
from ablate.live.mlflow import MLflow
from ablate.live.served import Served
from tests.support.browser import browser, tabs  # noqa: F401
from tests.support.live_pages import TOKEN, Client, Place, eventually


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def served(place: Place, monkeypatch: pytest.MonkeyPatch) -> Served:
    monkeypatch.setattr("ablate.live.watched.PAUSE_SECONDS", 0.0)
    return Served(place.workspace)


@pytest.fixture
def client(served: Served) -> Client:
    return Client(served)


@pytest.fixture
def site(place: Place) -> Iterator[str]:
    """The address of a real server in a thread of this process."""
    import uvicorn

    served = Served(place.workspace)
    app = make_app(served, MLflow(place.workspace, 5999, TOKEN), TOKEN)
    config = uvicorn.Config(app, port=0, log_level="error", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    eventually(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()
