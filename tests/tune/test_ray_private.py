"""Names of Ray's that are no promise: each is where we expect it, and no other file uses one."""

from __future__ import annotations

import ast
import contextlib
import re
from pathlib import Path

import pytest

pytest.importorskip("ray")

import ray
from ray.tune.execution.tune_controller import TuneController

import ablate
from ablate.errors import MissingDependency
from ablate.tune.cluster import ray_private
from ablate.tune.cluster.ray_names import FASTER, KEEPS, check, moved
from ablate.tune.cluster.ray_private import raylet_silenced

PRIVATE = KEEPS | FASTER
HOME = Path(ray_private.__file__)
FILES = [path for path in Path(ablate.__file__).parent.rglob("*.py") if path != HOME]
INTERNAL = re.compile(r"ray(\.\w+)*\._(?!_)|ray\.tune\.execution|ray\.(air|tune)\.\w+\._")
NAMES = {re.split(r"[.:]", name.partition("(")[0])[-1] for name in PRIVATE}
PUBLIC = {"init", "checkpoint", "cleanup", "step", "is_finished"}  # others are called so, too


def test_ray_has_every_name_where_we_use_it():
    """`KEEPS` and `FASTER` say of each why it is used."""
    assert moved(PRIVATE) == [], f"Ray {ray.__version__} has moved names that `ray_private` uses"


@pytest.mark.parametrize(
    "name",
    [
        "ray._private.nodes:Node.start_monitor()",
        "ray._private.node:Nodes.start_monitor()",
        "ray._private.node:Node.start_monitors()",
        "ray._private.node:Node.start_monitor(restart)",
        "ray._private.node:Node.all_processess",
        "ray._private.worker:init._tmp_dir",
        "ray._raylet:persist_ports",
    ],
)
def test_a_name_that_has_moved_is_found(name):
    assert moved([*PRIVATE, name]) == [name.partition(":")[2]]


def test_a_ray_without_a_name_that_only_saves_seconds_is_used_and_that_is_said(monkeypatch):
    assert check() is None
    monkeypatch.delattr("ray._raylet.persist_port")
    note = check()
    assert note is not None and note.startswith(f"Ray {ray.__version__} has no persist_port: the s")
    assert raylet_silenced().__class__ is contextlib.nullcontext


def test_a_ray_without_a_name_that_prevents_a_loss_is_refused(monkeypatch):
    monkeypatch.delattr("ray._raylet.persist_port")
    monkeypatch.delattr(TuneController, "_actor_failed")
    with pytest.raises(MissingDependency, match=r"has no TuneController\._actor_failed.*--local"):
        check()


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


def test_every_private_name_in_the_file_has_a_reason():
    tree = ast.parse(HOME.read_text())
    own = {"_drive", "_refused"}
    parts = (part.attr for part in ast.walk(tree) if isinstance(part, ast.Attribute))
    private = {name for name in parts if name.startswith("_") and not name.startswith("__")}
    assert private - own <= NAMES
