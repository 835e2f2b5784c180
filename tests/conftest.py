"""What many tests share: one encoded built-in corpus, small models, studies that train nothing."""

from __future__ import annotations

import os
import signal
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from ablate.config import registry
from tests.support.browser import browser, tabs  # fixtures  # noqa: F401
from tests.support.no_export import NoExport

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.fsync = lambda handle: None  # no test outlives a power cut, and a study syncs 200 files
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job with & would ignore it
settings.register_profile("untimed", deadline=None)  # tests never time, least of all a busy machine
settings.load_profile("untimed")

# How many words (or letters) the texts have that users bring to a `paper` scale. text8's are the
# paper's; of the novels it prints 70M parameters, which are as many at 512 units, and no more.
BROUGHT = {
    ("ptb", "bpe"): 1_256,
    ("wikitext-103", "bpe"): 8_256,
    ("folder:text8", "word"): 67_428,
    ("folder:text8", "character"): 27,
    ("folder:novels", "word"): 68_000,
    ("multi30k", "word"): 4000,
    ("ag_news", "word"): 2000,
    **{(f"folder:iwslt2016-{way}", "word"): 16_000 for way in ("en-de", "de-en", "en-fr", "fr-en")},
    ("folder:headlines", "word"): 5000,
    ("folder:ptb_trees", "tree"): 7_000,  # words seen ten times, and brackets; a guess
}


KILLS_A_STUDY = 4  # with more kills it might end before the last one

# What a fixture needs of the machine, its tests need: they get these markers.
MARKERS = {
    "hosts": ("faults", "cluster", "root"),
    "disk": ("root",),
    "tiny_disk": ("root",),
    "warm": ("cluster",),
    "browser": ("slow",),
}


@pytest.fixture(autouse=True)
def width(monkeypatch: pytest.MonkeyPatch):
    """Tables have the width of a file, not that of the terminal in which the tests are run."""
    monkeypatch.delenv("COLUMNS", raising=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--faults", action="store_true", help="also break two hosts; needs root")
    parser.addoption(
        "--pairs", action="store_true", help="every pair of techniques, not each technique once"
    )
    parser.addoption("--kills", type=int, default=1, help="kills per study (default: 1)")
    parser.addoption("--tiny", type=int, default=1, help="tiny studies in a row (default: 1)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        for fixture in MARKERS.keys() & set(getattr(item, "fixturenames", ())):
            for marker in MARKERS[fixture]:
                item.add_marker(marker)
    absent = {name for name in ("faults", "more_kills") if not _asked_for(config, name)}
    left_out = [item for item in items if absent & {mark.name for mark in item.iter_markers()}]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
    # The long files first: else, at the end of `make test`, one process would wait for the other.
    long = {item.path for item in items if item.get_closest_marker("cluster")}
    items.sort(key=lambda item: item.path not in long)


def _asked_for(config: pytest.Config, marker: str) -> bool:
    """Return whether tests that only an option asks for run; a skip would look like a gap."""
    if marker == "faults":
        return config.getoption("--faults")
    return config.getoption("--kills") > KILLS_A_STUDY


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("kernels"):
        from ablate.lm.model.native.library import library, load_library

        if library() is None:
            pytest.skip(load_library()[1])


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests trust no file of code in the account of whoever runs them."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def kills(request: pytest.FixtureRequest) -> int:
    """How often a study is killed."""
    return request.config.getoption("--kills")


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> str:
    """A data folder in which the built-in corpus is encoded once."""
    from ablate.lm.data.corpus import open_corpus
    from ablate.lm.sections import CorpusConfig

    folder = str(tmp_path_factory.mktemp("data"))
    open_corpus(CorpusConfig(), folder)
    return folder


@pytest.fixture(scope="module")
def texts_that_users_bring():
    """Plan as if these texts were present."""
    from ablate.config import data_source

    find = data_source.source_of

    @cache
    def known(config, folder=None):
        source = find(config, folder)
        source.vocabulary = cache(source.vocabulary)  # it opens the text, for each arm
        words = BROUGHT.get((config.name, getattr(config, "level", None)))
        if words is not None:
            source.vocabulary = lambda: (words, words if hasattr(config, "source") else 0)
        if config.name.startswith("folder:") or getattr(config, "level", None) == "bpe":
            source.digest = lambda: "brought"
        return source

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_source, "source_of", known)
        yield


@pytest.fixture
def without_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study that ends draws no page: its pictures would take longer than its trials."""
    monkeypatch.setattr("ablate.engine.run._report", lambda summary, store, note: {})


@pytest.fixture
def without_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study has no runs in MLflow: to write them would take longer than its trials."""
    monkeypatch.setattr("ablate.record.background.BackgroundExport", NoExport)


@pytest.fixture
def forgotten():
    """Forget at the end which techniques the test has registered."""
    before = registry.of_users()
    yield
    for technique in registry.of_users():
        if technique not in before:
            del registry._techniques[technique.slot, technique.name]


@pytest.fixture
def workspace(tmp_path: Path, data: str):
    """A fresh workspace that shares the encoded corpus."""
    from tests.support.small_studies import new_workspace

    return new_workspace(tmp_path / "workspace", data)


@pytest.fixture(params=[pytest.param("kernels", marks=pytest.mark.kernels), "torch"])
def both_ways(request, monkeypatch):
    """By the compiled kernels, and by torch where there are none."""
    from ablate.lm.model.native.library import SWITCH

    if request.param == "torch":
        monkeypatch.setenv(SWITCH, "off")


@pytest.fixture
def build():
    """An initialised assembly from flat values, in float64 unless told otherwise."""
    import torch

    from ablate.config.resolve import resolve
    from ablate.config.streams import Streams
    from ablate.lm.model.assemble import assemble

    def assembled(values: dict, vocabulary: int = 23, seed: int = 1, dtype=torch.float64):
        defaults = {"backbone": "lstm", "backbone.units": 7, "head": "softmax", "optimizer": "sgd"}
        config = resolve({**defaults, "embedding.size": 6, **values})
        assembly = assemble(config, vocabulary)
        assembly.model.initialize(Streams(seed))
        assembly.model.to(dtype)
        return assembly

    return assembled
