"""What many tests share: one encoded built-in corpus, small models, studies that train nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("untimed", deadline=None)  # tests never time, least of all a busy machine
settings.load_profile("untimed")

# How many words (or letters) the texts have that users bring to a `paper` scale. text8's are the
# paper's; of the novels it prints 70M parameters, which are as many at 512 units, and no more.
BROUGHT = {
    ("folder:text8", "word"): 67_428,
    ("folder:text8", "character"): 27,
    ("folder:novels", "word"): 68_000,
}


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> str:
    """A data folder in which the built-in corpus is encoded once."""
    from ablate.config import CorpusConfig
    from ablate.data.corpus import open_corpus

    folder = str(tmp_path_factory.mktemp("data"))
    open_corpus(CorpusConfig(), folder)
    return folder


@pytest.fixture(scope="session")
def num_words(data):
    """The size of a corpus's vocabulary, without the text but for the built-in one."""
    from ablate.data.corpus import vocabulary_size

    def find(corpus) -> int:
        return BROUGHT.get((corpus.name, corpus.level)) or vocabulary_size(corpus, data)

    return find


@pytest.fixture
def workspace(tmp_path: Path, data: str):
    """A fresh workspace that shares the encoded corpus."""
    from ablate.workspace import make_folders, open_workspace

    place = open_workspace(str(tmp_path / "workspace"))
    make_folders(place)
    Path(place.data).symlink_to(data)
    return place
