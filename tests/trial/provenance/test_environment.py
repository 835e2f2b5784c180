"""What a trial ran on, without secrets."""

from __future__ import annotations

import json
import os
import subprocess

from ablate.config.plugins import Plugin
from ablate.trial.provenance import environment as environments
from ablate.trial.provenance.environment import environment, git_state, kernels, processor


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


EPYC = """processor : 0
model name : AMD EPYC
cpu family : {}
model : {}
flags : fpu fma avx2 avx512f avx512_bf16 {}
"""


def test_two_processors_of_one_name_are_told_apart(monkeypatch) -> None:
    monkeypatch.setattr(environments, "_processor", lambda: "AMD EPYC")
    told = []
    for of in ((25, 17, ""), (26, 2, ""), (25, 17, "amx_bf16")):
        monkeypatch.setattr(environments, "cpuinfo", lambda of=of: EPYC.format(*of))
        told.append(processor())
    assert told[0] == "AMD EPYC, family 25, model 17; avx2 avx512_bf16 avx512f fma"
    assert len({*told}) == 3


def test_the_digest_of_the_kernels_is_that_of_their_sources(tmp_path, monkeypatch) -> None:
    assert kernels() == kernels() == environment()["kernels"]
    (tmp_path / "brings_kernels").mkdir()
    source = tmp_path / "brings_kernels" / "product.h"
    source.with_name("__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    plugin = Plugin(package="brings_kernels", native=("*.h",))
    monkeypatch.setattr(environments, "plugins", lambda: (plugin,))
    digests = []
    for text in ("1", "2"):
        source.write_text(text)
        digests.append(kernels())
    assert digests[0] != digests[1]
