"""Modules beside a user's file: it imports them, as it does when `python FILE` runs it.

A process has one module of a name. So a file is refused if it imports a module of its folder whose
name another module has already, or another file's folder: the two would mix in silence.
"""

from __future__ import annotations

import ast
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from ablate.errors import StudyError

_modules: dict[str, Path] = {}  # that files of this process import from their folders, by name


def find_beside(file: Path, source: bytes) -> None:
    """Let a file import the modules of its folder from now on."""
    folder = file.resolve().parent
    for name, module in _imported_beside(folder, source, {}).items():
        loaded = getattr(sys.modules.get(name), "__file__", None)
        other = _modules.get(name) or (Path(loaded).resolve() if loaded else module)
        if other != module:
            raise StudyError(
                f"{file}: it imports the module '{name}' of its folder ({module}), and this "
                f"process has another one of that name: {other}. Instead: rename one of the two, "
                "or use them in processes of their own."
            )
        _modules[name] = module
    add_folder(folder)


def add_folder(folder: Path) -> None:
    """Look in a folder for modules before any other, as Python does for a script's."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _imported_beside(folder: Path, source: bytes, found: dict[str, Path]) -> dict[str, Path]:
    """The modules of a folder that a source imports, or one of these, by name."""
    for name in _imports(source):
        places = (folder / f"{name}.py", folder / name / "__init__.py")
        module = next((place for place in places if place.is_file()), None)
        if module is not None and name not in found and name != "ablate":
            found[name] = module
            _imported_beside(folder, module.read_bytes(), found)
    return found


def _imports(source: bytes) -> Iterator[str]:
    """The first parts of the names of modules that a source imports, wherever it does."""
    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module.partition(".")[0]
