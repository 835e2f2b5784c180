"""Checksums: what is written is read; any other bit, name, order or length is noticed."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from ablate.errors import DamagedError
from ablate.store import checksum, sentences, tokens
from ablate.store.store import Store
from ablate.trial import checkpoint

FILES = {
    "trials/t1/journal.json": lambda store, key: store.write_json(key, {"a": [1, 2.5], "b": "é"}),
    "trials/t1/weights.safetensors": lambda store, key: checkpoint.write(
        store, key, {"w": torch.arange(6.0)}, {"n": 1}
    ),
    "trials/t1/tokens/valid.arrow": lambda store, key: tokens.write(
        store, "t1", "valid", np.linspace(-3, -1, 9)
    ),
    "trials/t1/sentences/test.arrow": lambda store, key: sentences.write(
        store, "t1", "test", ["Zwei Männer.", ""]
    ),
}


@pytest.fixture(params=["folder", "local://"])
def store(request, tmp_path) -> Store:
    return Store(str(tmp_path) if request.param == "folder" else f"local://{tmp_path}")


@pytest.mark.parametrize("key", FILES)
def test_every_flipped_bit_is_noticed(tmp_path, key):
    """A flip in the mark may leave a file without a checksum, whose data are whole."""
    store, path = Store(str(tmp_path)), tmp_path / key
    FILES[key](store, key)
    data = store.read(key)
    mark = data.index(checksum.MARK.encode())
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        if mark <= at < mark + len(checksum.MARK):
            continue
        with pytest.raises(DamagedError, match=r"is damaged \(its checksum does not match"):
            store.read(key)


@pytest.mark.parametrize("key", FILES)
def test_a_file_in_another_ones_place_is_noticed(store, key):
    FILES[key](store, key)
    data = store.read(key)
    other = key.replace("t1", "t2")
    store._write(other, data)  # as a copy does: the checksum stays that of the first place
    with pytest.raises(DamagedError, match="trials/t2"):
        store.read(other)


def test_files_of_older_versions_are_read_unchecked(tmp_path):
    store = Store(str(tmp_path))
    (tmp_path / "trials").mkdir()
    (tmp_path / "trials" / "journal.json").write_text('{"a": 1}')
    (tmp_path / "trials" / "readings.json").write_text('[{"by": "me"}]')
    assert store.read_json("trials/journal.json") == {"a": 1}
    assert store.read_json("trials/readings.json", bare="list") == {"list": [{"by": "me"}]}


@pytest.mark.parametrize("data", [b"[]", b"7", b"null", b'"text"', b"[" * 99_999, b"\xff"])
def test_json_that_is_no_object_is_damaged(tmp_path, data):
    store = Store(str(tmp_path))
    (tmp_path / "trials").mkdir()
    (tmp_path / "trials" / "x.json").write_bytes(data)
    with pytest.raises(DamagedError, match=r"trials/x\.json in the store .* is damaged"):
        store.read_json("trials/x.json")


def test_other_programs_read_the_files(tmp_path):
    store = Store(str(tmp_path))
    for key, write in FILES.items():
        write(store, key)
    plain = json.loads((tmp_path / "trials/t1/journal.json").read_text())
    assert plain["a"] == [1, 2.5] and plain["checksum"].startswith(checksum.MARK)
    assert load_file(tmp_path / "trials/t1/weights.safetensors")["w"].tolist() == list(range(6))


def test_the_same_data_is_written_as_the_same_bytes_again(store):
    """`ablate trial rerun` copies whole files into another store."""
    key = "trials/t1/journal.json"
    FILES[key](store, key)
    data = store.read(key)
    store.write(key, data)
    assert store.read(key) == data


def test_lines_that_are_missing_moved_or_doubled_are_noticed():
    written, total = [], checksum.start_of("log")
    for number in range(4):
        text = json.dumps({"checksum": checksum.BLANK, "number": number})
        line, total = checksum.next_line(f"{text}\n".encode(), total)
        written.append(line)

    def check(*numbers: int) -> None:
        total = checksum.start_of("log")
        for number in numbers:
            total = checksum.check_line(written[number], total)

    check(0, 1, 2, 3)
    check(0, 1)  # as after a crash
    for wrong in ((1, 2, 3), (0, 2, 3), (0, 1, 1, 2), (0, 2, 1, 3)):
        with pytest.raises(checksum.Mismatch):
            check(*wrong)


CLAIM = "ablate-crc32:12345678"  # a name that somebody gives


@pytest.mark.parametrize("key", [key for key in FILES if "tokens" not in key])
def test_a_name_that_looks_like_a_checksum_is_a_name(tmp_path, key):
    """It was called damage, or its digits were replaced."""
    store = Store(str(tmp_path))
    writers = {
        "json": lambda: store.write_json(key, {"arms": [{"checksum": CLAIM}], "a": CLAIM}),
        "safetensors": lambda: checkpoint.write(store, key, {CLAIM: torch.ones(2)}, {"n": CLAIM}),
        "arrow": lambda: sentences.write(store, "t1", "test", [CLAIM, f'"checksum": "{CLAIM}"']),
    }
    writers[key.rpartition(".")[2]]()
    data = store.read(key)
    assert data.count(CLAIM.encode()) >= 1
    (tmp_path / key).write_bytes(data.replace(CLAIM.encode(), CLAIM.encode()[:-1] + b"9"))
    with pytest.raises(DamagedError):
        store.read(key)


def test_a_log_s_choices_may_look_like_a_checksum():
    text = json.dumps({"checksum": checksum.BLANK, "choice": CLAIM}, separators=(",", ":"))
    line, total = checksum.next_line(f"{text}\n".encode(), 7)
    assert json.loads(line)["choice"] == CLAIM and checksum.check_line(line, 7) == total


@pytest.mark.parametrize("data", [CLAIM.encode(), f'{{"checksum": "{CLAIM}"}}'.encode()])
def test_a_copy_is_the_same_bytes_whatever_is_in_it(store, data):
    """Texts and files of the user's travel through the store."""
    store.write_as_is("files/x/one.json", data)
    assert store.read_as_is("files/x/one.json") == data
    assert store.read_as_is("files/x/two.json") is None
