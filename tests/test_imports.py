"""The arrows between rooms point one way, and a command imports only what it needs."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest

import ablate
from ablate.public import HOMES
from ablate.tune import local
from ablate.tune.schedule import Schedule
from tests.support import places

PACKAGE = Path(ablate.__file__).parent
STUDY = places.STUDIES / "doc_layer_mix.py"

# The folders of `ablate/`, lowest first: each imports from floors below its own, never from its
# own floor or from one above. `lm` is a plug-in: nothing imports it, and it may import everything.
FLOORS = [
    ["moved", "public", "redaction"],
    ["errors"],
    ["config", "papers"],
    ["space", "store"],
    ["results"],
    ["record"],
    ["trial", "compare"],
    ["study", "judging"],
    ["tune"],
    ["engine"],
    ["live"],
    ["commands"],
    ["lm", "cli"],
]
FLOOR_OF = {folder: floor for floor, folders in enumerate(FLOORS) for folder in folders}
FLOOR_OF[""] = len(FLOORS)  # `ablate` itself, and `ablate.__main__`: nobody imports them
# Those of `ablate/lm/`.
LM_FLOORS = [
    ["slots", "sections", "scores"],
    ["kinds"],
    ["model", "data"],
    ["parsing"],
    ["components"],
    ["training"],
    ["analysis", "testing"],
    ["commands", "facts"],
    ["plugin"],
]
LM_FLOOR_OF = {folder: floor for floor, folders in enumerate(LM_FLOORS) for folder in folders}
# The registry imports techniques by name; only analyses may look into some of them.
IMPORT_TECHNIQUES = {"components", "analysis"}
# Packages from elsewhere, and the only folders that may import them.
OUTSIDE = {
    "torch": {"lm", "trial", "study", "tune", "commands", "config"},
    "safetensors": {"trial", "lm"},
    "cloudpickle": {"trial"},
    "numpy": {"lm", "trial", "study", "tune", "commands", "config", "store", "compare"},
    "pyarrow": {"lm", "store", "record", "compare", "judging"},
    "ray": {"tune"},
    "optuna": {"tune"},
    "mlflow": {"record"},
    "sqlalchemy": {"tune", "record"},
    "subword_nmt": {"lm"},
    "tokenizers": {"lm"},
    "sacrebleu": {"lm"},
    "rouge_score": {"lm"},
    "rich": {"engine"},
    "scipy": {"compare"},
    "duckdb": {"record"},
    "matplotlib": {"compare", "lm"},
    "jinja2": {"compare", "live"},
    "starlette": {"live"},
    "uvicorn": {"live"},
    "plotly": {"compare"},
    "IPython": {"engine"},
    "mcp": {"commands"},
}


def folder_of(module: str) -> str:
    """`ablate.tune.search.arm` -> tune; `ablate` itself and `ablate.__main__` have none."""
    name = module.split(".")[1] if "." in module else ""
    return "" if name == "__main__" else name


def lm_folder_of(module: str) -> str:
    """`ablate.lm.model.flow` -> model."""
    return module.split(".")[2] if module.count(".") > 1 else ""


@cache
def nodes() -> Mapping[Path, list[ast.AST]]:
    """Every file of the package, with the nodes that tests ask for."""
    kinds = (ast.Import, ast.ImportFrom, ast.Constant)
    return {
        path: [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)]
        for path in sorted(PACKAGE.rglob("*.py"))
    }


@cache
def imports() -> list[tuple[str, str, str]]:
    """Every import of the package: its location, the importing module, the imported one."""
    found = []
    for path, within in nodes().items():
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        module = ".".join(parts).removesuffix(".__init__")
        for node in within:
            for imported in _imported(node):
                where = f"{path.relative_to(PACKAGE.parent)}:{node.lineno}"
                found.append((where, module, imported))
    return found


def _imported(node: ast.AST) -> list[str]:
    """What it imports: a file, if the name is that of one, else the file that the name is from."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom) or node.module is None:
        return []
    return [_file_of(node.module, alias.name) for alias in node.names]


def _file_of(module: str, name: str) -> str:
    path = PACKAGE.parent.joinpath(*module.split("."), name)
    is_file = path.with_suffix(".py").exists() or (path / "__init__.py").exists()
    return f"{module}.{name}" if is_file else module


def circles(arrows: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return each circle among files, in full: all that import one another, over any number."""
    above: dict[str, set[str]] = {}
    for importing, imported in arrows:
        above.setdefault(importing, set()).add(imported)
    reached = {file: _reached(file, above) for file in above}
    found = {
        frozenset(other for other in others if file in reached.get(other, ()))
        for file, others in reached.items()
    }
    return sorted(sorted(circle) for circle in found if circle)


def _reached(file: str, above: Mapping[str, set[str]]) -> set[str]:
    reached, to_do = set(), [file]
    while to_do:
        new = above.get(to_do.pop(), set()) - reached
        reached |= new
        to_do += new
    return reached


def test_every_folder_has_a_floor():
    files = [*PACKAGE.glob("*.py"), *(file.parent for file in PACKAGE.glob("*/__init__.py"))]
    assert {path.stem for path in files} - {"__init__", "__main__"} == set(FLOOR_OF) - {""}
    lm = PACKAGE / "lm"
    files = [*lm.glob("*.py"), *(file.parent for file in lm.glob("*/__init__.py"))]
    assert {path.stem for path in files} - {"__init__"} == set(LM_FLOOR_OF)


@pytest.mark.slow
def test_no_file_imports_one_that_imports_it():
    """Imports inside functions and for types count too: what they hide is a circle all the same."""
    arrows = [(module, imported) for _, module, imported in imports()]
    assert circles(arrows) == []


def test_editors_find_each_public_name_where_it_is_imported_from():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    shown = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    found = {alias.asname: node.module for node in shown for alias in node.names if alias.asname}
    assert found == HOMES


@pytest.mark.slow
def test_folders_import_from_floors_below_their_own():
    wrong = []
    for path, module, imported in imports():
        ours, theirs = folder_of(module), folder_of(imported)
        if imported.split(".")[0] != "ablate" or ours == theirs:
            continue
        if FLOOR_OF[theirs] >= FLOOR_OF[ours]:
            wrong.append(f"{path}: {ours} may not import {theirs}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_language_models_are_a_plug_in_that_nothing_imports():
    """Neither by an import nor by a name in a text, but for the names that moved."""
    named = [
        str(path.relative_to(PACKAGE))
        for path, within in nodes().items()
        if "lm" not in path.relative_to(PACKAGE).parts[0]
        for node in within
        if isinstance(node, ast.Constant) and re.search(r"\bablate\.lm\.", str(node.value))
    ]
    assert set(named) <= {"moved.py"}
    wrong = [
        f"{path}: {imported}"
        for path, module, imported in imports()
        if folder_of(imported) == "lm" and folder_of(module) != "lm"
    ]
    assert wrong == []


@pytest.mark.slow
def test_folders_of_the_plug_in_import_from_floors_below_their_own():
    wrong = []
    for path, module, imported in imports():
        if folder_of(module) != "lm" or folder_of(imported) != "lm":
            continue
        ours, theirs = lm_folder_of(module), lm_folder_of(imported)
        if ours != theirs and LM_FLOOR_OF[theirs] >= LM_FLOOR_OF[ours]:
            wrong.append(f"{path}: {ours} may not import {theirs}")
    assert not wrong, "\n".join(wrong)


def test_nobody_imports_a_technique_but_by_its_name():
    """Except in `ablate/lm/components/__init__.py`, which authors of techniques import."""
    wrong = [
        f"{path}: {imported}"
        for path, module, imported in imports()
        if imported.startswith("ablate.lm.components")
        and lm_folder_of(module) not in IMPORT_TECHNIQUES
    ]
    assert not wrong, "\n".join(wrong)


def test_packages_from_elsewhere_are_imported_by_their_folders_only():
    wrong = []
    for path, module, imported in imports():
        package = imported.split(".")[0]
        if package in sys.stdlib_module_names or package == "ablate":
            continue
        if folder_of(module) not in OUTSIDE.get(package, ()):
            wrong.append(f"{path}: {folder_of(module)} may not import {package}")
    assert wrong == []


AT_EXIT = """
import atexit, os, sys

def tell():
    loaded = [name for name in {forbidden!r} if name in sys.modules]
    if loaded:
        print("imported:", *loaded, file=sys.stderr, flush=True)
        os._exit(77)

atexit.register(tell)
"""
WITHOUT = """
import sys
from importlib.machinery import PathFinder

class Bare(PathFinder):
    def find_spec(name, path=None, target=None):
        absent = name.partition(".")[0] in {packages!r}
        return None if absent else PathFinder.find_spec(name, path, target)

sys.meta_path = [Bare if finder is PathFinder else finder for finder in sys.meta_path]
"""
COMMANDS = """
from ablate.cli import main
for each in {commands!r}:
    if status := main(each):
        sys.exit(status)
"""


def ran(first: str, folder: Path, *commands: list[str]) -> str:
    """Return the output of commands in one fresh process that `first` prepares."""
    script = first + COMMANDS.format(commands=commands)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_help_and_version_import_nothing_heavy(tmp_path):
    """Nor does what prepares workers, before it has prepared them."""
    forbidden = ("torch", "ray", "optuna", "mlflow", "numpy", "pyarrow", "rich", "scipy")
    first = AT_EXIT.format(forbidden=forbidden)
    assert "examples:" in ran(first, tmp_path, ["--help"])
    first = AT_EXIT.format(forbidden=set(forbidden) - {"pyarrow", "rich"})
    first += "import ablate.commands.study, ablate.engine.drive\n"
    assert "ablate " in ran(first, tmp_path, ["--version"])


@pytest.mark.slow
def test_commands_that_train_nothing_import_neither_torch_nor_mlflow(tmp_path):
    forbidden = ("torch", "ray", "optuna", "mlflow", "pandas")
    commands = (
        ["status"],
        ["components"],
        ["compare", "takase2018doc", "--format", "csv"],
        ["query", "SELECT * FROM published LIMIT 1"],
    )
    ran(AT_EXIT.format(forbidden=forbidden), tmp_path, *commands)


@pytest.mark.slow
def test_a_table_is_read_without_torch(workspace):
    """The modules that a table needs are imported too, in case the command needs fewer one day."""
    _run_empty_study(workspace)
    rooms = "import ablate.commands.status, ablate.engine.screen, ablate.papers, ablate.space\n"
    first = AT_EXIT.format(forbidden=("torch", "ray", "optuna", "mlflow")) + rooms
    table, *others = (
        [command, "empty", "--workspace", str(workspace.folder)]
        for command in ("table", "plot", "report")
    )
    printed = ran(first, workspace.folder, table, *others)
    assert "same results as base arm" in printed
    assert all(each in printed for each in ("deltas.svg", "report.html")), printed


@pytest.mark.slow
def test_a_plan_imports_neither_ray_nor_mlflow(workspace):
    first = AT_EXIT.format(forbidden=("ray", "mlflow", "optuna"))
    arguments = ["plan", str(STUDY), "--workspace", str(workspace.folder)]
    assert "15,0,0,0" in ran(first, workspace.folder, arguments)


@pytest.mark.slow
def test_a_trial_runs_on_a_bare_machine(workspace):
    """With the first evaluator of every token and the built-in text, it parses nothing either."""
    packages = ("ray", "optuna", "mlflow", "rich", "scipy", "pandas", "sqlalchemy")
    (workspace.folder / "tiny.toml").write_text(TRIAL)
    arguments = ["trial", "tiny.toml", "--workspace", str(workspace.folder)]
    first = AT_EXIT.format(forbidden=("ablate.lm.parsing",)) + WITHOUT.format(packages=packages)
    assert "test_ppl" in ran(first, workspace.folder, arguments)


@pytest.mark.slow
def test_a_search_on_a_bare_machine_names_what_it_needs(workspace):
    searched = ["study", "digits_linear", "--scale", "tuned", "--local"]
    first = WITHOUT.format(packages=("optuna", "mlflow")) + COMMANDS.format(
        commands=[[*searched, "--workspace", str(workspace.folder)]]
    )
    done = subprocess.run(
        [sys.executable, "-c", first], capture_output=True, text=True, check=False
    )
    assert done.returncode == 7
    assert "needs the package optuna, which is not installed. Install it" in done.stderr


TRIAL = """
backbone = { name = "lstm", num_layers = 1, units = 8 }
head = { name = "softmax" }
optimizer = { name = "sgd", learning_rate = 1.0 }

[corpus]
name = "grammar"
train_tokens = 2000
eval_tokens = 500

[embedding]
size = 8

[training]
epochs = 1
"""


EMPTY = {
    "corpus.name": "grammar",
    "embedding.size": 8,
    "backbone": "lstm",
    "head": "softmax",
    "optimizer": "sgd",
    "optimizer.learning_rate": 1.0,
    "training.epochs": 1,
}


def _run_empty_study(workspace) -> None:
    """A whole small study of trials that train nothing, in this process."""
    from ablate.study.designs import table
    from ablate.study.plan import make_plan
    from ablate.study.study import Study
    from ablate.study.words import Arm, Scale
    from tests.support.small_studies import order_in

    study = Study(
        question="What does it import?",
        base=EMPTY,
        base_arm="a",
        design=table(Arm("a"), Arm("b", {"training.clip": 1.0})),
        scales={"s": Scale(seeds=3)},
        runner="stand_in",
        name="empty",
    )
    plan = make_plan(study, "s", data=workspace.data)
    schedule = Schedule(plan, workspace.store, lambda plan: [])
    local.run(schedule, order_in(workspace))


@pytest.mark.parametrize("users", [None, "0"])
def test_torch_is_asked_for_huge_pages_unless_the_user_has_said_otherwise(users):
    """torch reads the variable at its first tensor, so importing anything of ablate must set it."""
    name = "THP_MEM_ALLOC_ENABLE"
    environment = {key: value for key, value in os.environ.items() if key != name}
    done = subprocess.run(
        [sys.executable, "-c", f"import os, ablate.errors; print(os.environ['{name}'])"],
        env=environment if users is None else {**environment, name: users},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == (users or "1")


OLD_NAMES = """
import warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    from ablate.components import register
    from ablate.components.head import softmax as old
    from ablate.testing import check_technique
import ablate.lm.components.head.softmax as new
import ablate.lm.components as now
assert old is new and now.__spec__.name == "ablate.lm.components"
print(*(each.message for each in said), sep="\\n")
"""


def test_what_moved_answers_to_its_old_name_with_one_warning_each():
    """The same module: a second one would register its techniques again."""
    done = subprocess.run(
        [sys.executable, "-c", OLD_NAMES], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "ablate.components is ablate.lm.components now. Import that.",
        "ablate.testing is ablate.lm.testing now. Import that.",
    ]
