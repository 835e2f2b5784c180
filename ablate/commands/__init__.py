"""The commands, one file (or folder) each.

A command's first line is its summary in `ablate --help`. Its module has an `EXAMPLE`, a function
`arguments(parser)` that adds its options, and `run(options)`, which returns the text to print, or
an exit status if it printed its output itself. A command is imported only when it is called.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from ablate.config.plugins import folder_of, plugins
from ablate.errors import ConfigError, unknown

PACKAGE = "ablate.commands"
SHOW = "show"  # runs nothing itself
# As `ablate --help` shows them. A command in brackets is called after the one before it, as in
# `ablate show components`; its own name alone is answered until 0.4.
GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "run": {
        "new": (), "data": (), "plan": (), "study": (), "ui": (), "slurm": (), "forget": (),
    },
    "read": {
        "status": (), "table": ("compare", "papers", "provenance"), "plot": ("importance",),
        "report": ("publish", "sync"), "query": (),
    },
    "judge": {"judge": (), "mcp": ()},
    "look up": {"show": ("components", "spaces", "studies"), "doctor": ("probe",)},
    "one trial": {"trial": ("run", "rerun", "tokens", "analyze")},
}  # fmt: skip
UNDER = {sub: name for group in GROUPS.values() for name, subs in group.items() for sub in subs}
RUN = "run"  # `ablate trial run` is `ablate trial`


def names() -> list[str]:
    """Return every command that runs something, without importing any."""
    return sorted(_files())


def called(name: str) -> str:
    """Return what a command is called by: `show components`."""
    return f"{UNDER[name]} {name}" if name in UNDER else name


def found(words: Sequence[str]) -> list[str]:
    """Return the words of a command line with the command's own name first.

    `show components head` becomes `components head`.
    """
    first, *rest = words or [""]
    if rest and UNDER.get(rest[0]) == first:
        return [first, *rest[1:]] if rest[0] == RUN else rest
    if first == SHOW:
        raise ConfigError(unknown("command", " ".join([SHOW, *rest[:1]]), shown(SHOW)))
    return [*words]


def groups() -> dict[str, list[str]]:
    """Return the commands that there are by their groups; those of other packages come last."""
    known, grouped = names(), {}
    for group, listed in GROUPS.items():
        each = [one for name, subs in listed.items() for one in (name, *subs)]
        grouped[group] = [name for name in each if name in known]
    others = [name for name in known if not any(name in group for group in grouped.values())]
    return {**grouped, "more": others} if others else grouped


def shown(name: str) -> list[str]:
    """Return the names of the commands that are called after one."""
    return [f"{name} {sub}" for sub, above in UNDER.items() if above == name]


@cache
def _files() -> dict[str, tuple[str, Path]]:
    """The package and the file of each command: ablate's own, and those of plug-ins."""
    # ablate's own come last: no plug-in replaces one.
    packages = [*(plugin.commands for plugin in plugins() if plugin.commands), PACKAGE]
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
