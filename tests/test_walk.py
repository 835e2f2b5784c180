"""README's walk, by its own commands: from an empty folder to an answer, with the page open.

`ABLATE_REGENERATE=1 .venv/bin/pytest tests/test_walk.py` takes the page's picture for README.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.test_tutorials import SHELL, environment
from tests.end_to_end.test_tutorials import run_in_a_shell as run
from tests.support import places
from tests.support.live_pages import eventually, text_at

SECTION = "\n## Your own question, on your own text\n"
SERVES = "ablate ui"  # until it is stopped
PICTURE = places.DOCS / "pictures" / "page.png"
NOW = "document.querySelector('#now').innerText"
WITH_A_PICTURE = 9  # trials of twelve: each arm has some, and none has all


def commands() -> list[str]:
    """Return the commands of README's section, in order."""
    readme = (places.ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition(SECTION)[2].partition("\n## ")[0]
    lines = [line for _, block in SHELL.findall(section) for line in block.splitlines()]
    return [line for line in lines if line != SERVES]


def completed(tab: Any) -> int | None:
    """Return how many trials the page says are completed; nothing while it loads or has ended."""
    from playwright.sync_api import Error

    try:
        found = re.search(r"(\d+) completed", tab.evaluate(NOW))
    except Error:  # the page is just being loaded again
        return None
    return int(found[1]) if found else None


def filling_up(tab: Any, study: subprocess.Popen[str]) -> list[int]:
    """Return every count of the page until the study's process has ended."""
    seen: list[int] = []
    while study.poll() is None:
        now = completed(tab)
        if now and now not in seen[-1:]:
            seen.append(now)
            if now >= WITH_A_PICTURE and os.environ.get("ABLATE_REGENERATE"):
                taken(tab)
        tab.wait_for_timeout(100)
    return seen


def taken(tab: Any) -> None:
    """Take README's picture, once."""
    if not tab.evaluate("window.taken ?? false"):
        tab.evaluate("window.taken = true")
        tab.evaluate("scrollTo(0, 0)")
        tab.wait_for_timeout(1000)  # the figures are drawn
        tab.screenshot(path=PICTURE)


@pytest.mark.slow
@pytest.mark.cluster
def test_from_an_empty_folder_to_an_answer_with_the_page_open(tabs, tmp_path):
    *before, study = commands()
    assert study.startswith("ablate study") and "--ui" in study
    for command in before:
        run(command, tmp_path)
    with (
        (tmp_path / "printed").open("w+") as printed,
        subprocess.Popen(
            ["bash", "-c", f"exec {study}"],
            cwd=tmp_path,
            env=environment(),
            stdout=printed,
            stderr=subprocess.STDOUT,
            text=True,
        ) as running,
    ):
        try:
            seen = watched(tabs, tmp_path / "printed", running)
        finally:
            running.terminate()
        text = (tmp_path / "printed").read_text()
        assert running.returncode == 0, text
    assert len(seen) > 2 and seen == sorted(seen), "the bar fills up, without a reload"
    rows = re.findall(r"^dropout 0\.\d .*(?:better|worse|undecided)", text, re.MULTILINE)
    assert len(rows) == 2 and "mine, 4 paired seeds" in text, text


def watched(tabs: Any, printed: Path, running: subprocess.Popen[str]) -> list[int]:
    """Open the page that the study names; return the counts that it showed, to the end."""
    address = re.compile(
        r"^The page is at (http://127\.0\.0\.1:\d+/study/my_study@small\?token=\S+) "
    )
    eventually(lambda: running.poll() is not None or address.match(printed.read_text()), 60)
    found = address.match(printed.read_text())
    assert found, printed.read_text()
    eventually(lambda: text_at(found[1]), 60)
    tab = tabs(width=1280, height=900)
    tab.goto(found[1])
    seen = filling_up(tab, running)
    # The page has the end, and says that its server has ended.
    eventually(lambda: "ablate ui" in tab.inner_text("#live"))
    assert "Ended" in tab.inner_text("#now") and "Provisional" not in tab.inner_text("#table")
    # What a picture fetches at that moment fails.
    tabs.faults[:] = [fault for fault in tabs.faults if "ERR_CONNECTION" not in fault]
    return seen
