"""The arrows between rooms point one way, and a command imports only what it needs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ablate
from ablate.tune import local
from ablate.tune.schedule import Schedule

PACKAGE = Path(ablate.__file__).parent
STUDY = Path(__file__).parent.parent / "studies" / "doc_layer_mix.py"

# A room, and the rooms whose modules it may import besides its own.
GROUND = {"errors", "layout", "fields", "registry", "config", "environment", "user_code"}
KEPT = {*GROUND, "store", "identity", "journal", "study_record", "workspace"}
WORDS = {*GROUND, "space", "study"}
CORE = {*KEPT, "streams", "ngram", "native", "components", "model", "assemble", "data", "train"}
ALL = {*CORE, *WORDS, "trial", "papers", "plan", "record", "compare", "screen", "tune", "show"}
ALL |= {"mirror", "plots", "lease", "kept", "probe"}
MAY_IMPORT = {
    "errors": set(),
    "layout": set(),
    "fields": {"errors"},
    "registry": {"errors"},
    "environment": {"errors"},
    "user_code": {"errors"},
    "config": {"errors", "fields", "registry"},
    "streams": {"errors"},
    "store": {"errors"},
    "lease": {"errors", "store"},
    "identity": {"errors", "config"},
    "journal": {"errors", "identity", "store"},
    "study_record": {"errors", "store"},
    "workspace": {"errors", "store", "lease"},
    "space": GROUND,
    "study": {*GROUND, "space"},
    "ngram": {"errors"},
    "native": set(),
    "components": {*GROUND, "streams", "model", "ngram", "native"},
    "model": {*GROUND, "streams", "components"},
    "assemble": {*GROUND, "streams", "components", "model"},
    "data": {*GROUND, "identity", "store"},  # corpora travel by the store
    "train": CORE,
    "kept": {"errors", "store", "data"},
    "trial": {*CORE, "kept"},
    "probe": {*CORE, *WORDS, "trial", "plan", "layout"},
    "papers": GROUND,
    "plan": {*CORE, *WORDS, "trial", "papers"},
    "record": KEPT,
    "mirror": {*KEPT, "papers", "record"},
    "compare": {*KEPT, "papers", "mirror"},
    "screen": {*KEPT, "compare"},
    "tune": {*CORE, *WORDS, "trial", "plan", "record"},
    "show": {*CORE, *WORDS, "trial", "plan", "compare"},
    "ask": {*KEPT, "mirror", "compare", "tune"},
    "analysis": {*CORE, "trial", "kept", "layout", "workspace"},
    "by_token": {*KEPT, "kept", "data", "compare"},
    "plots": {*KEPT, "kept", "papers", "compare"},
    "engine": ALL,
    "doctor": ALL,
    "cli": {*ALL, "engine", "ask", "analysis", "by_token", "doctor"},
}
ROOM_OF = {  # modules that share a room under another name
    "ensemble": "model",
    "study_file": "study",
    "single": "trial",
    "screen_board": "screen",
    "cost": "show",
    "ngram_config": "config",
    "plan_record": "plan",
    "clusters": "cli",
    "show_components": "show",
    "show_plan": "show",
    "status": "show",
    "doctor_machine": "doctor",
    "doctor_places": "doctor",
    "doctor_cluster": "doctor",
    "doctor_database": "doctor",
    "doctor_studies": "doctor",
    "__main__": "cli",
}
# Packages from elsewhere, and the only rooms that may import them.
TORCH_ROOMS = {*CORE, "trial", "show", "plan"} - KEPT
OUTSIDE = {
    "torch": {*TORCH_ROOMS, "analysis"},
    "safetensors": {"train"},
    "numpy": {*TORCH_ROOMS, "kept", "compare", "plots", "by_token", "analysis"},
    "pyarrow": {"data", "kept", "store", "record", "compare"},
    "ray": {"tune"},
    "optuna": {"tune"},
    "mlflow": {"record"},
    "sqlalchemy": {"tune", "record"},
    "rich": {"screen"},
    "scipy": {"compare"},
    "duckdb": {"mirror"},
    "matplotlib": {"plots", "analysis"},
}


def room_of(module: str) -> str:
    """`ablate.tune.search` -> tune; `ablate.space_row` -> space."""
    name = module.split(".")[1] if "." in module else "__init__"
    return ROOM_OF.get(name, "space" if name.startswith("space_") else name)


def imports() -> Iterator[tuple[str, str, str]]:
    """Every import of the package: where it stands, the importing module, the imported one."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        module = ".".join(parts).removesuffix(".__init__")
        for node in ast.walk(ast.parse(path.read_text())):
            for imported in _imported(node):
                yield f"{path.relative_to(PACKAGE.parent)}:{node.lineno}", module, imported


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module == "ablate":
        return [f"ablate.{alias.name}" for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def test_no_arrow_points_backwards():
    wrong = []
    for place, module, imported in imports():
        ours, theirs = room_of(module), room_of(imported)
        if "ablate" in (module, imported) or not imported.startswith("ablate.") or ours == theirs:
            continue
        assert ours in MAY_IMPORT, f"{place}: say in MAY_IMPORT what the room '{ours}' may import"
        if theirs not in MAY_IMPORT[ours]:
            wrong.append(f"{place}: {ours} may not import {theirs}")
    assert not wrong, "\n".join(wrong)


def test_packages_from_elsewhere_are_imported_by_their_rooms_only():
    wrong = []
    for place, module, imported in imports():
        package = imported.split(".")[0]
        if package in sys.stdlib_module_names or package == "ablate":
            continue
        if room_of(module) not in OUTSIDE.get(package, ()):
            wrong.append(f"{place}: {room_of(module)} may not import {package}")
    assert wrong == []


def test_the_rooms_themselves_form_no_circle():
    """But for components and the model, whose evaluators are given the model they judge."""
    below = {room: set(may) for room, may in MAY_IMPORT.items()}
    below["components"] -= {"model"}
    settled: set[str] = set()
    while len(settled) < len(below):
        ready = {room for room, may in below.items() if may - {room} <= settled}
        assert ready - settled, f"a circle among {sorted(set(below) - settled)}"
        settled |= ready


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
COMMAND = """
from ablate.cli import main
sys.exit(main({arguments!r}))
"""


def ran(first: str, arguments: list[str], folder: Path) -> str:
    """What a command prints in a fresh process that `first` prepares."""
    script = first + COMMAND.format(arguments=arguments)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=folder, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_help_imports_nothing_heavy(tmp_path):
    forbidden = ("torch", "ray", "optuna", "mlflow", "numpy", "pyarrow", "rich", "scipy")
    assert "examples:" in ran(AT_EXIT.format(forbidden=forbidden), ["--help"], tmp_path)


@pytest.mark.parametrize("arguments", [["status"], ["spaces"], ["components"], ["data", "list"]])
def test_commands_that_train_nothing_import_no_torch(arguments, tmp_path):
    forbidden = ("torch", "ray", "optuna", "mlflow")
    ran(AT_EXIT.format(forbidden=forbidden), arguments, tmp_path)


def test_a_table_is_read_without_torch(workspace):
    """The rooms that a table needs are asked for too, in case the command needs fewer one day."""
    _run_empty_study(workspace)
    rooms = "from ablate import screen, space, papers, study_record, status\n"
    first = AT_EXIT.format(forbidden=("torch", "ray", "optuna", "mlflow")) + rooms
    arguments = ["table", "empty", "--workspace", str(workspace.folder)]
    assert "undecided" in ran(first, arguments, workspace.folder)
    for command in ("plot", "report"):
        assert "empty@s" in ran(first, [command, *arguments[1:]], workspace.folder)


@pytest.mark.parametrize(
    "arguments",
    [
        ["query", "SELECT count(*) FROM trials"],
        ["compare", "takase2018doc"],
        ["query", "SELECT * FROM published LIMIT 1"],
    ],
)
def test_questions_import_neither_torch_nor_mlflow(arguments, tmp_path):
    ran(
        AT_EXIT.format(forbidden=("torch", "ray", "optuna", "mlflow", "pandas")),
        arguments,
        tmp_path,
    )


def test_a_plan_imports_neither_ray_nor_mlflow(workspace):
    first = AT_EXIT.format(forbidden=("ray", "mlflow", "optuna"))
    arguments = ["plan", str(STUDY), "--workspace", str(workspace.folder)]
    assert "15,0,0,0" in ran(first, arguments, workspace.folder)


def test_a_trial_runs_on_a_bare_machine(workspace):
    packages = ("ray", "optuna", "mlflow", "rich", "scipy", "pandas", "sqlalchemy")
    (workspace.folder / "tiny.toml").write_text(TRIAL)
    arguments = ["trial", "tiny.toml", "--workspace", str(workspace.folder)]
    assert "test_ppl" in ran(WITHOUT.format(packages=packages), arguments, workspace.folder)


def test_a_study_on_a_bare_machine_names_what_it_needs(workspace):
    first = WITHOUT.format(packages=("optuna",)) + COMMAND.format(
        arguments=["study", str(STUDY), "--local", "--workspace", str(workspace.folder)]
    )
    done = subprocess.run(
        [sys.executable, "-c", first], capture_output=True, text=True, check=False
    )
    assert done.returncode == 7
    assert "needs the package optuna: pip install 'ablate[study]'" in done.stderr


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
    from ablate.plan import make_plan
    from ablate.study import Arm, Scale, Study, table

    study = Study(
        question="What does it import?",
        base=EMPTY,
        base_arm="a",
        design=table(Arm("a"), Arm("b", {"training.clip": 1.0})),
        scales={"s": Scale(seeds=3)},
        runner="ablate.train.stand_in:StandIn",
        name="empty",
    )
    plan = make_plan(study, "s", data=workspace.data)
    schedule = Schedule(plan, workspace.store, lambda plan: [])
    store = workspace.store.uri
    local.run(schedule, lambda t: {"trial": t.to_plain(), "store": store, "data": workspace.data})
