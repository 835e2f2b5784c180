"""What of the user's files travels to workers, and what never does."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablate.errors import StoreError, StudyError
from ablate.lm.data.corpus import corpus_digest, open_corpus
from ablate.store.store import Store
from ablate.trial import travel
from ablate.tune.cluster import parcel


def _write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# {name}")


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_code_travels_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, out = tmp_path / "mine", tmp_path / "out"
    travels = {"study.py", "runner.py", "rates.toml", "package/__init__.py", "package/a.py"}
    stays = {".env.py", ".ssh/key.py", "notes.txt", "data/a.py", "package/.secret/__init__.py"}
    _write(mine, *travels, *stays)
    _write(tmp_path, "elsewhere/words.py")
    (mine / "linked.py").symlink_to(tmp_path / "elsewhere" / "words.py")
    inside, outside = str(mine / "runner.py"), str(tmp_path / "elsewhere" / "words.py")
    placed = parcel.pack(str(mine / "study.py"), (inside, outside), out)
    assert placed[inside] == "runner.py"
    assert _names(out) == travels | {placed[outside]}
    monkeypatch.chdir(out)
    there = parcel.unpacked(placed)
    assert Path(there[outside]).read_text() == "# elsewhere/words.py"


def test_without_a_study_file_only_the_techniques_travel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from Python: the working directory is nobody's study."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "mine.py").write_text("1")
    technique = tmp_path / "own.py"
    technique.write_text("2")
    monkeypatch.chdir(tmp_path / "here")
    (name,) = parcel.pack("", [str(technique)], tmp_path / "parcel").values()
    sent = [path for path in (tmp_path / "parcel").rglob("*") if path.is_file()]
    assert sent == [tmp_path / "parcel" / name] and sent[0].read_text() == "2"


def test_the_same_code_is_the_same_parcel(tmp_path: Path) -> None:
    """Ray names a parcel by what is in it: workers that have it need not fetch it again."""
    _write(tmp_path / "mine", "study.py")
    times = set()
    for name in ("one", "two"):
        parcel.pack(str(tmp_path / "mine" / "study.py"), (), tmp_path / name)
        times.add((tmp_path / name / "study.py").stat().st_mtime)
    assert len(times) == 1


def test_as_many_files_as_the_message_says_may_travel(tmp_path: Path, monkeypatch) -> None:
    _write(tmp_path / "mine", "a.py")
    study = tmp_path / "mine" / "a.py"
    found = [study] * 2000
    monkeypatch.setattr(parcel, "_files", lambda folder: iter(found))
    monkeypatch.setattr(parcel, "_put", lambda file, target: None)
    parcel.pack(str(study), (), tmp_path / "all")
    found.append(study)
    with pytest.raises(StudyError, match="has more than 2000 files or 20 MB of Python"):
        parcel.pack(str(study), (), tmp_path / "out")


def test_too_many_bytes_to_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path / "mine", "a.py", "b.py")
    total = sum(path.stat().st_size for path in (tmp_path / "mine").iterdir())
    monkeypatch.setattr(parcel, "MOST_BYTES", total)
    parcel.pack(str(tmp_path / "mine" / "a.py"), (), tmp_path / "all")
    monkeypatch.setattr(parcel, "MOST_BYTES", total - 1)
    with pytest.raises(StudyError, match="into a separate folder"):
        parcel.pack(str(tmp_path / "mine" / "a.py"), (), tmp_path / "out")


def test_a_package_in_a_package_travels(tmp_path: Path) -> None:
    names = {"study.py", "Lib/__init__.py", "Lib/Deep/__init__.py"}  # the deep one comes first
    _write(tmp_path / "mine", *names)
    parcel.pack(str(tmp_path / "mine" / "study.py"), (), tmp_path / "out")
    assert _names(tmp_path / "out") == names


def test_a_corpus_reaches_a_host_that_lacks_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ablate.lm.sections import CorpusConfig

    text, store = tmp_path / "text", Store(str(tmp_path / "store"))
    _write(text, "train.txt", "valid.txt", "test.txt")
    config = CorpusConfig(name=f"folder:{text}")
    sent = travel.send(config, str(tmp_path / "drivers"), store)
    digest = corpus_digest(config, tmp_path / "drivers")
    for name in ("train.txt", "valid.txt", "test.txt"):
        (text / name).unlink()
    monkeypatch.setenv("ABLATE_WORKSPACE", str(tmp_path / "host"))
    folder = travel.receive(sent, store)
    assert Path(folder).is_relative_to(tmp_path / "host" / "data")
    corpus = open_corpus(config, folder)
    assert corpus.digest == digest and corpus.encoding.is_relative_to(tmp_path / "host")
    store.delete("corpora")  # fetched once a host
    assert travel.receive(sent, store) == folder


def test_a_corpus_damaged_on_the_way_is_not_used(
    tmp_path: Path, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ablate.lm.data import encoded
    from ablate.lm.sections import CorpusConfig

    store = Store(str(tmp_path / "store"))
    sent = travel.send(CorpusConfig(), data, store)
    key = travel._key(sent["key"], encoded.TOKENS)
    stored = store.read(key)
    assert stored is not None
    store.write(key, stored[:-100] + bytes(100))
    monkeypatch.setenv("ABLATE_WORKSPACE", str(tmp_path / "host"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))  # or what lies there is used
    monkeypatch.setattr(travel, "MEMORY", tmp_path / "memory")
    with pytest.raises(
        StoreError, match=rf"corpora/{sent['key']} .* is damaged .*Delete that folder"
    ):
        travel.receive(sent, store)
    assert not list((tmp_path / "host" / "data").rglob("tokens*"))
    store.delete(f"corpora/{sent['key']}")
    assert travel.send(CorpusConfig(), data, store) == sent
    assert list((Path(travel.receive(sent, store))).rglob("tokens.arrow"))
