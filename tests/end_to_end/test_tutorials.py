"""The tutorials as their readers follow them: files are saved, commands run, and pictures drawn.

Studies have two seeds here, or one where no picture is drawn, and arms are searched once; the
reader trains three to five seeds, and searches three times.
`ABLATE_REGENERATE=1 .venv/bin/pytest tests/end_to_end/test_tutorials.py` draws docs/pictures.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Warm
from tests.support import places

REGENERATE = bool(os.environ.get("ABLATE_REGENERATE"))
TUTORIALS = places.DOCS / "tutorials"
FILE = re.compile(r"```\w+\n# file: (\S+)\n(.*?)```", re.DOTALL)
SHELL = re.compile(
    r"(?:<!-- in a second terminal, until: ([^>]*) -->\n)?```sh\n(.*?)```", re.DOTALL
)
PICTURE = re.compile(r"\]\(\.\./pictures/(\w+)_([a-z]+)\.svg\)")
STARTED_IN_S = 120
PAGES = [
    "language_model",
    "your_training",
    "trainers",
    "torchrun",
    "technique",
    "your_text",
    "llama",
    pytest.param("cluster", marks=pytest.mark.cluster),
]


def environment() -> dict[str, str]:
    """What a reader has: the programs of this Python's folder, and no workspace or server set."""
    ours = ("ABLATE_", "MLFLOW_", "RAY_")
    others = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**others, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def run(block: str, folder: Path, warm: Warm) -> None:
    """Run a block's lines; those of ablate in forks of a process that has imported what is slow."""
    for line in block.replace("\\\n", " ").splitlines():
        program, *words = shlex.split(line, comments=True) or [""]
        if program == "ablate":
            ended = warm.start(words, folder).ended()
            assert ended.status == 0, f"{line}\n{ended.out}\n{ended.err}"
        elif program:
            run_in_a_shell(line, folder)


def run_in_a_shell(command: str, folder: Path) -> None:
    done = subprocess.run(
        ["bash", "-ec", command],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"


@contextmanager
def in_a_second_terminal(command: str, until: str, folder: Path) -> Iterator[None]:
    """Run a command that goes on until Ctrl-C, and wait until it says that it has started."""
    log = folder / "second_terminal.log"
    with log.open("w") as output:
        started = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=folder,
            env=environment(),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        limit = time.monotonic() + STARTED_IN_S
        while until not in log.read_text():
            assert started.poll() is None and time.monotonic() < limit, log.read_text()
            time.sleep(0.2)
        yield
    finally:
        # Not Ctrl-C's signal, which whatever a shell's background job starts ignores; and to the
        # command alone, which ends its children itself.
        started.terminate()
        try:
            started.wait(30)
        finally:
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)
                started.wait()


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_tutorial_works_as_it_is_printed(name, tmp_path, warm, database):
    (tmp_path / ".ablate").mkdir()
    shutil.copy(database, tmp_path / ".ablate" / "mlflow.db")  # creating one takes a second
    page = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
    others = [
        f"{TUTORIALS / link}" for link in re.findall(r"the `\S+` of \[[^]]*\]\((\w+\.md)\)", page)
    ]
    pictures = PICTURE.findall(page)
    seeds = rf"\g<1>{2 if pictures else 1}"
    for text in (*(Path(other).read_text(encoding="utf-8") for other in others), page):
        for file, content in FILE.findall(text):
            if not REGENERATE:
                content = re.sub(r"\brepeats=\d+", "repeats=1", content)
                content = re.sub(r"(\bseeds=)\d+", seeds, content)
            (tmp_path / file).write_text(content, encoding="utf-8")
    with ExitStack() as open_terminals:
        for until, command in SHELL.findall(page):
            if until:
                terminal = in_a_second_terminal(command.strip(), until, tmp_path)
                open_terminals.enter_context(terminal)
            else:
                run(re.sub(r"(--seeds )\d+", seeds, command), tmp_path, warm)
    assert len(pictures) == (name not in ("your_text", "llama", "trainers", "torchrun"))
    for study, plot in pictures:
        drawn, committed = (
            tmp_path / "pictures" / f"{plot}.svg",
            places.DOCS / "pictures" / f"{study}_{plot}.svg",
        )
        assert drawn.stat().st_size > 1000
        if REGENERATE:
            shutil.copy(drawn, committed)
        assert committed.exists()


def test_every_tutorial_is_run():
    named = {getattr(page, "values", [page])[0] for page in PAGES}
    assert named == {page.stem for page in TUTORIALS.glob("*.md")}
