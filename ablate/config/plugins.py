"""What other packages add: kinds of task, slots and their techniques, commands, analyses, files.

A package names its `Plugin` in its metadata, and is found wherever ablate runs:

    [project.entry-points."ablate.plugins"]
    wavelets = "wavelets.plugin:PLUGIN"

ablate's own language models are one (`ablate/lm/plugin.py`): nothing else imports `ablate.lm`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from ablate.errors import ConfigError, unknown

GROUP = "ablate.plugins"


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """What a package adds to ablate. Modules are given by name, and imported on first use.

    Attributes:
        package: The package itself. Its code is installed where trials run, and never sent there.
            Its folders `search_spaces` and `studies`, if it has them, are found by name.
        kinds: The module whose `KINDS` are its kinds of task (`ablate.config.tasks.Kind`).
        tasks: The modules that register tasks with `@task`.
        runners: What runs trials, `"module:Class"` by the name that records have.
        slots: The slots that it adds, in the order in which they are shown.
        listed_slots: Those of them that take any number of techniques.
        defaults: The technique of a slot for which a config names none.
        examples: The technique of each slot that `ablate new --technique` copies, a short one.
        techniques: The package with a folder for each slot, and in it a file for each technique.
            They may be for slots of any plug-in.
        commands: The package with a file for each command.
        analyses: The module that answers for a study's analyses (`ablate/engine/analyses.py`).
        compiled: `module:function` that compiles what is compiled when needed, for `ablate doctor`:
            it returns "yes", "no" or "off", by what or why not, and what multiplies matrices.
        native: Patterns of source files, below the package's folder, that are compiled when needed.
            Their digest is part of what a trial records of its environment.
    """

    package: str
    kinds: str = ""
    tasks: tuple[str, ...] = ()
    runners: Mapping[str, str] = field(default_factory=dict)
    slots: tuple[str, ...] = ()
    listed_slots: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)
    techniques: str = ""
    commands: str = ""
    analyses: str = ""
    compiled: str = ""
    native: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The package's folder."""
        return folder_of(self.package)


@cache
def plugins() -> tuple[Plugin, ...]:
    """Return every plug-in that is installed, by the names of their entry points."""
    found = {point.name: point for point in entry_points(group=GROUP)}
    return tuple(_loaded(name, found[name]) for name in sorted(found))


def _loaded(name: str, point: Any) -> Plugin:
    try:
        plugin = point.load()
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise ConfigError(
            f"the plug-in '{name}' ({point.value}) cannot be loaded: {why}. Mend or uninstall the "
            "package that has it."
        ) from error
    if not isinstance(plugin, Plugin):
        raise ConfigError(
            f"the plug-in '{name}' ({point.value}) is a {type(plugin).__name__}. Expected: a "
            "Plugin of ablate.config.plugins."
        )
    return plugin


def folder_of(package: str) -> Path:
    """Return the folder of a package, which is not imported for this."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"there is no package '{package}', which a plug-in names.")
    return Path(next(iter(spec.submodule_search_locations)))


def comes_with_a_plugin(module: str) -> bool:
    """Return whether a module is ablate's own, or belongs to a plug-in's package."""
    owners = ("ablate", *(plugin.package for plugin in plugins()))
    return any(module == owner or module.startswith(f"{owner}.") for owner in owners)


def analyses_with(name: str) -> ModuleType:
    """Return the module that answers for the analysis of this name."""
    modules = [importlib.import_module(p.analyses) for p in plugins() if p.analyses]
    known = {each: module for module in modules for each in module.names()}
    if name not in known:
        raise ConfigError(unknown("analysis", name, known))
    return known[name]
