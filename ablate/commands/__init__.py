"""The commands, one file (or folder) each.

A command's first line is its summary in `ablate --help`. Its module has an `EXAMPLE`, a function
`arguments(parser)` that adds its options, and `run(options)`, which returns the text to print, or
an exit status if it printed its output itself. A command is imported only when it is called.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from ablate.config.plugins import folder_of, plugins

PACKAGE = "ablate.commands"
# In the order in which a newcomer needs them; the others follow by name.
FIRST = ("new", "data", "plan", "study", "ui", "status", "table", "report", "judge", "compare")


def names() -> list[str]:
    """Return every command, from its file or folder, without importing any; `FIRST` first."""
    return [*FIRST, *sorted({*_files()} - {*FIRST})]


@cache
def _files() -> dict[str, tuple[str, Path]]:
    """The package and the file of each command: ablate's own, and those of plug-ins."""
    packages = [PACKAGE, *(plugin.commands for plugin in plugins() if plugin.commands)]
    return {
        name: (package, file)
        for package in packages
        for name, file in _of_folder(folder_of(package))
        if not name.startswith("_")
    }


def _of_folder(folder: Path) -> Iterator[tuple[str, Path]]:
    yield from ((file.stem, file) for file in folder.glob("*.py"))
    yield from ((file.parent.name, file) for file in folder.glob("*/__init__.py"))


def summary(name: str) -> str:
    """Return the first line of a command's docstring, as shown in the help."""
    # Read, and not imported: `ablate --help` lists every command at once.
    with _files()[name][1].open(encoding="utf-8") as lines:
        line = lines.readline().strip().strip('"').rstrip(".")
    return f"{line[0].lower()}{line[1:]}"


def load(name: str) -> ModuleType:
    """Return a command's module, imported now."""
    return import_module(f"{_files()[name][0]}.{name}")
