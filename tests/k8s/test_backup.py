"""The backup's script: whole dumps or none, and the last seven."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path

from tests.support.manifests import TREE


def backed_up(folder: Path, dump: str) -> subprocess.CompletedProcess[str]:
    """Run the script where `pg_dumpall` is a program of ours."""
    programs = folder.parent / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "pg_dumpall").write_text(f"#!/bin/sh\n{dump}\n")
    (programs / "pg_dumpall").chmod(0o755)
    return subprocess.run(
        ["bash", str(TREE / "base" / "records" / "postgres" / "backup.sh"), str(folder)],
        capture_output=True,
        text=True,
        env={"PATH": f"{programs}:/usr/bin:/bin"},
        check=False,
    )


def test_the_last_seven_dumps_stay(tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    for day in range(10, 19):
        (folder / f"ablate-202601{day}T021700Z.sql.gz").write_bytes(b"old")
    (folder / "ablate-20260101T000000Z.sql.gz.partial").write_bytes(b"of a job that was killed")
    (folder / "notes.txt").write_text("not ours")
    done = backed_up(folder, "echo SELECT 1")
    assert done.returncode == 0, done.stderr
    *kept, new, other = sorted(path.name for path in folder.iterdir())
    assert kept == [f"ablate-202601{day}T021700Z.sql.gz" for day in range(13, 19)]
    assert gzip.decompress((folder / new).read_bytes()) == b"SELECT 1\n" and other == "notes.txt"


def test_a_dump_that_fails_leaves_those_before_and_no_file_with_a_name(tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    before = [f"ablate-202601{day}T021700Z.sql.gz" for day in range(10, 18)]
    for name in before:
        (folder / name).write_bytes(b"old")
    assert backed_up(folder, "echo half; exit 1").returncode != 0
    assert sorted(p.name for p in folder.iterdir() if not p.name.endswith(".partial")) == before
