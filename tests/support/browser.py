"""A real Chromium for tests, driven by playwright. Without one they skip, except in CI.

    def test_it(tabs):
        tab = tabs(dark=True, width=400)  # a playwright `Page`
        tab.goto(url)

After the test, an error in a console, or a request to another machine, fails it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

PROGRAMS = ("chromium", "google-chrome")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
NEEDED = "ABLATE_NEEDS_BROWSER"  # set to 1 where a missing browser is a failure
HERE = ("", "127.0.0.1", "localhost")
Tabs = Any  # a function with an attribute


def _program() -> str:
    found = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    if found is None:
        missing = f"none of {', '.join(PROGRAMS)} is on this machine"
        pytest.fail(missing) if os.environ.get(NEEDED) == "1" else pytest.skip(missing)
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One Chromium for a file of tests.

    Not for all: while playwright runs, its event loop does, and no other test could start one.
    """
    program = _program()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=program, args=[*FLAGS])
        yield made
        made.close()


@pytest.fixture
def tabs(browser: Any) -> Iterator[Tabs]:
    """Open tabs, each with its own cookies: `tabs(dark=False, width=1200, **of_the_context)`.

    `tabs.faults` has what would fail the test: clear it where an error is what a test is about.
    """
    contexts: list[Any] = []
    faults: list[str] = []

    def opened(*, dark: bool = False, width: int = 1200, height: int = 900, **more: Any) -> Any:
        scheme, size = "dark" if dark else "light", {"width": width, "height": height}
        context = browser.new_context(color_scheme=scheme, viewport=size, **more)
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(90_000)  # a busy machine is slow, and not wrong
        tab.on("console", lambda said: said.type == "error" and faults.append(said.text))
        tab.on("pageerror", lambda error: faults.append(str(error)))
        tab.on("request", lambda sent: faults.extend(_elsewhere(sent.url)))
        return tab

    opened.faults = faults  # type: ignore[attr-defined]
    yield opened
    for context in contexts:
        context.close()
    assert not faults, faults


def _elsewhere(url: str) -> list[str]:
    """The address, if it is on another machine."""
    parts = urlsplit(url)
    return [url] if parts.scheme in ("http", "https") and parts.hostname not in HERE else []


def is_wider_than_the_window(tab: Any) -> bool:
    """Return whether a reader would have to scroll the whole page sideways."""
    return tab.evaluate("document.documentElement.scrollWidth > window.innerWidth")
