"""What many tests share: one encoded built-in corpus, small models, studies that train nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("untimed", deadline=None)  # tests never time, least of all a busy machine
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> str:
    """A data folder in which the built-in corpus is encoded once."""
    from ablate.config import CorpusConfig
    from ablate.data.corpus import open_corpus

    folder = str(tmp_path_factory.mktemp("data"))
    open_corpus(CorpusConfig(), folder)
    return folder


@pytest.fixture
def workspace(tmp_path: Path, data: str):
    """A fresh workspace that shares the encoded corpus."""
    from ablate.workspace import make_folders, open_workspace

    place = open_workspace(str(tmp_path / "workspace"))
    make_folders(place)
    Path(place.data).symlink_to(data)
    return place
