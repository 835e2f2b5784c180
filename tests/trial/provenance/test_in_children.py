"""Files that a command's processes open are noted, and no process is disturbed by it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ablate.trial.provenance import opened as module
from ablate.trial.provenance.opened import EDITED, Opened, digest_of

READ = "open('data.csv').read()"


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "data.csv").write_text("1")
    (tmp_path / "work.py").write_text(READ)
    return tmp_path


def run(folder: Path, *command: str) -> tuple[dict[str, str], str]:
    """The files that a command has read, and what it printed."""
    opened = Opened([folder], [])
    with opened.listening():
        environment = {**os.environ, **module.of_children()}
        printed = subprocess.run(
            command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
        )
    return opened.digests()[1], printed.stdout


def python(folder: Path, code: str) -> tuple[dict[str, str], str]:
    return run(folder, sys.executable, "-c", code)


OTHERS = {
    "a shell": ["sh", "-c", f"{sys.executable} work.py; true"],
    "a process of a process": [
        sys.executable,
        "-c",
        "import subprocess, sys; subprocess.run([sys.executable, 'work.py'])",
    ],
    "a fork": [
        sys.executable,
        "-c",
        f"import os\nif os.fork():\n os.wait()\nelse:\n {READ}\n os._exit(0)",
    ],
}


@pytest.mark.parametrize("command", OTHERS.values(), ids=OTHERS)
def test_what_any_python_of_a_command_reads_is_noted(folder, command) -> None:
    assert run(folder, *command)[0] == {"data.csv": digest_of(folder / "data.csv")}


def test_what_a_fork_of_this_process_reads_is_noted(folder) -> None:
    opened = Opened([folder], [])
    with opened.listening():
        child = os.fork()
        if not child:
            (folder / "data.csv").read_text()
            os._exit(0)
        os.waitpid(child, 0)
    assert {*opened.digests()[1]} == {"data.csv"}
    later = Opened([folder], [])
    with later.listening():
        pass
    assert later.digests() == ({}, {}), "what another process has read is not in memory"


OUTPUTS = {
    "opened to be written": "open('out', 'w').write('1'); open('out').read()",
    "written by another program": "import os; os.system('echo 1 > out'); open('out').read()",
    "replaced": "import os\nopen('data.csv').read()\nopen('new', 'w').write('2')\n"
    "os.replace('new', 'data.csv')",
}


@pytest.mark.parametrize("code", OUTPUTS.values(), ids=OUTPUTS)
def test_what_a_command_writes_is_no_input(folder, code) -> None:
    assert python(folder, code)[0] == {}


def test_what_is_edited_after_it_was_read_has_no_digest(folder) -> None:
    code = f"{READ}; import os; os.system('echo 2 > data.csv')"
    assert python(folder, code)[0] == {"data.csv": EDITED}


def test_the_users_own_sitecustomize_runs_and_theirs_alone_is_found(folder, monkeypatch) -> None:
    own = folder / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys\nsys.custom = 'mine'\n")
    code = f"import sys, sitecustomize; print(sys.custom, sitecustomize.__file__); {READ}"
    monkeypatch.setenv("PYTHONPATH", str(own))
    read, printed = python(folder, code)
    assert "data.csv" in read and printed.split() == ["mine", str(own / "sitecustomize.py")]


def test_a_hook_that_cannot_write_says_nothing(folder, monkeypatch) -> None:
    environment = {**Opened([folder], []).notes.environment(), "ABLATE_NOTES": f"/none\n{folder}/"}
    monkeypatch.setattr(module, "of_children", lambda: environment)
    assert python(folder, f"{READ}; print('done')") == ({}, "done\n")
