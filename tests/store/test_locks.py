"""Who holds a lock, what is left when its holder is killed, and that all locks are in one file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import ablate
from ablate.errors import HeldError, StoreError
from ablate.store import locks
from ablate.store.leftovers import sweep
from ablate.store.locks import holder, locked, locked_folder, signed, unlocked
from tests.support import places

PACKAGE = Path(ablate.__file__).parent
ALL = """
import os, sys, time
from pathlib import Path
from ablate.errors import HeldError
from ablate.store.locks import lock_byte, locked, locked_folder, signed

folder = Path(sys.argv[1])
bytes_ = os.open(folder / "bytes", os.O_RDWR | os.O_CREAT)
driver = signed(folder / "signed", 0, HeldError)
with locked(folder / "file"), locked_folder(folder / "inner"), driver:
    assert lock_byte(bytes_, 2**62)
    print("ready", flush=True)
    time.sleep(600)
"""


def test_the_page_of_locks_names_every_file_that_locks_and_no_other_file_calls_the_system():
    files = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    calling = [path.name for path, text in files.items() if "fcntl" in text]
    assert calling == ["locks.py"]
    for path, text in files.items():
        if "store.locks import" in text or "import lease, locks" in text:
            place = "/".join(path.relative_to(PACKAGE).with_suffix("").parts[:2])
            assert place in str(locks.__doc__), path


def refused(process: locks.Process) -> HeldError:
    return HeldError(f"held by {locks.name(process)}")


@pytest.mark.cluster
def test_a_killed_process_keeps_nobody_out(tmp_path) -> None:
    words = [sys.executable, "-c", ALL, str(tmp_path)]
    other = subprocess.Popen(words, cwd=places.ROOT, stdout=subprocess.PIPE)
    assert other.stdout is not None and other.stdout.readline() == b"ready\n"
    handle = os.open(tmp_path / "bytes", os.O_RDWR)
    message = f"held by process {other.pid} on .+ since ..:..:..$"
    with pytest.raises(HeldError, match=message), signed(tmp_path / "signed", 0, refused):
        pass
    for path in (tmp_path / "file", tmp_path / "signed"):
        with pytest.raises(BlockingIOError), unlocked(path):
            pass
    assert not locks.lock_byte(handle, 2**62) and locks.lock_byte(handle, 1)
    assert (holder(tmp_path / "signed") or "").startswith(f"process {other.pid} on ")
    other.send_signal(signal.SIGKILL)
    other.communicate()
    assert holder(tmp_path / "signed") is None and locks.lock_byte(handle, 2**62)
    os.close(handle)
    mine = signed(tmp_path / "signed", 0, refused)
    with locked(tmp_path / "file"), locked_folder(tmp_path / "inner"), mine:
        assert (holder(tmp_path / "signed") or "").startswith(f"process {os.getpid()} on ")
    assert (tmp_path / "file").exists()


def test_a_file_that_was_never_locked_has_no_holder(tmp_path) -> None:
    assert holder(tmp_path / "nothing") is None
    (tmp_path / "signed").write_text("not JSON")
    with (tmp_path / "signed").open() as file:
        assert locks.lock(file) and holder(tmp_path / "signed") == "another process"
    assert holder(tmp_path / "signed") is None


def test_a_folder_that_cannot_be_made_is_an_error_with_the_way_out(tmp_path) -> None:
    (tmp_path / "file").touch()
    message = f"cannot write {tmp_path / 'file'}: .+ choose another folder with --workspace"
    with pytest.raises(StoreError, match=message), signed(tmp_path / "file" / "a", 0, refused):
        pass


def test_a_lock_file_is_held_by_one_at_a_time_and_is_gone_afterwards(tmp_path) -> None:
    """Though each removes the file that others may be waiting for."""
    inside, most = [0], [0]

    def work() -> None:
        for _ in range(30):
            with locked(tmp_path / "l.lock", remove=True):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                sweep(tmp_path, [tmp_path])
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] and list(tmp_path.iterdir()) == []


def test_a_lock_file_that_is_a_link_is_refused(tmp_path) -> None:
    (tmp_path / "l.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError), locked(tmp_path / "l.lock", remove=True):
        pass
    assert not (tmp_path / "elsewhere").exists()
