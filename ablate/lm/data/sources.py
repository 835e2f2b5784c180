"""Getting corpora: downloading them, or copying them from a folder of the user's.

Only files with the pinned hashes enter the data folder, each by a rename. Only `get` uses the
network.

    DATA/ptb/ptb.train.txt ...    DATA/multi30k/train.en.gz ...    DATA/encoded/... (encoded.py)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from ablate.config.data_source import source_of
from ablate.errors import CorpusError, unknown
from ablate.lm.data import encoded, own
from ablate.lm.data.pair_texts import SOURCE, find_pairs
from ablate.lm.data.published import PUBLISHED, PUBLISHED_PAIRS, SPLITS
from ablate.lm.data.texts import (
    BUILT_IN,
    GRAMMAR,
    GRAMMAR_TREES,
    PAIRS,
    PublishedText,
    changed,
    custom_folder,
    expanded,
    find_text,
    own_folder,
    published_files,
    sha256,
    without_cache,
    writing,
)
from ablate.lm.sections import CorpusConfig, PairsConfig
from ablate.store.files import PARTIAL, partial_file, replace_synced

Progress = Callable[[str, int, int | None], None]  # file, bytes so far, total bytes if known
TIMEOUT_SECONDS = 30.0  # for the next bytes from a server
CHUNK = 1 << 16
SUBFOLDERS = ("", "{name}", "data", "data/{name}")  # where a user's folder may have the files


@dataclass(frozen=True)
class Listed:
    """A corpus in the output of `ablate data list`."""

    name: str
    state: str  # built in, ready, not fetched, damaged
    num_tokens: Mapping[str, int]  # by split, `<eos>` included
    vocabulary: int | None  # None: of pairs, it depends on the languages
    licence: str
    num_pairs: Mapping[str, int] = field(default_factory=dict)  # of sentences, by split


def _silent(name: str, done: int, size: int | None) -> None:
    """Ignore progress."""


def listing(folder: str | Path) -> list[Listed]:
    """List every named corpus and its state in the data folder."""
    texts, pairs = (
        [_listed(PublishedText(corpus, Path(folder))) for corpus in corpora.values()]
        for corpora in (PUBLISHED, PUBLISHED_PAIRS)
    )
    built_in = [(GRAMMAR, CorpusConfig()), (GRAMMAR_TREES, CorpusConfig(level="tree"))]
    imported = [_listed_own(name, Path(folder)) for name in own.names(folder)]
    listed = [*(_listed_built_in(*each) for each in built_in), *texts, _listed_pairs(), *pairs]
    return [*listed, *imported]


def fetched() -> list[str]:
    """List the corpora that `get` gets."""
    return [*PUBLISHED, *PUBLISHED_PAIRS]


def get(
    name: str,
    folder: str | Path,
    from_dir: str | Path | None = None,
    progress: Progress = _silent,
) -> dict[str, Path]:
    """Get the corpus's files into the data folder, unless they are there; return their paths."""
    if name in BUILT_IN:
        return {}
    text = published_files(name, Path(folder))
    if text is None:
        _check_known(name)
        raise CorpusError(
            f"{name} is a folder of text, which is read directly: there is nothing to get. "
            f"Expected one of: {', '.join(fetched())}."
        )
    for part in text.corpus.files:
        if _state(text, part) == "ready":
            continue
        if from_dir is None:
            _fetch(text, part, progress)
        else:
            _copy_from(text, part, expanded(from_dir), progress)
    return {part: text.path(part) for part in text.corpus.files}


def verify(name: str, folder: str | Path) -> dict[str, str]:
    """Return the hashes of the corpus's files; an error names a wrong one."""
    files = published_files(name, Path(folder))
    if files is not None:
        for part in files.corpus.files:
            files.check(part)
        return {str(files.path(part)): known for part, known in files.corpus.sha256.items()}
    if (imported := own_folder(name, Path(folder))).is_dir():
        return {str(imported / f"{part}.txt"): sha for part, sha in own.verify(imported).items()}
    _check_known(name)
    if name == PAIRS or _has_pairs(name):
        text = find_pairs(PairsConfig(name=name), Path(folder))
        for split in SPLITS:
            text.pairs(split)  # checks that every sentence has a partner
    else:
        text = find_text(name, Path(folder))
        text.lines("train")  # generates a built-in text, which checks it
    hashes = without_cache(text).hashes()
    if hashes != text.hashes():
        raise changed(name)
    return {
        part if name in BUILT_IN else f"{name} ({part})": digest for part, digest in hashes.items()
    }


def verify_encoded(folder: str | Path) -> list[Path]:
    """Return the encoded corpora in the data folder; an error names a damaged one."""
    sealed = sorted(seal.parent for seal in Path(folder).glob(f"encoded/*/{encoded.SEAL}"))
    # A folder that is still being written may have its seal already.
    whole = [path for path in sealed if not path.name.endswith(PARTIAL)]
    for path in whole:
        try:
            encoded.read(path)
        except encoded.Damaged as damage:
            raise CorpusError(
                f"{path} is damaged ({damage}). The next command that reads this corpus encodes it "
                "again; what was computed since the damage may differ."
            ) from damage
    return whole


def _check_known(name: str) -> None:
    known = [*BUILT_IN, *fetched()]
    if name not in known and custom_folder(name) is None:
        raise CorpusError(unknown("corpus", name, [*known, "folder:PATH"], "corpus.name"))


def _has_pairs(name: str) -> bool:
    folder = custom_folder(name)
    return folder is not None and (folder / f"train.{SOURCE}").exists()


def _listed_built_in(name: str, config: CorpusConfig) -> Listed:
    source: Any = source_of(replace(config, name=name))
    made = source.columns(source.text())
    num_tokens = {split: len(ids) for split, ids in made.splits.items()}
    return Listed(name, "built in", num_tokens, len(made.vocabulary), "generated by ablate")


def _listed(text: PublishedText) -> Listed:
    states = {_state(text, part) for part in text.corpus.files}
    # Some files without the others are as useless as a damaged one.
    state = states.pop() if len(states) == 1 else "damaged"
    corpus = text.corpus
    words = corpus.vocabulary.get((corpus.level, False))
    tokens, num_pairs = corpus.num_tokens, corpus.num_pairs
    return Listed(corpus.name, state, tokens, words, corpus.licence, num_pairs)


def _listed_own(name: str, folder: Path) -> Listed:
    source: Any = source_of(CorpusConfig(name=name), folder)
    origin = f"yours, from {own.read_spec(own_folder(name, folder)).source}"
    return Listed(name, "ready", source.sizes(), source.vocabulary()[0], origin)


def _listed_pairs() -> Listed:
    from ablate.lm.data.grammar import translation

    return Listed(PAIRS, "built in", {}, None, "generated by ablate", translation.SIZES)


def _state(text: PublishedText, part: str) -> str:
    if not text.path(part).is_file():
        return "not fetched"
    return "ready" if sha256(text.path(part)) == text.corpus.sha256[part] else "damaged"


def _fetch(text: PublishedText, part: str, progress: Progress) -> None:
    """Download one file."""
    import http.client
    import urllib.request

    if text.corpus.home is None:
        raise CorpusError(
            f"ablate knows no server that has {text.corpus.files[part]} of {text.corpus.name}. "
            f"Instead: `ablate data get {text.corpus.name} --from DIR` copies it from a folder."
        )
    url = f"{text.corpus.home}/{text.corpus.files[part]}"
    request = urllib.request.Request(url, headers={"User-Agent": "ablate"})
    with _new_file(text, part, url) as file:
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
                size = response.headers.get("Content-Length")
                _copy(response.read, file, int(size) if size else None, url, progress)
        except (OSError, ValueError, http.client.HTTPException) as error:  # OSError: also timeouts
            getattr(error, "close", bool)()  # a response such as 404 keeps its connection open
            raise CorpusError(
                f"cannot fetch {url}: {error or type(error).__name__}. Try again later, or get "
                f"the file in another way: `ablate data get {text.corpus.name} --from DIR` copies "
                "it from a folder."
            ) from error


def _copy_from(text: PublishedText, part: str, from_dir: Path, progress: Progress) -> None:
    """Copy one file from a folder of the user's, under any of its usual names."""
    expected = text.corpus.sha256[part]
    existing = [path for path in _candidates(text, part, from_dir) if path.is_file()]
    if not existing:
        names = ", ".join(_usual_names(text, part))
        raise CorpusError(
            f"{from_dir} has no {part} text of {text.corpus.name}. Expected one of: {names}, in "
            f"that folder or in its subfolders {text.corpus.name} and data."
        )
    # Without the right one, the first is copied, and its error shows both hashes.
    best = next((path for path in existing if sha256(path) == expected), existing[0])
    with _new_file(text, part, str(best)) as file, open(best, "rb") as source:
        _copy(source.read, file, best.stat().st_size, str(best), progress)


def _candidates(text: PublishedText, part: str, from_dir: Path) -> list[Path]:
    folders = [from_dir / sub.format(name=text.corpus.name) for sub in SUBFOLDERS]
    return [folder / name for folder in folders for name in _usual_names(text, part)]


def _usual_names(text: PublishedText, part: str) -> list[str]:
    names = [text.corpus.files[part], *(name.format(part) for name in text.corpus.other_names)]
    return list(dict.fromkeys(names))


def _copy(
    read: Callable[[int], bytes], file: BinaryIO, size: int | None, name: str, progress: Progress
) -> None:
    done = 0
    while chunk := read(CHUNK):
        with writing(f"to {Path(file.name).parent}"):
            file.write(chunk)
        done += len(chunk)
        progress(name, done, size)
    # `read` returns nothing at a broken connection too.
    if size is not None and done < size:
        raise ConnectionError(f"the connection ended after {done} of {size} bytes")


@contextmanager
def _new_file(text: PublishedText, part: str, origin: str) -> Iterator[BinaryIO]:
    """Open a file to write to, and move it into the data folder if it has the pinned hash."""
    path, expected = text.path(part), text.corpus.sha256[part]
    with ExitStack() as stack:
        with writing(f"to {path.parent}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(partial_file(path))
        try:
            yield file
        finally:
            with writing(f"to {path.parent}"):  # what is still buffered
                file.close()
        actual = sha256(Path(file.name))
        if actual != expected:
            raise CorpusError(
                f"{origin} is not the published {part} text of {text.corpus.name}: its SHA-256 "
                f"should be {expected}, but it is {actual}. Try another copy: `ablate data get "
                f"{text.corpus.name}` downloads it, `--from DIR` copies it from a folder."
            )
        with writing(f"to {path.parent}"):
            replace_synced(Path(file.name), path)
