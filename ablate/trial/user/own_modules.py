"""The names of the modules that are made of a user's files, and how other processes find them.

Two folders may have a file of one name, so a module is called `ablate_user.STEM_DIGEST`. What a
trial starts with `multiprocessing` or `joblib` imports a function under this name: a finder reads
in the environment which file it is, and runs a copy, since the file may have been edited meanwhile.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from ablate.config.identity import digest
from ablate.errors import StoreError
from ablate.store.files import own_temporary, read_regular, write_whole
from ablate.trial.user.beside import add_folder
from ablate.trial.user.user_code import spec_of

PACKAGE = "ablate_user"
VARIABLE = "ABLATE_OWN_MODULES"  # of the environment: name -> path of file and copy, in JSON
IMPORTABLE = Path(__file__).parent / "importable"  # the folder of the package


def name_of(path: str) -> str:
    """The name of the module of a file, which has this path on the driver's host."""
    return f"{PACKAGE}.{Path(path).stem}_{digest(path)}"


def publish(name: str, file: Path, source: bytes) -> None:
    """Let this process and those that it starts from now on import the module by its name."""
    if str(IMPORTABLE) not in sys.path:
        sys.path.append(str(IMPORTABLE))  # which `multiprocessing` hands on
    importlib.import_module(PACKAGE)
    with contextlib.suppress(OSError, StoreError):  # without a copy, only forks have the module
        copy = own_temporary() / f"{_digest(source)}.py"
        if not copy.is_file():
            write_whole(copy, source)
        os.environ[VARIABLE] = json.dumps(
            {**_published(), name: [str(file.resolve()), str(copy)]},
        )


class Finder(MetaPathFinder):
    """Finds the modules that this process's parent has published."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """How Python makes such a module; None for others, and for one whose copy is damaged."""
        if (known := _published().get(fullname)) is None:
            return None
        file, copy = map(Path, known)
        if _digest(source := read_regular(copy)) != copy.stem:
            return None
        add_folder(file.parent)
        return spec_of(file, fullname, source)


def _digest(source: bytes) -> str:
    return hashlib.sha256(source).hexdigest()


def _published() -> dict[str, list[str]]:
    return json.loads(os.environ.get(VARIABLE, "{}"))
