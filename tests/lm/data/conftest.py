"""Corpora to test with: a tiny one made here, and the real ones where this machine has them."""

import hashlib
import os
import random

import pytest

from ablate.lm.data import sources
from ablate.lm.data.published import PUBLISHED, SPLITS, Published
from tests.support import places

TEST_DATA = places.DATA
WORDS = [f"w{index}" for index in range(50)] + ["<unk>", "Käse", "The", "the"]


def make_text(seed: int, num_lines: int) -> str:
    rng = random.Random(seed)
    lines = [" ".join(rng.choices(WORDS, k=rng.randrange(9))) for _ in range(num_lines)]
    return "".join(f" {line} \n" for line in lines)


@pytest.fixture
def own(tmp_path):
    """A folder of text of the user's own."""
    folder = tmp_path / "own"
    folder.mkdir()
    for seed, (split, size) in enumerate(zip(SPLITS, (300, 40, 50), strict=True)):
        (folder / f"{split}.txt").write_text(make_text(seed, size), encoding="utf-8")
    return folder


@pytest.fixture
def tiny(own, monkeypatch):
    """A published corpus, `tiny`, whose text is in the folder `own`."""
    hashes = {s: hashlib.sha256((own / f"{s}.txt").read_bytes()).hexdigest() for s in SPLITS}
    corpus = Published(
        name="tiny",
        home="https://nowhere.invalid",
        files={split: f"tiny.{split}.txt" for split in SPLITS},
        sha256=hashes,
        other_names=("tiny.{}.txt", "{}.txt"),
        licence="none",
        num_tokens={"train": 1, "valid": 1, "test": 1},
        vocabulary={("word", False): 55},
    )
    monkeypatch.setitem(PUBLISHED, "tiny", corpus)
    return corpus


@pytest.fixture(scope="session")
def real_data(tmp_path_factory):
    """A data folder with PTB and WikiText-2."""
    if not (TEST_DATA / "ptb").is_dir():
        pytest.skip(f"PTB and WikiText-2 are not in {TEST_DATA} (ABLATE_TEST_DATA names it)")
    folder = tmp_path_factory.mktemp("data")
    for name in ("ptb", "wikitext-2"):
        sources.get(name, folder, from_dir=TEST_DATA)
    return folder


@pytest.fixture
def unprivileged():
    """Run as a user whom file permissions bind."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
