"""Code sent by value: tasks and techniques with the objects that they use, as they are, in a file.

A function of a script or a notebook cannot be imported by a worker. So the function is pickled by
`cloudpickle`, with its code and with every object that it uses. What Python can import by name is
imported by name.

The first line of the file is JSON, which can be read without running anything: the version of
Python, which must be the reader's, and the digests of the objects. The pickle follows. A pickle is
code: whoever loads one has checked before that the user trusts the whole file (`trust.checked`).
"""

from __future__ import annotations

import json
import linecache
import pickle
import platform
import sys
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ablate.config import registry, tasks
from ablate.config.registry import Technique
from ablate.config.tasks import Kind
from ablate.errors import TrialError
from ablate.trial.provenance.opened import loading
from ablate.trial.user.beside import add_folder
from ablate.trial.user.pickler import is_importable, pickled
from ablate.trial.user.value_digests import digests

PYTHON = ".".join(map(str, sys.version_info[:2]))
Code = Kind | Technique
_made_here: dict[str, Sequence[Code]] = {}  # by the path of the file


def file_of(code: Sequence[Code], files: Iterable[str]) -> bytes:
    """The contents of a file with this code; `files` have the sources that errors show."""
    sources = {file: "".join(linecache.getlines(file)) for file in sorted(files)}
    hints = [(own, _hints(own)) for each in code for own in _configs(each)]
    body = pickled({"code": [*code], "hints": hints, "sources": sources})
    values = {_called(each): dict(each.values) for each in code}
    header = {"python": PYTHON, "folder": folder_of(code), "values": values}
    return json.dumps(header).encode() + b"\n" + body


def parts_of(code: Code) -> list[Any]:
    """The function of a task or the class of a technique, and the classes of its settings."""
    if isinstance(code, Technique):
        return [code.build, code.config]
    return [code.function, *code.sections.values()]


def folder_of(code: Sequence[Code]) -> str:
    """The folder of the script, or in which a notebook runs: Python looks for modules there."""
    file = Path(code[0].file)
    return str(file.parent if file.is_file() else Path.cwd())


def header_of(source: bytes) -> dict[str, Any]:
    """The first line of such a file."""
    return json.loads(source.partition(b"\n")[0])


def keep(path: Path, code: Sequence[Code]) -> None:
    """Remember the objects of a file, which this process then uses themselves."""
    _made_here[str(path)] = code


def registered_again(path: str) -> bool:
    """Register the code of a file that this process has made: its own objects, and no copies.

    If something has changed an object since, it is left alone, and the file has it as it was.
    """
    code = _made_here.get(path, ())
    if any(digests(*parts_of(each)) != each.values for each in code):
        return False
    _register(code)
    return bool(code)


def load(path: Path, source: bytes, *, is_sent: bool = False) -> None:
    """Register the code of a file, whose contents must be trusted. `is_sent`: from another host.

    A worker makes the objects anew for each trial, so that no trial finds what another changed.
    """
    folder = Path(header_of(source)["folder"])
    if not is_sent and folder.is_dir():
        add_folder(folder)
    with loading(folder):
        code = _unpickled(path, source)
    _register(code)


def _register(code: Sequence[Code]) -> None:
    for each in code:
        tasks.add(each) if isinstance(each, Kind) else registry.add(each)


def _unpickled(path: Path, source: bytes) -> Sequence[Code]:
    sent = header_of(source)["python"]
    if sent != PYTHON:
        raise TrialError(
            f"{path.name} was sent by Python {sent}, and {platform.node()} has Python {PYTHON}, "
            "which cannot read the code. Instead: the same Python on all hosts, or put the task "
            "into a module and import that."
        )
    body = pickle.loads(source.partition(b"\n")[2])
    for file, text in body["sources"].items():  # tracebacks show lines, and checks read the code
        linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    for own, hints in body["hints"]:
        own.__annotations__ = hints
    return body["code"]


def _configs(code: Code) -> list[type]:
    """The classes of settings, with their bases, that no import finds."""
    own = code.sections.values() if isinstance(code, Kind) else [code.config]
    return [each for config in own for each in config.__mro__ if not is_importable(each)]


def _hints(config: type) -> Mapping[str, Any]:
    """A class's own annotations as types: their text may have names of the script."""
    every = typing.get_type_hints(config)
    return {name: every[name] for name in vars(config).get("__annotations__", {})}


def _called(code: Code) -> str:
    return f"{'task' if isinstance(code, Kind) else code.slot} '{code.name}'"
