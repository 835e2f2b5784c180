"""Names of Ray's that are no promise: each is where we expect it, and no other file uses one."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

pytest.importorskip("ray")

import ray

import ablate
from ablate.tune.cluster import ray_private
from ablate.tune.cluster.ray_private import PRIVATE

HOME = Path(ray_private.__file__)
FILES = [path for path in Path(ablate.__file__).parent.rglob("*.py") if path != HOME]
INTERNAL = re.compile(r"ray(\.\w+)*\._|ray\.tune\.execution|ray\.(air|tune)\.\w+\._")
NAMES = {re.split(r"[.:]", name.partition("(")[0])[-1] for name in PRIVATE}
PUBLIC = {"init", "checkpoint", "cleanup", "step", "is_finished"}  # others are called so, too


def moved(private: str) -> str | None:
    """What this Ray has instead of the name, if it is not as we use it."""
    name, called, parameters = private.rstrip(")").partition("(")
    module, _, path = name.partition(":")
    try:
        owner = importlib.import_module(module)
    except ImportError as error:
        return f"{name}: {error}"
    *above, last = path.split(".")
    for part in above:
        owner = getattr(owner, part, None)
    found = getattr(owner, last, None)
    if called:
        if not callable(found):
            return f"{name} is no function"
        names = ", ".join(each for each in inspect.signature(found).parameters if each != "self")
        return None if names == parameters else f"{name} has the parameters ({names})"
    there = owner is not None and (hasattr(owner, last) or _sets(owner, last))
    return None if there else f"{name} is gone"


def _sets(owner: object, name: str) -> bool:
    """Whether objects of a class get the attribute, or a function takes it from `kwargs`."""
    text = inspect.getsource(owner)  # type: ignore[arg-type]
    return bool(re.search(rf"self\.{name}\b.*=[^=]|kwargs\.pop\(\"{name}\"", text))


def test_ray_has_every_name_where_we_use_it():
    wrong = [f"{text}. Used since: {why}" for name, why in PRIVATE.items() if (text := moved(name))]
    assert not wrong, f"Ray {ray.__version__} has moved:\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    "name",
    [
        "ray._private.nodes:Node.start_monitor()",
        "ray._private.node:Nodes.start_monitor()",
        "ray._private.node:Node.start_monitors()",
        "ray._private.node:Node.start_monitor(restart)",
        "ray._private.node:Node.all_processess",
        "ray._private.worker:init._tmp_dir",
    ],
)
def test_a_name_that_has_moved_is_told(name):
    assert str(moved(name)).startswith(name.partition("(")[0])


def used(text: str) -> set[str]:
    """The private names of Ray's that a file imports, calls or reads."""
    found: set[str] = set()
    for part in ast.walk(ast.parse(text)):
        if isinstance(part, ast.ImportFrom) and (part.module or "").partition(".")[0] == "ray":
            found |= {f"{part.module}.{name.name}" for name in part.names}
        elif isinstance(part, ast.Import):
            found |= {name.name for name in part.names}
        elif isinstance(part, ast.Attribute):
            found |= {part.attr, ast.unparse(part)}
        elif isinstance(part, ast.keyword):
            found |= {part.arg or ""}
    return {name for name in found if INTERNAL.match(name) or name in NAMES - PUBLIC}


def test_no_other_file_uses_a_private_name_of_ray():
    assert {str(path): names for path in FILES if (names := used(path.read_text()))} == {}


@pytest.mark.parametrize(
    "text",
    [
        "from ray._private import node",
        "import ray.tune.execution.tune_controller",
        "from ray.air.execution._internal import RayActorManager",
        "ray._private.worker",
        "ray.init(_temp_dir='x')",
        "controller._actor_cache.clear()",
    ],
)
def test_such_a_use_is_found(text):
    assert used(text)


def test_every_private_name_in_the_file_has_a_reason():
    tree = ast.parse(HOME.read_text())
    own = {"_drive", "_refused"}
    parts = (part.attr for part in ast.walk(tree) if isinstance(part, ast.Attribute))
    private = {name for name in parts if name.startswith("_") and not name.startswith("__")}
    assert private - own <= NAMES
