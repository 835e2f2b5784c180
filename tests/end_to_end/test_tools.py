"""docs/tools.md, followed with the tools that are installed here."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

import pytest

from tests.end_to_end.test_tutorials import FILE, SHELL, environment, run
from tests.support import places

PAGE = (places.DOCS / "tools.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"```python\n# run: ([^\n]+)\n(.*?)```", PAGE, re.DOTALL))
SHOWN = {"optuna": ["'Rate': 0."], "duckdb, pandas": ["completed", "gru"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, warm):
    folder = tmp_path_factory.mktemp("tools")
    for name, content in FILE.findall(PAGE):
        (folder / name).write_text(content)
    for _, command in SHELL.findall(PAGE):
        run(command, folder, warm)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("tools", BLOCKS)
def test_what_the_page_says_of_other_tools(folder, tools):
    missing = [tool for tool in tools.split(", ") if importlib.util.find_spec(tool) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    # Tools warn of what we have no say in: experimental classes, deprecated names.
    command = [sys.executable, "-W", "ignore", "-c", BLOCKS[tools]]
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert all(words in done.stdout for words in SHOWN[tools]), done.stdout


def test_every_tool_of_the_page_is_expected():
    assert BLOCKS.keys() == SHOWN.keys()
