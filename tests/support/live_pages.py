"""A study written by hand, journal by journal, and a client of the page that shows it."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from ablate.live.app import make_app
from ablate.live.mlflow import MLflow
from ablate.live.served import Served
from ablate.store import study_record
from ablate.store.attempt import Attempt
from ablate.store.epoch import Epoch
from ablate.store.workspace import Workspace
from tests.support.studies_by_hand import ByHand

TOKEN, ONCE = "open sesame", "only once"
KEY = "mixture_layers@laptop"
ARM = "<script>alert(1)<script>"
LOSSES = {
    "base": (4.50, 4.52, 4.48, 4.51),
    "mos": (4.40, 4.43, 4.39, None),
    ARM: (4.61, 4.60, None, 4.63),
}


class Place:
    """A workspace whose study is written by hand."""

    def __init__(self, folder: Path, losses: Any = LOSSES) -> None:
        self.workspace = Workspace(folder)
        self.study = ByHand(losses, record_fields={"paper": "", "tables": ()})
        study_record.write(self.workspace.store, self.study.record)
        for id, journal in self.study.journals.items():
            self.write(id, journal)

    def write(self, id: str, journal: Any) -> None:
        arm = id.rpartition("-")[0]
        journal.config = {"head.name": arm, "backbone.size": 64}
        journal.trial = replace(journal.trial, study="mixture_layers", scale="laptop", arm=arm)
        said, then = ("hello from the task",), "2025-11-25T21:50:00Z"
        journal.attempts = [Attempt(started=then, host="node-7", pid=12, output=said)]
        journal.write(self.workspace.store)

    def grow(self, id: str, epochs: int, loss: float | None = None, **ending: Any) -> None:
        """Write a trial's journal as its worker would; with a loss, the trial ends."""
        losses = {"valid_nll": (loss or 4.5) + 0.05, "test_nll": loss or 4.5}
        self.study.end(id, ending.get("status", "completed"), metrics=losses)
        journal = self.study.journals[id]
        metrics = [{"valid_nll": 5 - 0.1 * n} for n in range(epochs)]
        journal.epochs = [Epoch(n, each, n * 2.0, 9) for n, each in enumerate(metrics, 1)]
        if loss is None and "status" not in ending:
            journal.outcome = None
        self.write(id, journal)


class Client:
    """A client of a page in this process, which keeps cookies as a browser does."""

    def __init__(
        self, served: Served, base: str = "http://127.0.0.1:5050", given: str = TOKEN
    ) -> None:
        self._app = make_app(served, MLflow(served.workspace, 5999, TOKEN), TOKEN, ONCE)
        self._base, self._cookies = base, httpx.Cookies()
        self.get(f"/?token={given}")

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.request("GET", path, **more)

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        async def answer() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._app)
            async with httpx.AsyncClient(transport=transport, cookies=self._cookies) as client:
                response = await client.request(method, f"{self._base}{path}", **more)
                self._cookies = client.cookies
                return response

        return asyncio.run(answer())

    def seen(self, path: str, status: int = 200) -> str:
        answer = self.get(path)
        assert answer.status_code == status, answer.text
        return answer.text


def eventually(is_true: Callable[[], Any], seconds: float = 90) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "it did not become true"
        time.sleep(0.02)


def text_at(address: str) -> str:
    """What a browser would show there; nothing if no server answers."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    try:
        with browser.open(address, timeout=2) as answer:
            return answer.read().decode()
    except OSError:
        return ""
