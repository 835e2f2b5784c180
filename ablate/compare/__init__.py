"""Statistics, tables, plots, pages and exports, from records; and the function `ablate.compare`."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ablate.public import imported


class _Function(ModuleType):
    """This package, which Python finds as `ablate.compare`, and the function of the same name."""

    @property
    def __wrapped__(self) -> Any:  # whose arguments editors and notebooks show
        return imported("compare")

    def __call__(self, *names: str, **options: Any) -> Any:
        return self.__wrapped__(*names, **options)


sys.modules[__name__].__class__ = _Function
