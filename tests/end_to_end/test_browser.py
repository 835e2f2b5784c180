"""The MLflow UI as a user sees it: `ablate ui`, opened in a real Chromium."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ablate.record.places import ui_page

BROWSER = next(
    (found for name in ("chromium", "google-chrome") if (found := shutil.which(name))), None
)
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--virtual-time-budget=30000",
)  # fmt: skip
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine"),
]


@pytest.fixture(scope="module")
def page(places, tmp_path_factory) -> Iterator[Callable[[str], str]]:
    """The text of a page of the UI, on a workspace with a finished study."""
    place = places("small.py")
    place.ablate("study", "small.py", "--local").succeeded()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = place.start("ui", "--port", str(port))
    _wait(f"http://127.0.0.1:{port}/health")

    def text(path: str) -> str:
        profile = tmp_path_factory.mktemp("profile")
        url = ui_page(port).replace("/experiments", path)
        command = [str(BROWSER), *QUIET, f"--user-data-dir={profile}", "--dump-dom", url]
        dom = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
        bare = re.sub(r"<(script|style).*?</\1>|<[^>]+>", " ", dom, flags=re.DOTALL)
        return re.sub(r"\s+", " ", bare)

    text.database = place.workspace / "mlflow.db"  # type: ignore[attr-defined]
    yield text
    server.kill(signal.SIGTERM)
    server.ended().succeeded()
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2)


def _wait(url: str, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=2):
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
    shown = page("/experiments")
    assert "small@" in shown
    assert "Model registry" in shown  # which the mode for agents and prompts does not have
    experiment, _, name = run_of(page.database, "ablate.study_run")
    runs = page(f"/experiments/{experiment}/runs")
    assert name in runs and "matching runs" in runs


def test_the_studys_page_has_its_question_and_its_table(page):
    experiment, run, _ = run_of(page.database, "ablate.study_run")
    shown = page(f"/experiments/{experiment}/runs/{run}")
    assert "The same again?" in shown
    assert "base arm" in shown and "verdict" in shown


def test_a_trials_page_has_its_numbers(page):
    experiment, run, name = run_of(page.database, "ablate.trial")
    shown = page(f"/experiments/{experiment}/runs/{run}")
    assert name in shown
    assert "final_valid_ppl" in shown and "optimizer.learning_rate" in shown
