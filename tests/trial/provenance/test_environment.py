"""What a trial ran on, without secrets."""

from __future__ import annotations

import json
import os
import subprocess

from ablate.trial.provenance.environment import environment, git_state


def test_it_is_plain_and_holds_no_secret(monkeypatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    recorded = environment()
    text = json.dumps(recorded)
    assert "hunter2" not in text
    assert os.environ["PATH"] not in text
    assert {"host", "platform", "python", "hardware", "versions", "git"} <= set(recorded)
    assert {"numpy", "pyarrow"} <= set(recorded["versions"])


def test_the_state_of_a_checkout(tmp_path) -> None:
    assert git_state(tmp_path) is None
    assert git_state(tmp_path / "missing") is None
    author = ["-c", "user.name=n", "-c", "user.email=e@e"]

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(tmp_path), *author, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-qm", "one")
    commit = git("rev-parse", "HEAD")
    assert git_state(tmp_path) == {"commit": commit, "dirty": False}
    (tmp_path / "untracked").write_text("1")
    assert git_state(tmp_path) == {"commit": commit, "dirty": False}
    (tmp_path / "file").write_text("2")
    assert git_state(tmp_path) == {"commit": commit, "dirty": True}
