"""Texts of the user's own: imported once under a name, split into train, valid and test.

    DATA/own/pydoc/{train,valid,test}.txt    the text as trials read it
    DATA/own/pydoc/source.json               where it is from, how it was split, and the hashes

One file, or a folder of files, is split by shares of its words into three contiguous blocks of
whole lines, in this order: a random split would put neighbours of test lines into training. A
folder whose files name splits (`train.txt`, `validation.jsonl`, `test-00000-of-00002.parquet` ...)
is taken as it is split. Then every split needs a file, and every file a split: to cut all of them
by shares would put the given test text into training.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablate.errors import ConfigError, CorpusError, unknown, wrong_value
from ablate.lm.data.published import PUBLISHED, PUBLISHED_PAIRS, SPLITS
from ablate.lm.data.texts import BUILT_IN, expanded, lines_of, own_folder, sha256, writing

SHARES = (90.0, 5.0, 5.0)  # per cent of the words for train, valid and test
FIELD = "text"  # the column of Parquet or the field of JSON lines, unless another is named
SPEC = "source.json"
VALID = ("valid", "validation", "dev", "val")  # what a file of the split valid may be called
CALLED = {"train": "train", "test": "test", **dict.fromkeys(VALID, "valid")}
Lines = Callable[[], Iterator[str]]  # each call reads them from the start


@dataclass(frozen=True, kw_only=True)
class Added:
    """A text that was imported, as `source.json` has it."""

    name: str
    source: str
    shares: tuple[float, ...]  # empty: the folder had a file for each split
    field: str  # of Parquet files or JSON lines; empty: plain text
    lines: Mapping[str, int]
    sha256: Mapping[str, str]


def add(
    name: str,
    source: str | Path,
    data: str | Path,
    shares: Sequence[float] | None = None,
    field: str | None = None,
) -> Added:
    """Import a text under a name; one that is there already stays, and must be the same."""
    _check_name(name)
    path, target = expanded(source), own_folder(name, Path(data))
    splits = _splits(path, field, shares)
    with writing(f"to {target.parent}"):
        target.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=target.parent))
    try:
        lines = _write(splits, made, path, shares)
        hashes = {split: sha256(made / f"{split}.txt") for split in SPLITS}
        used = () if set(splits) == set(SPLITS) else tuple(shares or SHARES)
        added = Added(
            name=name, source=str(path), shares=used, field=field or "", lines=lines, sha256=hashes
        )
        if target.exists():
            _check_same(read_spec(target), added, target)
        else:
            (made / SPEC).write_text(json.dumps(vars(added), indent=1), encoding="utf-8")
            made.chmod(0o755)  # `mkdtemp` makes it private, and others may read the workspace
            os.replace(made, target)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return added


def names(data: str | Path) -> list[str]:
    """List the texts that were imported."""
    return sorted(spec.parent.name for spec in Path(data).glob(f"own/*/{SPEC}"))


def read_spec(folder: Path) -> Added:
    """Return what is known of an imported text; an error if its file is damaged."""
    try:
        plain: dict[str, Any] = json.loads((folder / SPEC).read_bytes())
        return Added(**{**plain, "shares": tuple(plain["shares"])})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorpusError(
            f"{folder / SPEC} is damaged ({error}). Delete {folder}, and import the text again "
            "with: ablate data add"
        ) from error


def verify(folder: Path) -> Mapping[str, str]:
    """Return the hashes of an imported text; an error names a file that has changed since."""
    spec = read_spec(folder)
    for split, expected in spec.sha256.items():
        if sha256(folder / f"{split}.txt") != expected:
            raise CorpusError(
                f"{folder / f'{split}.txt'} has changed since {spec.name} was imported from "
                f"{spec.source}. Delete {folder}, and import the text again with: ablate data add"
            )
    return spec.sha256


def _check_name(name: str) -> None:
    taken = (*BUILT_IN, *PUBLISHED, *PUBLISHED_PAIRS)
    if not re.fullmatch(r"[A-Za-z0-9][\w-]*", name):
        expected = "letters, digits, _ and - alone"
        raise ConfigError(wrong_value("NAME", name, expected, "ablate data add"))
    if name in taken:
        raise ConfigError(f"ablate data add: {name} is a corpus of ablate's. Choose another name.")


def _check_same(before: Added, now: Added, target: Path) -> None:
    if before.sha256 != now.sha256:
        raise CorpusError(
            f"{before.name} was imported before, from {before.source}, and has another text or "
            f"other splits. Instead: another name, or delete {target} first; studies of the "
            "earlier text stay as they are."
        )


def _splits(path: Path, field: str | None, shares: Sequence[float] | None) -> dict[str, Lines]:
    """The lines of each split, or those of the whole text as `train` alone."""
    if not path.exists():
        raise CorpusError(f"there is no {path}.")
    files = _files(path)
    parts = _named_splits(files, path) if path.is_dir() else None
    if parts is None:
        return {"train": _joined(files, field)}
    if shares is not None:
        raise ConfigError(
            f"{path} has a file for each split, so --shares does not apply. Leave it out."
        )
    return {split: _joined(own, field) for split, own in parts.items()}


def _named_splits(files: Sequence[Path], folder: Path) -> dict[str, list[Path]] | None:
    """The files of each split, as their names say; None if no name says one."""
    named = {file: _split_named(file) for file in files}
    parts = {split: [file for file in files if named[file] == split] for split in SPLITS}
    given = next((file for file in files if named[file]), None)
    if given is None:
        return None
    called = f"{folder}: {given.name} is named after the split {named[given]}"
    either = "a name with train, test, or one of " + ", ".join(VALID)
    if other := next((file for file in files if named[file] is None), None):
        raise CorpusError(
            f"{called}, and {other.name} after none, or after several. Expected: {either}, for "
            "every file. Instead: rename it, or take it out of the folder."
        )
    if missing := next((split for split in SPLITS if not parts[split]), None):
        raise CorpusError(
            f"{called}, and no file after {missing}. Expected: {either}, for every split. Instead: "
            "add what is missing, or put what is to be split by shares into files of other names."
        )
    return parts


def _split_named(file: Path) -> str | None:
    """The split that a word of the file's name says: valid for `wiki.dev.txt`."""
    words = re.split(r"[^a-z]+", file.stem.lower())
    found = {CALLED[word] for word in words if word in CALLED}
    return found.pop() if len(found) == 1 else None


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files = sorted(file for file in path.iterdir() if file.suffix in (".txt", *_READERS))
    if not files:
        raise CorpusError(f"{path} has no file that ends in .txt, {', '.join(_READERS)}.")
    return files


def _joined(files: Sequence[Path], field: str | None) -> Lines:
    return lambda: (
        line
        for file in files
        for text in _READERS.get(file.suffix, _plain)(file, field)
        for line in text.splitlines() or [""]
    )


def _plain(file: Path, field: str | None) -> Iterator[str]:
    if field is not None:
        raise ConfigError(f"{file} is plain text, which has no field: leave out --field {field}.")
    return lines_of(file)


def _of_parquet(file: Path, field: str | None) -> Iterator[str]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        opened = parquet.ParquetFile(file)
    except (OSError, pa.ArrowException) as error:
        raise CorpusError(f"cannot read {file} as Parquet: {error}.") from error
    with opened:
        schema = opened.schema_arrow
        texts = [one.name for one in schema if pa.types.is_string(one.type)]
        texts += [one.name for one in schema if pa.types.is_large_string(one.type)]
        name = _field(field, texts, str(file), "column of text")
        for batch in opened.iter_batches(columns=[name]):
            yield from (text for text in batch.column(0).to_pylist() if text is not None)


def _of_json_lines(file: Path, field: str | None) -> Iterator[str]:
    for number, line in enumerate(lines_of(file), 1):
        if not line.strip():
            continue
        where = f"{file}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise CorpusError(f"{where}: not a JSON object on one line: {error}.") from None
        if not isinstance(row, dict):
            raise CorpusError(f"{where}: not a JSON object.")
        texts = [key for key, value in row.items() if isinstance(value, str)]
        yield row[_field(field, texts, where, "field of text")]


_READERS = {".parquet": _of_parquet, ".jsonl": _of_json_lines}


def _field(named: str | None, texts: Sequence[str], where: str, kind: str) -> str:
    """The field to read: the one that is named, else `text`, else the only one."""
    chosen = named or (FIELD if FIELD in texts or len(texts) != 1 else texts[0])
    if chosen not in texts:
        raise CorpusError(unknown(kind, chosen, texts, where) + " Name one with --field.")
    return chosen


def _write(
    splits: Mapping[str, Lines], folder: Path, source: Path, shares: Sequence[float] | None
) -> dict[str, int]:
    """Write a file for each split; return their numbers of lines."""
    if len(splits) == len(SPLITS):
        return {split: _write_lines(folder / f"{split}.txt", splits[split]()) for split in SPLITS}
    whole = splits["train"]
    blocks = _cut(whole, tuple(shares or SHARES))
    empty = [split for split, number in zip(SPLITS, blocks, strict=True) if not number]
    if empty:
        raise CorpusError(
            f"{source}: of {sum(blocks):,} lines, the split {empty[0]} would have none: splits are "
            "blocks of whole lines. Instead: a longer text, more line breaks, or other --shares."
        )
    lines = whole()
    return {
        split: _write_lines(folder / f"{split}.txt", (next(lines) for _ in range(number)))
        for split, number in zip(SPLITS, blocks, strict=True)
    }


def _cut(whole: Lines, shares: tuple[float, ...]) -> list[int]:
    """The number of lines of each block; a line belongs to the block in which it starts."""
    total = sum(len(line.split()) for line in whole())
    ends = [sum(shares[: at + 1]) / 100 * total for at in range(len(shares))]
    blocks, at, words = [0] * len(shares), 0, 0
    for line in whole():
        while at < len(ends) - 1 and words >= ends[at]:
            at += 1
        blocks[at] += 1
        words += len(line.split())
    return blocks


def _write_lines(file: Path, lines: Iterable[str]) -> int:
    """Write them; return how many there were."""
    number = 0
    with writing(f"to {file.parent}"), file.open("w", encoding="utf-8") as out:
        for line in lines:
            out.write(line + "\n")
            number += 1
    return number
