"""Packages that moved into `ablate.lm`: their old names are imported with a warning until 0.4."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = ("components", "analysis", "testing")


class Moved(MetaPathFinder, Loader):
    """Finds `ablate.components` where it is now, and says so; the module is the same object."""

    def __init__(self) -> None:
        self._specs: dict[ModuleType, ModuleSpec | None] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a specification that loads today's module, if this name is one of the old ones."""
        package, _, rest = fullname.partition(".")
        if package != "ablate" or rest.partition(".")[0] not in MOVED:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return today's module."""
        now = spec.name.replace("ablate.", "ablate.lm.", 1)
        if spec.name.count(".") == 1:  # once, and not for each file in it
            text = f"{spec.name} is {now} now. Import that."
            warnings.warn(text, DeprecationWarning, stacklevel=2)
        module = import_module(now)
        self._specs[module] = module.__spec__  # which the import replaces
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave it as it is."""
        module.__spec__ = self._specs.pop(module)
