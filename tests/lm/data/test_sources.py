import gzip
import http.server
import io
import shutil
import threading
import time
import zipfile
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest
from pyarrow import parquet

from ablate.errors import CorpusError
from ablate.lm.data import sources
from ablate.lm.data.corpus import corpus_digest, open_corpus
from ablate.lm.data.published import PUBLISHED, PUBLISHED_PAIRS, SPLITS, Published
from ablate.lm.data.texts import BUILT_IN, find_text
from ablate.lm.sections import CorpusConfig, PairsConfig
from ablate.store import files


def names_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


TINY_FILES = [f"tiny/tiny.{split}.txt" for split in sorted(SPLITS)]


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves `directory`; the first part of a path says what goes wrong."""

    def do_GET(self):
        way, _, name = self.path.removeprefix("/").partition("/")
        self.path = "/" + name.replace("tiny.", "")
        getattr(self, f"answer_{way}")()

    def answer_well(self):
        super().do_GET()

    def answer_wrongly(self):
        body = b"<html>please log in</html>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer_partly(self):
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        self.wfile.write(b"the first part")

    def answer_never(self):
        time.sleep(0.6)

    def log_message(self, format, *args):
        pass


@pytest.fixture
def serve(own, tiny, monkeypatch):
    """Make the corpus `tiny` come from a server of our own that answers so."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    def handler(*args):
        return Handler(*args, directory=str(own))

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = False
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()

        def answer(way):
            home = f"http://127.0.0.1:{server.server_port}/{way}"
            monkeypatch.setitem(PUBLISHED, "tiny", replace(tiny, home=home))

        yield answer
        server.shutdown()


def test_get_fetches_every_file_and_tells_how_far_it_is(serve, tmp_path, own):
    serve("well")
    seen = []
    paths = sources.get("tiny", tmp_path / "data", progress=lambda *step: seen.append(step))
    assert names_in(tmp_path / "data") == TINY_FILES
    assert paths["valid"].read_bytes() == (own / "valid.txt").read_bytes()
    url, done, size = seen[-1]
    assert url.endswith("/well/tiny.test.txt") and done == size == paths["test"].stat().st_size


def test_get_fetches_only_what_is_missing_or_damaged(serve, tmp_path):
    serve("well")
    paths = sources.get("tiny", tmp_path)
    paths["valid"].write_text("spoilt")
    seen = []
    sources.get("tiny", tmp_path, progress=lambda name, *_: seen.append(name))
    assert [name.rsplit("/")[-1] for name in seen] == ["tiny.valid.txt"]
    serve("wrongly")
    assert sources.get("tiny", tmp_path) == paths


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("wrongly", "is not the published train text of tiny: its SHA-256 should be"),
        ("partly", "the connection ended after 14 of 100000 bytes"),
        ("never", "cannot fetch http"),
        ("well/absent", "HTTP Error 404"),
    ],
)
def test_a_failed_download_leaves_nothing_and_says_what_to_do(
    serve, tmp_path, monkeypatch, way, message
):
    monkeypatch.setattr(sources, "TIMEOUT_SECONDS", 0.2)
    serve(way)
    with pytest.raises(CorpusError) as caught:
        sources.get("tiny", tmp_path / "data")
    assert message in str(caught.value) and "--from DIR" in str(caught.value)
    assert names_in(tmp_path / "data") == []


@pytest.mark.parametrize("pattern", ["{}.txt", "tiny.{}.txt", "tiny/{}.txt", "data/tiny.{}.txt"])
def test_files_are_taken_under_their_usual_names(tiny, own, tmp_path, pattern):
    folder = tmp_path / "folder"
    for split in SPLITS:
        path = folder / pattern.format(split)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(own / f"{split}.txt", path)
    sources.get("tiny", tmp_path / "data", from_dir=folder)
    assert names_in(tmp_path / "data") == TINY_FILES
    assert len(sources.verify("tiny", tmp_path / "data")) == 3


def test_a_wrong_file_is_refused_with_both_hashes(tiny, own, tmp_path):
    (own / "valid.txt").write_text("something else")
    with pytest.raises(CorpusError) as caught:
        sources.get("tiny", tmp_path / "data", from_dir=own)
    text = str(caught.value)
    assert str(own / "valid.txt") in text and tiny.sha256["valid"] in text
    assert sources.sha256(own / "valid.txt") in text and "ablate data get tiny" in text
    assert names_in(tmp_path / "data") == ["tiny/tiny.train.txt"]


def test_verify_names_the_file_that_is_missing_or_wrong(tiny, own, tmp_path):
    with pytest.raises(CorpusError, match=r"is missing: there is no .*\. `ablate data get tiny`"):
        sources.verify("tiny", tmp_path)
    sources.get("tiny", tmp_path, from_dir=own)
    spoilt = tmp_path / "tiny/tiny.test.txt"
    data = bytearray(spoilt.read_bytes())
    data[100] ^= 1
    spoilt.write_bytes(data)
    with pytest.raises(CorpusError, match=r"tiny\.test\.txt is not the published file"):
        sources.verify("tiny", tmp_path)
    assert len(sources.verify(str(own), tmp_path)) == 3


def test_the_listing_tells_the_state_of_each(tiny, own, tmp_path, monkeypatch):
    built_in = {listed.name: listed for listed in sources.listing(tmp_path)[:2]}
    for listed in built_in.values():
        assert listed.vocabulary > 100 and listed.num_tokens["train"] > 10_000
    monkeypatch.setattr(sources, "_listed_built_in", lambda name, config: built_in[name])

    def states():
        return {listed.name: listed.state for listed in sources.listing(tmp_path)}

    fetched = dict.fromkeys([*PUBLISHED, *PUBLISHED_PAIRS], "not fetched")
    assert states() == {**dict.fromkeys(BUILT_IN, "built in"), **fetched}
    sources.get("tiny", tmp_path, from_dir=own)
    assert states()["tiny"] == "ready"
    (tmp_path / "tiny/tiny.valid.txt").unlink()
    assert states()["tiny"] == "damaged"


def test_a_disk_that_is_full_when_the_last_bytes_are_written(tiny, own, tmp_path, monkeypatch):
    def on_a_full_disk(path, mode, **how):
        return open("/dev/full", "wb") if mode == "xb" else open(path, mode, **how)

    (own / "train.txt").write_text("few words, which stay in the buffer\n")
    monkeypatch.setattr(files, "open", on_a_full_disk, raising=False)
    with pytest.raises(CorpusError, match=r"cannot write to .*No space left.*Free some space"):
        sources.get("tiny", tmp_path, from_dir=own)


def test_the_pinned_files_are_the_published_ones(real_data):
    assert (
        len(sources.verify("ptb", real_data)) == len(sources.verify("wikitext-2", real_data)) == 3
    )


@pytest.fixture
def tiny_pairs(tmp_path, monkeypatch):
    """A published corpus of pairs, whose files are in a folder of the user's."""
    (tmp_path / "mine").mkdir()
    files = {f"{split}.{side}": f"{split}.{side}.gz" for side in ("en", "de") for split in SPLITS}
    for name in files.values():
        (tmp_path / "mine" / name).write_bytes(gzip.compress(f"{name} eins\nzwei\n".encode()))
    hashes = {part: sources.sha256(tmp_path / "mine" / name) for part, name in files.items()}
    corpus = Published(
        name="tiny_pairs",
        home=None,
        files=files,
        sha256=hashes,
        other_names=(),
        licence="none",
        languages=("en", "de"),
        num_pairs=dict.fromkeys(SPLITS, 2),
    )
    monkeypatch.setitem(PUBLISHED_PAIRS, "tiny_pairs", corpus)
    return tmp_path / "mine"


def test_pairs_are_copied_verified_and_read(tiny_pairs, tmp_path):
    with pytest.raises(CorpusError, match=r"no server that has .*tiny_pairs --from DIR"):
        sources.get("tiny_pairs", tmp_path / "data")
    paths = sources.get("tiny_pairs", tmp_path / "data", from_dir=tiny_pairs)
    assert len(paths) == len(sources.verify("tiny_pairs", tmp_path / "data")) == 6
    read = open_corpus(PairsConfig(name="tiny_pairs", source="de"), tmp_path / "data")
    assert read.references("valid") == ["valid.en.gz eins", "zwei"]
    assert read.digest == corpus_digest(PairsConfig(name="tiny_pairs", source="de", target="en"))
    paths["test.en"].write_bytes(b"damaged")
    with pytest.raises(CorpusError, match=r"test\.en\.gz is not the published file.*--from DIR"):
        sources.verify("tiny_pairs", tmp_path / "data")


def test_verify_finds_sentences_without_a_partner(tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    for split in SPLITS:
        (folder / f"{split}.src").write_text("a\nb\n")
        (folder / f"{split}.tgt").write_text("c\nd\n")
    assert len(sources.verify(str(folder), tmp_path)) == 6
    (folder / "test.tgt").write_text("c\n")
    with pytest.raises(CorpusError, match=r"test\.src, line 2"):
        sources.verify(str(folder), tmp_path)
    with pytest.raises(CorpusError, match=r"unknown corpus 'multi30'.*'multi30k'"):
        sources.verify("multi30", tmp_path)


# --- texts whose splits are parts of files


@pytest.fixture
def in_parts(tmp_path, monkeypatch):
    """Replace the files of a published text by small ones in the folder `mine`; its rules stay."""

    def make(name, files, **parts):
        (tmp_path / "mine").mkdir()
        whole = PUBLISHED[name]
        for part, data in files.items():
            (tmp_path / "mine" / whole.files[part]).write_bytes(data)
        hashes = {p: sources.sha256(tmp_path / "mine" / whole.files[p]) for p in files}
        ends = {split: replace(part, **parts.get(split, {})) for split, part in whole.parts.items()}
        monkeypatch.setitem(PUBLISHED, name, replace(whole, sha256=hashes, parts=ends))
        sources.get(name, tmp_path / "data", from_dir=tmp_path / "mine")
        text = find_text(name, tmp_path / "data")
        raw = {split: b"".join(text.raw(split)) for split in SPLITS}
        read = {split: "".join(text.lines(split)) for split in SPLITS}
        assert read == {split: data.decode() for split, data in raw.items()}
        config = CorpusConfig(name=name, level="byte")
        corpus = open_corpus(config, tmp_path / "data")
        assert {s: corpus.restored(t) for s, t in corpus.splits.items()} == raw
        assert all(text.origin(split).startswith(str(tmp_path / "data")) for split in SPLITS)
        return raw

    return make


def test_an_archive_has_a_member_for_each_split(in_parts):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for split in SPLITS:
            archive.writestr(f"wikitext-103/wiki.{split}.tokens", f" \n = {split} = \n é\n")
    raw = in_parts("wikitext-103", {"zip": file.getvalue()})
    assert raw == {split: f" \n = {split} = \n é\n".encode() for split in SPLITS}


def test_stories_are_whole_and_the_validation_file_has_two_splits(in_parts):
    stories = [f"Story {number}.\n\nThe end.\n<|endoftext|>\n" for number in range(4)]
    files = {"train": b"One.\n<|endoftext|>\nTwo.", "valid": "".join(stories).encode()}
    raw = in_parts("tinystories", files, valid={"end": 3}, test={"first": 3})
    assert raw["train"] == files["train"]
    assert raw["valid"] == "".join(stories[:3]).encode() and raw["test"] == stories[3].encode()


def test_rows_of_parquet_are_documents(in_parts):
    file, texts = io.BytesIO(), [f"Page {number}\r\nté\n" for number in range(6)]
    parquet.write_table(pa.table({"text": texts, "id": range(6)}), file, row_group_size=2)
    ends = {"train": {"end": 3}, "valid": {"first": 3, "end": 4}, "test": {"first": 4, "end": 5}}
    raw = in_parts("fineweb-edu", {"documents": file.getvalue()}, **ends)
    joined = [f"{text}\n".encode() for text in texts]
    assert raw == {"train": b"".join(joined[:3]), "valid": joined[3], "test": joined[4]}


def test_splits_in_parts_share_no_document():
    for corpus in PUBLISHED.values():
        spans = [(p.file, p.member, p.first, p.end or 10**9) for p in corpus.parts.values()]
        for (file, member, _, end), (other, beside, first, _) in pairwise(spans):
            assert (file, member) != (other, beside) or end == first
