"""The store: whole files by key, in a folder or on any filesystem that pyarrow opens by URI."""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from ablate.errors import StoreError
from ablate.store.store import Store
from ablate.store.workspace import open_workspace

BYTES = b"\x00\xff" * 1000


@pytest.fixture(params=["folder", "file://", "local://", "fsspec+file://"])
def store(request, tmp_path: Path) -> Store:
    """`local://` and what fsspec opens are not treated as folders: pyarrow opens them."""
    if request.param.startswith("fsspec"):
        pytest.importorskip("fsspec")
    place = tmp_path / "a store"
    if request.param == "local://":
        place = tmp_path / "store"  # Arrow takes no space in its URIs
    return Store(str(place) if request.param == "folder" else f"{request.param}{place}")


@pytest.mark.parametrize(("setting", "bits"), [("", 0), ("on", 0o040)])
def test_a_setting_lets_the_group_read(
    setting: str, bits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Whatever the umask: in folders, in what is written whole, and in databases."""
    monkeypatch.setenv("ABLATE_GROUP_READABLE", setting)
    before = os.umask(0o077)
    try:
        workspace = open_workspace(str(tmp_path / "shared"))
        workspace.store.write("trials/x/journal.json", b"{}")
        (workspace.folder / "mlflow.db").touch()
    finally:
        os.umask(before)
    modes = [path.stat().st_mode & 0o777 for path in workspace.folder.rglob("*")]
    assert len(modes) == 5 and {mode & 0o040 for mode in modes} == {bits}
    assert {mode & 0o027 for mode in modes} == {0}


def test_what_is_written_is_read(store: Store):
    store.write("trials/x/weights", BYTES)
    assert store.read("trials/x/weights") == BYTES
    assert store.exists("trials/x/weights") and store.exists("trials/x")
    store.write("trials/x/weights", b"")
    assert store.read("trials/x/weights") == b""


def test_a_missing_key_is_none(store: Store):
    assert store.read("trials/x") is None and store.read_json("trials/x") is None
    assert not store.exists("trials/x") and store.names("trials") == []
    store.delete("trials/x")
    store.write("file", b"")
    assert store.read("file/below") is None


def test_plain_data_comes_back(store: Store):
    data = {"list": [1, 2.5, None, True], "text": "Grüße\n", "nested": {"b": 1, "a": 2}}
    store.write_json("plain.json", data)
    assert store.read_json("plain.json") == data


def test_names_are_those_directly_below(store: Store):
    for key in ("trials/b/journal", "trials/a/journal", "trials/a/tokens/valid", "studies/s"):
        store.write(key, b"")
    assert store.names("trials") == ["a", "b"]
    assert store.names("trials/a") == ["journal", "tokens"]


def test_files_and_folders_are_deleted(store: Store):
    for key in ("trials/a/journal", "trials/a/tokens/valid", "trials/b/journal"):
        store.write(key, b"")
    store.delete("trials/b/journal")
    assert not store.exists("trials/b/journal") and store.exists("trials/a/journal")
    store.delete("trials/a")
    assert store.names("trials") == ["b"]


def test_it_is_opened_again_by_its_uri(store: Store):
    store.write("key", BYTES)
    assert Store(store.uri).read("key") == BYTES
    assert pickle.loads(pickle.dumps(store)).read("key") == BYTES


@pytest.mark.parametrize("key", ["../x", "/etc/x", "a/../../x", "a\\b", ".."])
def test_no_key_leaves_the_store(store: Store, key: str):
    for call in (store.read, store.exists, store.names, store.delete):
        with pytest.raises(StoreError, match="is not a path inside the store"):
            call(key)
    with pytest.raises(StoreError, match="is not a path inside the store"):
        store.write(key, b"")


def test_a_failed_write_is_reported(store: Store):
    store.write("taken", b"a file")
    for call in (store.write, lambda key, data: store.write_json(key, {})):
        with pytest.raises(StoreError, match=r"cannot write taken/x to|in the store .*--workspace"):
            call("taken/x", b"")
    assert store.read("taken") == b"a file"


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "journal.json")
    with pytest.raises(StoreError, match=r"journal\.json .* is damaged \(it is a pipe or a device"):
        Store(str(tmp_path)).read("journal.json")


def test_an_error_of_arrow_s_filesystem_is_reported(tmp_path: Path, monkeypatch):
    """Azure's, where no login is set, is neither an OSError nor short."""
    store = Store(f"local://{tmp_path}")

    def refused(selector):
        raise pa.ArrowException("Unknown error: no token.\nSee the logger")

    monkeypatch.setattr(store, "_remote", SimpleNamespace(get_file_info=refused))
    with pytest.raises(StoreError, match=r"cannot list studies .*: Unknown error: no token\. See"):
        store.names("studies")


def test_an_unknown_uri_is_reported():
    with pytest.raises(StoreError, match="cannot open the store nosuch://bucket/x: "):
        Store("nosuch://bucket/x")


WRITER = """
import sys
from ablate.store.store import Store

store, number = Store(sys.argv[1]), 0
while True:
    number += 1
    store.write("trials/file", str(number).encode() * 1_000_000)
    print(number, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("uri", ["", "local://"])
def test_a_killed_writer_leaves_the_old_or_the_new(tmp_path: Path, uri: str):
    rng, store = random.Random(1), Store(f"{uri}{tmp_path}")
    for _ in range(2):
        command = [sys.executable, "-c", WRITER, store.uri]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(rng.uniform(0, 0.05))
        process.kill()
        output = process.communicate()[0].split()
        last = int(output[-1]) if output else 1
        found = store.read("trials/file")
        assert found in [str(number).encode() * 1_000_000 for number in (last, last + 1)]
        assert store.names("trials") == ["file"]
    store.sweep("trials")
    assert os.listdir(tmp_path / "trials") == ["file"]


def test_a_writer_whose_file_is_swept_away_writes_it_again(tmp_path: Path, monkeypatch):
    store, replace = Store(str(tmp_path)), os.replace

    def swept(partial: str, place: Path) -> None:
        monkeypatch.setattr(os, "replace", replace)
        store.sweep("trials/x")
        replace(partial, place)

    monkeypatch.setattr(os, "replace", swept)
    store.write("trials/x/journal.json", BYTES)
    assert store.read("trials/x/journal.json") == BYTES
