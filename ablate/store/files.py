"""Atomic file writes, folders and files of this user alone, and hashes."""

from __future__ import annotations

import errno
import functools
import hashlib
import io
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ablate.errors import StoreError
from ablate.store.locks import lock

PARTIAL = ".partial"
_hashed: dict[str, tuple[list[int], str]] = {}  # by this process: path -> stamp, SHA-256


def cache_folder() -> Path:
    """The user's folder for what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def private_folder(folder: Path) -> Path:
    """Make a folder that only this user can write to. A folder that others own or may write to is
    an error: they could have put anything there."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not is_ours(folder, stat.S_IFDIR):
        raise StoreError(
            f"{folder} is not a folder that only you can write to, so nothing in it is used. If it "
            f"is yours, remove what others put there, then: chmod 700 {folder}"
        )
    return folder


def own_temporary() -> Path:
    """This user's own folder for temporary files."""
    return private_folder(Path(tempfile.gettempdir()) / f"ablate-{os.getuid()}")


def is_ours(path: Path, kind: int = stat.S_IFREG) -> bool:
    """Return whether a file of this kind, which is no link, can be written by this user alone."""
    info = path.lstat()
    written_by_others = stat.S_IMODE(info.st_mode) & 0o022
    return (
        stat.S_IFMT(info.st_mode) == kind and info.st_uid == os.getuid() and not written_by_others
    )


def allow_group() -> None:
    """Let this user's group read what the process writes from now on, if
    ABLATE_GROUP_READABLE=on."""
    if _is_shared():
        os.umask(os.umask(0o077) & ~0o050)


def _is_shared() -> bool:
    return os.environ.get("ABLATE_GROUP_READABLE") == "on"


def write_whole(path: Path, *parts: bytes | memoryview) -> None:
    """Write, sync, rename: readers see the old file or the new one, even after a crash."""
    with partial_file(path, mode=0o600) as file:
        if _is_shared():
            os.fchmod(file.fileno(), 0o640)
        file.writelines(parts)
        file.close()
        replace_synced(Path(file.name), path)


@contextmanager
def partial_file(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A new file next to `path`, to be moved there once it is whole, and deleted otherwise."""
    partial = path.with_name(f"tmp{secrets.token_hex(4)}{PARTIAL}")
    with open(partial, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        try:
            lock(file, seconds=0)  # while its writer lives, nobody sweeps it
            yield file
        finally:
            partial.unlink(missing_ok=True)


def replace_synced(partial: Path, path: Path) -> None:
    """Move a finished file to its final path, durably."""
    sync(partial)
    os.replace(partial, path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Make what a file holds, or a rename in a folder, survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class NoFile(OSError):
    """What never ends is in a file's place."""


def read_regular(path: Path | str) -> bytes:
    """Return what is in a file. A file that never ends, such as a pipe, is an error."""
    with _opened(path) as file:
        return file.readall()


def _opened(path: Path | str) -> io.FileIO:
    file = open(path, "rb", buffering=0, opener=_without_waiting)  # noqa: SIM115 the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise NoFile(errno.EINVAL, "it is a pipe or a device, and no regular file", str(path))
    return file


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe without a writer would never open


@functools.cache
def cpuinfo() -> str:
    """What Linux says of this machine's processors; empty on other systems."""
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""


def stamp(path: Path) -> list[int]:
    """Return size, times and inode, at least one of which changes with any usual modification."""
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def sha256(path: Path) -> str:
    """Return a file's hash in hexadecimal."""
    now = stamp(path)
    with _opened(path) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    _hashed[str(path)] = now, digest
    return digest


def sha256_once(path: Path) -> str:
    """Return a file's hash, which this process computes once unless the file is changed.

    What was hashed before this process started says nothing: a disk can change a file and keep its
    times. Hashing reads 1.3 GB a second.
    """
    known = _hashed.get(str(path))
    return known[1] if known and known[0] == stamp(path) else sha256(path)
