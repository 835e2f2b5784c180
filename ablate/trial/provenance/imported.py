"""The files of code that a trial's own file leads to, over imports, and the installed packages.

Followed are modules beside the file, on the path, and of packages that are installed to be edited.
Of an installed distribution, the version counts, and what was edited after it was installed.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import sys
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from ablate.config.identity import digest
from ablate.trial.provenance import syntax
from ablate.trial.provenance.of_trials import is_ablate
from ablate.trial.provenance.opened import LIBRARIES
from ablate.trial.user.user_code import is_users


class Found:
    """What files of code lead to."""

    def __init__(self, read: Callable[[Path], syntax.Code] = syntax.read) -> None:
        """`read` reads a file as it is now, or as this process first saw it."""
        self._read = read
        self.files: dict[Path, syntax.Code] = {}
        self.distributions: dict[str, str] = {}

    def add(self, file: Path, script: Path | None = None) -> None:
        """Add a file, and all that it imports. `script`: the folder of the script that Python was
        started with, where it looks first."""
        if file in self.files:
            return
        self.files[file] = code = self._read(file)
        for level, name in sorted(code.imports):
            self.add_module(name, file, level, script)

    def add_module(self, name: str, file: Path, level: int = 0, script: Path | None = None) -> None:
        """Add a module that a file imports, and all that the module imports."""
        for found in _found(level, name, file, script):
            if isinstance(found, Path):
                self.add(found, script)
            else:
                self.distributions[found] = _version(found)

    @property
    def variables(self) -> set[str]:
        """The variables of the environment that the files read."""
        return {name for code in self.files.values() for name in code.variables}

    @property
    def file_names(self) -> set[str]:
        """The texts in the files that may name other files."""
        return {name for code in self.files.values() for name in code.file_names}

    @property
    def code(self) -> dict[str, str]:
        """The files' digests by their names."""
        return {name: code.digest for name, code in _named(self.files.items())}


def _named(files: Iterable[tuple[Path, syntax.Code]]) -> Iterator[tuple[str, syntax.Code]]:
    """The files under names that are the same on all hosts; of two equal ones, the second has its
    folder before it."""
    seen: set[str] = set()
    for file, code in files:
        name = _name(file)
        name = f"{file.parent.name}/{name}" if name in seen else name
        seen.add(name)
        yield name, code


def _name(file: Path) -> str:
    """A file's path from the folder of its package on: `mylib/layers.py`."""
    root = file.parent
    while (root / "__init__.py").is_file() and root != root.parent:
        root = root.parent
    return file.relative_to(root).as_posix()


def _found(level: int, name: str, file: Path, script: Path | None) -> Iterator[Path | str]:
    """The files of a module and of the packages around it, or the name of its distribution."""
    if level:
        folder = file.parents[min(level, len(file.parents)) - 1]
        yield from _below([str(folder)], name.split(".") if name else [])
        return
    top, *rest = name.split(".")
    if top in sys.stdlib_module_names or is_ablate(top):
        return
    spec = _spec(top, script, file.parent)
    if spec is not None:
        yield from _of_spec(spec, rest)


def _spec(top: str, script: Path | None, beside: Path) -> ModuleSpec | None:
    own = PathFinder.find_spec(top, [str(script)]) if script else None
    try:
        return own or importlib.util.find_spec(top) or PathFinder.find_spec(top, [str(beside)])
    except (ImportError, ValueError, AttributeError):  # a module that was made without a spec
        return None


def _of_spec(spec: ModuleSpec, rest: list[str]) -> Iterator[Path | str]:
    folders = [*(spec.submodule_search_locations or ())]
    file = spec.origin if spec.has_location else None
    if any(not is_own(path) for path in ([file] if file else folders)):
        if (name := _distribution(spec.name)) is not None:
            yield name
        return
    if file and Path(file).is_file():
        yield Path(file)
    yield from _below(folders, rest)


def _below(folders: list[str], names: list[str]) -> Iterator[Path | str]:
    if names:
        spec = PathFinder.find_spec(names[0], folders)
        if spec is not None:
            yield from _of_spec(spec, names[1:])


def is_own(file: str) -> bool:
    """Return whether a file is the user's, and of no installed package."""
    return is_users(file) and not LIBRARIES & {*Path(file).parts}


@functools.cache
def _distribution(module: str) -> str | None:
    try:
        return metadata.distribution(module).name  # most are called as what is imported
    except (metadata.PackageNotFoundError, ValueError):
        return next(iter(_by_module().get(module, ())), None)


@functools.cache
def _by_module() -> dict[str, list[str]]:
    return {name: [*own] for name, own in metadata.packages_distributions().items()}


@functools.cache
def _version(name: str) -> str:
    """A distribution's version; with a digest of what was edited after it was installed."""
    installed = metadata.distribution(name)
    edited = {str(each): syntax.read(path).digest for each, path in _edited(installed)}
    return f"{installed.version} edited {digest(edited)}" if edited else installed.version


def _edited(installed: metadata.Distribution) -> Iterator[tuple[metadata.PackagePath, Path]]:
    """The files of Python that are not as they were installed."""
    files = installed.files or []
    lists = [Path(str(each.locate())) for each in files if each.name == "RECORD"]
    since = max((each.stat().st_mtime for each in lists if each.is_file()), default=None)
    if since is None:  # nothing says what was installed
        return
    for each in files:
        path = Path(str(each.locate()))
        if each.suffix != ".py" or each.hash is None or not path.is_file():
            continue
        known = path.stat()
        if known.st_size != each.size or (known.st_mtime > since and not _as_listed(path, each)):
            yield each, path


def _as_listed(path: Path, listed: metadata.PackagePath) -> bool:
    mode, value = (listed.hash.mode, listed.hash.value) if listed.hash else ("sha256", "")
    now = hashlib.new(mode, path.read_bytes()).digest()
    return urlsafe_b64encode(now).decode().rstrip("=") == value
