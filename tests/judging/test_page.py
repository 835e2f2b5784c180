"""docs/judging.md as its readers follow it: the loop and the commands are run, tables compared."""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
from pathlib import Path

import pytest

from ablate.cli import main
from tests.support import places

PAGE = (places.DOCS / "judging.md").read_text(encoding="utf-8")
FILE = re.compile(r"```python\n# file: (\S+)\n(.*?)```", re.DOTALL)
SHELL = re.compile(r"(<!-- refused -->\n)?```sh\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.DOTALL)


def squeezed(text: str) -> str:
    """Without the widths of columns."""
    return re.sub(r"[ \n]+", " ", text)


@pytest.mark.slow
def test_the_page_works_as_it_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")
    shutil.copytree(places.DOCS / "records", "docs/records")
    for file, content in FILE.findall(PAGE):
        Path(file).write_text(content, encoding="utf-8")
    blocks = SHELL.findall(PAGE)
    assert sum(bool(shown) for *_, shown in blocks) == 5
    for refused, commands, shown in blocks:
        for command in commands.strip().splitlines():
            program, *words = shlex.split(command)
            if program == "python":
                runpy.run_path(words[0], run_name="__main__")
            else:
                assert main(words) == (2 if refused else 0), command
        captured = capsys.readouterr()
        printed = squeezed(captured.err if refused else captured.out)
        for line in shown.strip().splitlines():
            assert squeezed(line) in printed
