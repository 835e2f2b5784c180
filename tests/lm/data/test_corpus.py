import dataclasses
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from ablate.config.data_source import source_of
from ablate.errors import CorpusError
from ablate.lm.data import encoded, sources, texts
from ablate.lm.data.corpus import corpus_digest, open_corpus
from ablate.lm.data.encoding import encode
from ablate.lm.data.grammar import generate as grammar
from ablate.lm.data.grammar.built_in import BUILT_IN
from ablate.lm.data.grammar.floor import log_probabilities
from ablate.lm.data.published import PUBLISHED, SPLITS
from ablate.lm.sections import CorpusConfig
from ablate.store import files
from ablate.store.files import stamp
from tests.support.damage import as_new_process, flip_on_disk


@pytest.fixture
def data(tmp_path, tiny, own):
    """A data folder with the corpus `tiny`."""
    sources.get("tiny", tmp_path / "data", from_dir=own)
    return tmp_path / "data"


TINY = CorpusConfig(name="tiny")


def same_tokens(one, other):
    return all(np.array_equal(one.splits[split], other.splits[split]) for split in SPLITS)


def encoding_of(data):
    (folder,) = (path for path in (data / "encoded").iterdir() if path.name != "hashes")
    return folder


# --- what is opened


def test_tokens_and_words_are_those_of_the_text(data, own):
    corpus = open_corpus(TINY, data)
    lines = {s: (own / f"{s}.txt").read_text("utf-8").splitlines() for s in SPLITS}
    expected = encode(lines, CorpusConfig())
    assert corpus.vocabulary == tuple(expected.vocabulary)
    assert corpus.num_words == len(corpus.vocabulary) == 55
    assert corpus.vocabulary[corpus.eos] == "<eos>"
    for split in SPLITS:
        assert np.array_equal(corpus.splits[split], expected.splits[split])
        text = "".join(f"{' '.join(line.split())}\n" for line in lines[split])
        assert corpus.text(corpus.splits[split]) == text


def test_a_stream_is_the_mapped_memory_and_opening_warns_of_nothing(data):
    corpus = open_corpus(TINY, data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream = corpus.stream("train")
    assert stream.dtype == torch.int32
    assert stream.data_ptr() == corpus.splits["train"].ctypes.data
    assert not corpus.splits["train"].flags.writeable
    expected = corpus.splits["train"].tolist()
    del corpus
    assert stream.tolist() == expected


def test_opening_again_reads_no_line_of_the_text(own, tmp_path, monkeypatch):
    """What makes opening fast; `benchmarks/starting.py` times it."""
    config = CorpusConfig(name=str(own))
    expected = open_corpus(config, tmp_path)
    monkeypatch.setattr("ablate.lm.data.corpus.encode", None)
    assert same_tokens(open_corpus(config, tmp_path), expected)
    monkeypatch.undo()


def test_slices_keep_the_vocabulary_and_share_the_encoding(data):
    whole = open_corpus(TINY, data)
    part = open_corpus(CorpusConfig(name="tiny", train_tokens=100, eval_tokens=110), data)
    assert [len(part.splits[split]) for split in SPLITS] == [100, 110, 110]
    assert part.vocabulary == whole.vocabulary
    assert len(part.stream("train")) == 100
    assert part.digest != whole.digest
    assert np.array_equal(part.splits["test"], whole.splits["test"][:110])
    assert encoding_of(data).is_dir()


def test_a_random_slice_is_a_run_of_the_text_that_the_seed_draws(data):
    """004, Section 6.2: N contiguous words, chosen at random, different ones in each run."""
    whole = open_corpus(TINY, data).splits["train"]
    config = CorpusConfig(name="tiny", train_tokens=100, train_slice="random")
    starts = []
    for seed in range(1, 21):
        part = open_corpus(config, data, seed)
        assert part.digest == corpus_digest(config, data)  # the seed is in a trial's id as well
        runs = np.lib.stride_tricks.sliding_window_view(whole, 100)
        (start,) = np.flatnonzero((runs == part.splits["train"]).all(1))
        starts.append(int(start))
        assert part.stream("train").tolist() == whole[start : start + 100].tolist()
    assert len(set(starts)) > 10
    assert max(starts) > len(whole) / 2
    assert np.array_equal(
        open_corpus(config, data, 3).splits["train"], open_corpus(config, data, 3).splits["train"]
    )


def test_a_random_slice_of_no_length_is_refused(data):
    with pytest.raises(CorpusError, match=r"train_slice = 'random' .* corpus\.train_tokens"):
        corpus_digest(CorpusConfig(name="tiny", train_slice="random"), data)


def test_the_digest_depends_on_text_and_options_but_not_on_places(data, own, tmp_path):
    options = [
        {},
        {"level": "character"},
        {"lowercase": True},
        {"min_count": 2},
        {"train_tokens": 100},
        {"train_tokens": 100, "train_slice": "random"},
        {"eval_tokens": 100},
    ]
    digests = [corpus_digest(CorpusConfig(name="tiny", **option)) for option in options]
    assert len(set(digests)) == len(options)
    assert digests == [open_corpus(CorpusConfig(name="tiny", **o), data).digest for o in options]
    moved = shutil.copytree(own, tmp_path / "moved")
    for name in (f"folder:{own}", str(own), str(moved)):
        assert corpus_digest(CorpusConfig(name=name)) == digests[0]
    (moved / "valid.txt").write_text("one word more")
    assert corpus_digest(CorpusConfig(name=str(moved))) != digests[0]


def test_the_floor_is_the_grammars_own_over_the_tokens_that_are_judged(tmp_path, monkeypatch):
    texts = {split: lines[:4] for split, lines in grammar.generate().items()}
    monkeypatch.setattr(grammar, "generate", lambda: texts)
    corpus = open_corpus(CorpusConfig(), tmp_path)
    assert corpus.floor["valid"] == pytest.approx(
        -np.mean(log_probabilities(BUILT_IN, texts["valid"]))
    )
    part = open_corpus(CorpusConfig(eval_tokens=20), tmp_path)
    log_probs = log_probabilities(BUILT_IN, texts["test"])
    assert part.floor["test"] == pytest.approx(-np.mean(log_probs[:19]))
    assert open_corpus(CorpusConfig(level="character"), tmp_path).floor == {}


def test_sizes_are_known_without_the_text(tmp_path):
    for name, lowercase, size in [
        ("ptb", False, 10_000),
        ("wikitext-2", False, 33_278),
        ("wikitext-2", True, 28_912),
    ]:
        config = CorpusConfig(name=name, lowercase=lowercase)
        assert source_of(config, tmp_path).vocabulary()[0] == size
        assert len(corpus_digest(config)) == 16
    assert list(tmp_path.iterdir()) == []


# --- what is not there, or not what it should be


def test_text_that_is_not_utf8(own, tmp_path):
    (own / "test.txt").write_bytes(b"caf\xe9 au lait\n")
    with pytest.raises(CorpusError, match=r"test\.txt is not UTF-8 text"):
        open_corpus(CorpusConfig(name=str(own)), tmp_path)


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:9] + b"?" + b[10:]])
def test_a_damaged_source_is_refused_with_both_hashes(data, tiny, damage):
    path = data / "tiny/tiny.valid.txt"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorpusError) as caught:
        open_corpus(TINY, data)
    for part in (str(path), tiny.sha256["valid"], sources.sha256(path), "ablate data get tiny"):
        assert part in str(caught.value)


def test_text_that_changes_while_it_is_read_is_not_kept(own, tmp_path, monkeypatch):
    from ablate.lm.data import corpus

    def encode_slowly(texts, options):
        encoded_text = encode(texts, options)
        (own / "train.txt").write_text("other text\n")
        return encoded_text

    monkeypatch.setattr(corpus, "encode", encode_slowly)
    with pytest.raises(CorpusError, match="changed while it was read"):
        open_corpus(CorpusConfig(name=str(own)), tmp_path)


def test_edited_text_in_a_folder_is_encoded_again(own, tmp_path):
    config = CorpusConfig(name=str(own))
    before = open_corpus(config, tmp_path)
    text = (own / "train.txt").read_text("utf-8")
    (own / "train.txt").write_text(text.replace("w1 ", "w2 "), encoding="utf-8")  # same size
    after = open_corpus(config, tmp_path)
    assert after.digest != before.digest and not same_tokens(before, after)


def test_hashes_of_text_that_has_settled_are_remembered(own, tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "FRESH_NS", -1)
    config = CorpusConfig(name=str(own))
    first = corpus_digest(config, tmp_path)
    monkeypatch.setattr(texts, "sha256", lambda path: pytest.fail(f"{path} was hashed again"))
    assert corpus_digest(config, tmp_path) == first


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def empty(path):
    path.write_bytes(b"")


def flip(path):
    """Random bytes, with the file's times put back."""
    status = path.stat()
    content = bytearray(path.read_bytes())
    rng = random.Random(0)
    for _ in range(5):
        content[rng.randrange(len(content))] ^= rng.randrange(1, 256)
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("name", ["tokens.arrow", "vocabulary.arrow", "seal.json"])
@pytest.mark.parametrize("damage", [truncate, empty, flip, Path.unlink])
def test_a_damaged_encoding_is_made_again_or_refused(data, caplog, name, damage):
    before = open_corpus(TINY, data)
    folder, tokens, words = encoding_of(data), before.splits["train"].copy(), before.vocabulary
    del before  # a mapped file must not shrink under its reader
    damage(folder / name)
    again = open_corpus(TINY, data)
    assert np.array_equal(again.splits["train"], tokens) and again.vocabulary == words
    assert "is damaged" in caplog.text and "encoding it again" in caplog.text
    del again
    damage(folder / name)
    shutil.rmtree(data / "tiny")
    with pytest.raises(CorpusError, match="`ablate data get tiny`"):
        open_corpus(TINY, data)


@pytest.mark.parametrize("name", ["tokens.arrow", "vocabulary.arrow"])
def test_a_bit_that_a_disk_has_changed_is_noticed(data, caplog, name):
    """The file keeps size, times and inode, as a seal of an older version knew them."""
    before = open_corpus(TINY, data)
    folder, tokens, words = encoding_of(data), before.splits["train"].copy(), before.vocabulary
    del before
    flip_on_disk(folder / name, 500)
    seal = json.loads((folder / "seal.json").read_text())
    stamps = {file: stamp(folder / file) for file in seal["sha256"]}
    (folder / "seal.json").write_text(json.dumps({**seal, "stamps": stamps}))
    as_new_process()
    again = open_corpus(TINY, data)
    assert np.array_equal(again.splits["train"], tokens) and again.vocabulary == words
    assert f"is damaged ({name} has changed)" in caplog.text


def test_a_text_that_its_disk_has_changed_is_not_encoded(own, tmp_path, monkeypatch):
    """Its hash is remembered with its times, so it seems to be the text that it was."""
    monkeypatch.setattr(texts, "FRESH_NS", -1)
    monkeypatch.setattr(files, "stamp", lambda path: [path.stat().st_size, 0, 0, 0])
    config = CorpusConfig(name=str(own))
    corpus_digest(config, tmp_path)
    flip_on_disk(own / "train.txt", 0)
    with pytest.raises(CorpusError, match="its disk has changed it"):
        open_corpus(config, tmp_path)
    with pytest.raises(CorpusError, match="its disk has changed it"):
        sources.verify(str(own), tmp_path)


# --- disks


def folder_of_no_user():
    folder = Path(tempfile.mkdtemp(prefix="ablate-test-"))
    folder.chmod(0o755)
    return folder


def test_a_read_only_folder_is_enough_to_open_and_too_little_to_encode(data, request):
    """A shared data folder that an administrator has filled."""
    shared = folder_of_no_user()
    try:
        shutil.copytree(data, shared / "data")
        expected = open_corpus(TINY, shared / "data").splits["train"].copy()
        for path in [shared / "data", *(shared / "data").rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        request.getfixturevalue("unprivileged")
        assert np.array_equal(open_corpus(TINY, shared / "data").splits["train"], expected)
        with pytest.raises(CorpusError, match=r"cannot write the encoded corpus .* denied"):
            open_corpus(CorpusConfig(name="tiny", lowercase=True), shared / "data")
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        for path in [shared / "data", *(shared / "data").rglob("*")]:
            path.chmod(0o755)
        shutil.rmtree(shared)


def test_a_full_disk_leaves_nothing_behind(data, monkeypatch):
    def full(path, content):
        path.write_bytes(bytes(content)[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(encoded, "_write_synced", full)
    with pytest.raises(CorpusError, match=r"No space left.*Free some space"):
        open_corpus(TINY, data)
    assert list((data / "encoded").iterdir()) == []
    monkeypatch.undo()


# --- many processes

OPEN = """
import sys, time
from ablate.lm.sections import CorpusConfig
from ablate.lm.data import encoded
from ablate.lm.data.corpus import open_corpus
{prepare}
corpus = open_corpus(CorpusConfig(name=sys.argv[1]), sys.argv[2])
"""


def run(script, *arguments):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "error", "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


@pytest.mark.parametrize("locks", [True, False])
@pytest.mark.parametrize("damaged", [True, False])
def test_many_at_once_with_and_without_locks(data, monkeypatch, locks, damaged):
    import fcntl

    expected = open_corpus(TINY, data).splits["train"].copy()
    if damaged:
        flip(encoding_of(data) / "tokens.arrow")
    else:
        shutil.rmtree(encoding_of(data))
    if not locks:

        def no_locks(*_):
            raise OSError(37, "No locks available")

        monkeypatch.setattr(fcntl, "flock", no_locks)
    opened, barrier = [], threading.Barrier(8)

    def work():
        barrier.wait()
        opened.append(open_corpus(TINY, data).splits["train"])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 8
    assert all(np.array_equal(tokens, expected) for tokens in opened)
    assert not list((data / "encoded").glob("*.partial"))


def test_a_killed_writer_blocks_no_other(own, tmp_path, monkeypatch):
    prepare = (
        "def hang(*_):\n    print('writing', flush=True)\n    time.sleep(60)\nencoded._move = hang"
    )
    process = run(OPEN.format(prepare=prepare), own, tmp_path)
    assert process.stdout.readline() == "writing\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert list((tmp_path / "encoded").glob("*.partial"))
    config = CorpusConfig(name=str(own))
    open_corpus(config, tmp_path)
    monkeypatch.setattr(encoded, "ABANDONED_SECONDS", -1)
    open_corpus(dataclasses.replace(config, lowercase=True), tmp_path)
    assert not list((tmp_path / "encoded").glob("*.partial"))


# --- the real ones


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ptb", "wikitext-2"])
def test_published_token_counts_and_vocabularies(real_data, name):
    corpus = open_corpus(CorpusConfig(name=name), real_data)
    published = PUBLISHED[name]
    assert {split: len(tokens) for split, tokens in corpus.splits.items()} == published.num_tokens
    assert corpus.num_words == len(corpus.vocabulary) == published.vocabulary["word", False]
    trained = np.unique(corpus.splits["train"])
    assert len(trained) == corpus.num_words  # every word of valid and test occurs in train


def test_characters_of_ptb_are_mikolovs(real_data):
    corpus = open_corpus(CorpusConfig(name="ptb", level="character"), real_data)
    assert [len(corpus.splits[split]) for split in SPLITS] == [5_017_482, 393_042, 442_423]
    assert corpus.num_words == 50
