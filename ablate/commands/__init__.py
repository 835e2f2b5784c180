"""The commands, one file (or folder) each.

A command's first line is its summary in `ablate --help`. Its module has an `EXAMPLE`, a function
`arguments(parser)` that adds its options, and `run(options)`, which returns the text to print, or
an exit status if it printed its output itself. A command is imported only when it is called.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

_FOLDER = Path(__file__).parent
# In the order in which a newcomer needs them; the others follow by name.
FIRST = ("new", "data", "plan", "study", "ui", "status", "table", "report", "judge", "compare")


def names() -> list[str]:
    """Return every command, from its file or folder, without importing any; `FIRST` first."""
    files = [*_FOLDER.glob("*.py"), *(file.parent for file in _FOLDER.glob("*/__init__.py"))]
    others = sorted({file.stem for file in files if not file.name.startswith("_")} - {*FIRST})
    return [*FIRST, *others]


def summary(name: str) -> str:
    """Return the first line of a command's docstring, as shown in the help."""
    file = _FOLDER / f"{name}.py"
    file = file if file.is_file() else _FOLDER / name / "__init__.py"
    # Read, and not imported: `ablate --help` lists every command at once.
    with file.open(encoding="utf-8") as lines:
        line = lines.readline().strip().strip('"').rstrip(".")
    return f"{line[0].lower()}{line[1:]}"


def load(name: str) -> ModuleType:
    """Return a command's module, imported now."""
    return import_module(f"ablate.commands.{name}")
