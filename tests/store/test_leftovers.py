"""What a killed process leaves is removed at the next start; what a living one has stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ablate.store import files, leftovers
from ablate.store.files import partial_file, write_whole
from ablate.store.leftovers import owned_folder, sweep, sweep_partial
from ablate.store.locks import lock
from tests.support import places

OWNER = """
import sys, time
from pathlib import Path
from ablate.store.leftovers import owned_folder
from ablate.store.locks import locked

folder = Path(sys.argv[1])
with owned_folder("ablate-ray-", folder), owned_folder("tune-", folder / "ray"):
    with locked(folder / f"ablate-{sys.argv[2]}" / "server-x.lock", remove=True):
        print("ready", flush=True)
        time.sleep(600)
"""


def there(folder: Path) -> list[str]:
    """What has a dash in its name, except this user's own folder, which stays."""
    paths = (path for path in folder.rglob("*-*") if path.name != f"ablate-{os.getuid()}")
    return sorted(path.name.split("-")[0] for path in paths)


def test_what_a_driver_leaves_is_removed_once_it_is_dead(tmp_path) -> None:
    (tmp_path / "ray").mkdir()
    words = [sys.executable, "-c", OWNER, str(tmp_path), str(os.getuid())]
    owner = subprocess.Popen(words, cwd=places.ROOT, stdout=subprocess.PIPE)
    assert owner.stdout is not None and owner.stdout.readline() == b"ready\n"
    sweep(tmp_path, [tmp_path])
    assert there(tmp_path) == ["ablate", "server", "tune"]
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    sweep(tmp_path, [tmp_path])
    assert there(tmp_path) == []


def test_folders_without_an_owners_mark_are_left_alone(tmp_path) -> None:
    (tmp_path / "ablate-something").mkdir()
    sweep(tmp_path, [tmp_path])
    assert (tmp_path / "ablate-something").is_dir()


def test_an_error_inside_comes_out_and_the_folder_goes(tmp_path) -> None:
    with pytest.raises(FileNotFoundError), owned_folder("a-", tmp_path) as folder:
        assert folder.is_dir()
        raise FileNotFoundError
    assert list(tmp_path.iterdir()) == []


def test_partial_files_are_removed_unless_somebody_writes_them(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(leftovers, "YOUNG_SECONDS", -1.0)
    dead = subprocess.Popen(["true"])
    dead.wait()
    (tmp_path / "abandoned.partial").touch()
    (tmp_path / f"mlflow.db.{dead.pid}.partial").touch()
    (tmp_path / f"text.{os.getpid()}.partial").touch()
    with (tmp_path / "written.partial").open("w") as file:
        lock(file)
        sweep_partial(tmp_path.glob("*.partial"))
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [f"text.{os.getpid()}.partial", "written.partial"]


def test_a_partial_file_that_is_young_may_not_be_locked_yet(tmp_path) -> None:
    (tmp_path / "new.partial").touch()
    sweep_partial(tmp_path.glob("*.partial"))
    assert (tmp_path / "new.partial").exists()


def test_a_file_that_is_being_written_is_locked(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(leftovers, "YOUNG_SECONDS", -1.0)
    with partial_file(tmp_path / "a") as file:
        file.write(b"data")
        sweep_partial(tmp_path.glob("*.partial"))
        assert [str(path) for path in tmp_path.iterdir()] == [file.name]
    assert not list(tmp_path.iterdir())  # nobody moved it


def test_a_whole_file_is_written_to_a_partial_one(tmp_path, monkeypatch) -> None:
    seen, real = [], files.replace_synced

    def noted(partial, path):
        seen.append((partial.suffix, partial.read_bytes(), path.exists()))
        real(partial, path)

    monkeypatch.setattr(files, "replace_synced", noted)
    write_whole(tmp_path / "a", b"da", b"ta")
    assert seen == [(".partial", b"data", False)]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
