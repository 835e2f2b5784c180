"""The MLflow UI as a user sees it: `ablate ui`, opened in a real Chromium."""

from __future__ import annotations

import signal
import socket
import sqlite3
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest

from ablate.record.places import ui_page

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def page(places, browser) -> Iterator[Callable[..., None]]:
    """Waits until a page of the UI shows these texts; the workspace has a finished study."""
    place = places("small.py")
    place.ablate("study", "small.py", "--local").succeeded()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = {"ABLATE_UI_TOKEN": "open-sesame"}
    server = place.start("ui", "--mlflow", "--port", str(port), env=token)
    _wait(f"http://127.0.0.1:{port}/health?token=open-sesame")
    with pytest.raises(HTTPError, match="401"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=9)

    def shows(path: str, *texts: str) -> None:
        tab = browser.new_page()
        tab.goto(ui_page(port, "token=open-sesame").replace("/experiments", path))
        for text in texts:  # MLflow fills its pages bit by bit
            tab.get_by_text(text).first.wait_for(state="attached", timeout=60_000)
        tab.close()

    shows.database = place.workspace / "mlflow.db"  # type: ignore[attr-defined]
    yield shows
    server.kill(signal.SIGTERM)
    server.ended().succeeded()
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2)


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect."""

    def redirect_request(self, *_):
        return None


def _wait(url: str, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with urllib.request.build_opener(NoRedirect).open(url, timeout=2):
                return
        except HTTPError:  # a redirect, with a cookie
            return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"{url} did not answer within {seconds} s")


def run_of(database: Path, key: str) -> tuple[str, str, str]:
    """Experiment, run and name of the first run that has the tag."""
    with sqlite3.connect(database) as records:
        return records.execute(
            "select experiment_id, run_uuid, name from runs join tags using (run_uuid)"
            " where key = ? order by start_time limit 1",
            (key,),
        ).fetchone()


def test_the_study_is_among_the_experiments_and_its_run_on_top(page):
    # "Model registry" is missing in MLflow's mode for agents and prompts.
    page("/experiments", "small@", "Model registry")
    experiment, _, name = run_of(page.database, "ablate.study_run")
    page(f"/experiments/{experiment}/runs", name, "matching runs")


def test_the_studys_page_has_its_question_and_its_table(page):
    experiment, run, _ = run_of(page.database, "ablate.study_run")
    page(f"/experiments/{experiment}/runs/{run}", "The same again?", "base", "verdict")


def test_a_trials_page_has_its_numbers(page):
    experiment, run, name = run_of(page.database, "ablate.trial")
    numbers = ("final_valid_ppl", "optimizer.learning_rate")
    page(f"/experiments/{experiment}/runs/{run}", name, *numbers)
