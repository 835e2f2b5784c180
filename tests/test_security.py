"""The threats of docs/security.md outside the deployment, each tried.

`ablate query` is tried in tests/mirror/test_query.py, the deployment in tests/k8s.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ablate.commands.spaces import show_space
from ablate.errors import AblateError, StoreError, StudyError
from ablate.space import space
from ablate.store.store import Store
from ablate.store.workspace import Workspace, open_workspace
from ablate.study.designs import table
from ablate.study.study import Study
from ablate.study.words import Arm, Scale
from ablate.trial import checkpoint
from tests.support import places, small_studies

PACKAGE = places.ROOT / "ablate"
SECRET = "correct-horse-battery-staple-4711"
BASE = {**small_studies.BASE, "training.epochs": 2}

# What runs code that it finds in data: modules, functions, methods by name.
MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
CALLS = {"eval", "exec", "compile", "__import__", "execfile"}
METHODS = {"load_module", "unpickle", "unsafe_load", "full_load"}
# A pickle of a script's code is code: it is loaded after `trust.checked`, as files of code are.
LOADS_TRUSTED_CODE = {
    "trial/user/by_value.py": ["import pickle"],
    "trial/user/pickler.py": ["import cloudpickle"],
}
LOADERS = {("torch", "load"), ("np", "load"), ("numpy", "load"), ("yaml", "load")}


def _calls(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The names of what is imported and called, with lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((f"import {alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield f"import {node.module}", node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id, node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
            yield f"{owner}.{node.func.attr}", node.lineno
            if any(k.arg == "allow_pickle" and not _is_false(k.value) for k in node.keywords):
                yield "allow_pickle", node.lineno


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _is_forbidden(name: str) -> bool:
    if name.startswith("import "):
        return name.removeprefix("import ").split(".")[0] in MODULES
    owner, _, method = name.rpartition(".")
    loads = (owner, method) in LOADERS or method in METHODS
    return loads or name in CALLS or name == "allow_pickle"


def forbidden(text: str) -> list[tuple[str, int]]:
    return [result for result in _calls(ast.parse(text)) if _is_forbidden(result[0])]


def test_no_source_file_unpickles_or_evaluates() -> None:
    files = list(PACKAGE.rglob("*.py"))
    assert len(files) > 100
    result = {str(file.relative_to(PACKAGE)): forbidden(file.read_text()) for file in files}
    found = {file: [name for name, _ in calls] for file, calls in result.items() if calls}
    assert found == LOADS_TRUSTED_CODE


class Malice:
    """Unpickling it creates a file."""

    def __init__(self, path: Path) -> None:
        self.place = path

    def __reduce__(self):
        return os.system, (f"touch {self.place}",)


def _malicious(path: Path) -> list[bytes]:
    import torch

    plain, saved = pickle.dumps(Malice(path)), io.BytesIO()
    torch.save(Malice(path), saved)
    return [plain, saved.getvalue()]


@pytest.mark.slow
def test_a_planted_checkpoint_runs_nothing(workspace: Workspace, tmp_path: Path) -> None:
    """A pickle is reported as damage, wherever it is in the store."""
    mark = tmp_path / "executed"
    pickle.loads(_malicious(mark)[0])  # it is as malicious as it says
    assert mark.exists()
    mark.unlink()
    store = workspace.store
    for data in _malicious(mark):
        for key in (checkpoint.last_key("0" * 16), checkpoint.weights_key("0" * 16)):
            store.write(key, data)
            with pytest.raises(AblateError, match="damaged"):
                checkpoint.read(store, key)
        store.write("trials/x/journal.json", data)
        with pytest.raises(StoreError, match="damaged"):
            store.read_json("trials/x/journal.json")
    assert not mark.exists()


@pytest.mark.slow
def test_mlflow_never_unpickles() -> None:
    """Pickles are off before MLflow is imported, whatever the environment says."""
    script = """
import os, sys
from ablate.record import quiet
quiet.load("mlflow.tracking")
from mlflow.environment_variables import MLFLOW_ALLOW_PICKLE_DESERIALIZATION as switch
sys.exit(3 if switch.get() else 0)
"""
    env = {**os.environ, "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "true"}
    assert subprocess.run([sys.executable, "-c", script], env=env).returncode == 0
    from ablate.record.places import ui_environment

    assert ui_environment("sqlite:///x")["MLFLOW_ALLOW_PICKLE_DESERIALIZATION"] == "false"


@pytest.mark.parametrize(
    "key", ["../out", "a/../../out", "/etc/passwd", "a/..", "..", "a\\..\\b", "a/../b"]
)
def test_no_key_leaves_the_store(tmp_path: Path, key: str) -> None:
    store = Store(str(tmp_path / "store"))
    calls = (
        lambda: store.write(key, b"x"),
        lambda: store.read(key),
        lambda: store.exists(key),
        lambda: store.names(key),
        lambda: store.delete(key),
    )
    for call in calls:
        with pytest.raises(StoreError, match="not a path inside the store"):
            call()
    assert not (tmp_path / "out").exists()


def study(name: str = "secretive", **words) -> Study:
    return Study(
        question="?",
        base=BASE,
        base_arm="a",
        design=table(Arm("a"), Arm("b", {"training.clip": 9.0})),
        scales={"s": Scale(seeds=1)},
        runner="stand_in",
        name=name,
        **words,
    )


@pytest.mark.parametrize("name", ["../out", "/tmp/out", "..", "a\\b", "a\0b", ".hidden"])
def test_no_study_leaves_its_folder(name: str) -> None:
    with pytest.raises(StudyError, match="name"):
        study(name)


@pytest.mark.parametrize("name", ["../../out", "/tmp/out", ".."])
def test_no_study_asked_for_leaves_its_folder(workspace: Workspace, name: str) -> None:
    from ablate.commands.table import show_table

    with pytest.raises(AblateError):
        show_table(workspace, name, "text")


EVIL_SPACE = """
paper = "none"
tables = ["__import__('os').system('touch MARK')"]

["Rate"]
field = "optimizer.learning_rate"
choices = ["__import__('os').system('touch MARK')", "${jndi:ldap://x}", "{0.__class__}"]
"""


def test_a_search_space_executes_nothing(tmp_path: Path) -> None:
    mark, file = tmp_path / "mark", tmp_path / "evil.toml"
    file.write_text(EVIL_SPACE.replace("MARK", str(mark)))
    with pytest.raises(AblateError):
        result = space.load(str(file))
        show_space(result)
        result.check()
    assert not mark.exists()


ENVIRONMENT = {
    "MLFLOW_TRACKING_PASSWORD": SECRET,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "RAY_AUTH_TOKEN": SECRET,
    "POSTGRES_PASSWORD": SECRET,
    "HF_TOKEN": SECRET,
}


@pytest.mark.slow
def test_secrets_reach_no_log_param_tag_or_artifact(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A secret is put in the environment and in every URL, and then searched for in every file."""
    from ablate.commands.status import show_status
    from ablate.engine.run import RunOptions, run_study

    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    server = f"http://user:{SECRET}@127.0.0.1:9"  # nobody answers there
    away = open_workspace(str(workspace.folder), mlflow=server)
    ended = run_study(study(), "s", away, RunOptions(local=True, quiet=False))
    assert ended.unrecorded and SECRET not in ended.unrecorded
    run_study(study(), "s", workspace, RunOptions(local=True, quiet=False))
    print(show_status(workspace, "secretive"))
    printed = capfd.readouterr()
    assert "secretive" in printed.out and SECRET not in printed.out + printed.err
    _check_records(workspace)
    _check_files(workspace.folder)


def _check_files(folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) > 10
    assert [str(path) for path in files if SECRET.encode() in path.read_bytes()] == []


def _check_records(workspace: Workspace) -> None:
    with sqlite3.connect(workspace.folder / "mlflow.db") as database:
        for kind in ("params", "tags", "experiment_tags"):
            values = [row[0] for row in database.execute(f"select value from {kind}")]
            assert values and not any(SECRET in str(value) for value in values), kind


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["status", "--store", f"s3://KEY:{SECRET}@bucket/x?nonsense=1"],
        ["query", "SELECT 1", "--results", f"s3://KEY:{SECRET}@bucket/x"],
        ["publish", "mix", "--to", f"s3://KEY:{SECRET}@bucket/x"],
        ["status", "--store", f"nonsense://host/x?secret_key={SECRET}"],
        ["sync", "--mlflow", f"ftp://{SECRET}@host"],
        ["doctor", "--store", f"s3://KEY:{SECRET}@bucket/x?nonsense=1"],
    ],
)
def test_no_location_is_shown_with_its_secret(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    from ablate import cli

    assert cli.main([*words, "--workspace", str(tmp_path)])
    printed = capsys.readouterr()
    assert "***" in printed.out + printed.err and SECRET not in printed.out + printed.err


def test_a_uri_is_no_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was printed with its password, which became a folder's name."""
    from ablate import cli
    from ablate.trial.travel import host_folder

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ABLATE_WORKSPACE", f"s3://KEY:{SECRET}@bucket/x")
    for words in (["status"], ["data", "list"], ["sync"], ["doctor"]):
        assert cli.main(words) == 4
        printed = capsys.readouterr()
        assert "the workspace s3://***:***@bucket/x is a URI" in printed.err
        assert SECRET not in printed.out + printed.err
    with pytest.raises(StoreError, match=r"s3://\*\*\*:\*\*\*@bucket/x is a URI"):
        host_folder()
    assert not list(tmp_path.iterdir())


def test_a_terminal_is_sent_no_control_characters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A record could set the clipboard, or hide what was printed before."""
    from ablate import cli

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    result = "arm \x1b]52;c;x\x07 \x9b2J\r two\tthree\n"
    out, error, file = Terminal(), Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", error)
    cli._finish(result)
    cli._fail(result, 5)
    for printed in (out.getvalue(), error.getvalue()):
        assert "two\tthree\n" in printed and not set(printed) & set("\x1b\x07\x9b\r")
    monkeypatch.setattr(sys, "stdout", file)
    cli._finish(result)
    assert file.getvalue() == f"{result}\n"


def test_a_bugs_traceback_has_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ablate import cli
    from ablate.commands import status

    def broken(*_: object) -> None:
        raise RuntimeError(f"no connection to https://user:{SECRET}@host")

    monkeypatch.setattr(status, "show_status", broken)
    try:
        cli.main(["status", "--workspace", str(tmp_path)])
    except RuntimeError:
        sys.excepthook(*sys.exc_info())
    error = capsys.readouterr().err
    assert "Traceback" in error and "user:***@host" in error and SECRET not in error


def test_an_exception_is_recorded_without_a_secret(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ablate.trial.stand_in import StandIn

    def broken(*_: object) -> None:
        raise ConnectionError(f"psql 'host=x password={SECRET}' or https://u:{SECRET}@host")

    monkeypatch.setattr(StandIn, "advance", broken)
    trial = planted(workspace)
    text = workspace.store.read(f"trials/{trial}/journal.json") or b""
    assert b"ConnectionError" in text and b"***" in text and SECRET.encode() not in text


def test_a_lock_that_somebody_planted_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names under /tmp are easy to guess, and a link there would lead to any file."""
    import tempfile

    from ablate.record.client import server_lock
    from ablate.record.places import digest

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder, victim = tmp_path / f"ablate-{os.getuid()}", tmp_path / "victim"
    with server_lock("http://host"):
        assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    (folder / f"{digest('http://other')}.lock").symlink_to(victim)
    with pytest.raises(StoreError, match="only you can write to"), server_lock("http://other"):
        pass
    assert not victim.exists()


def test_a_searches_url_keeps_its_password(workspace: Workspace) -> None:
    from ablate.errors import RecordError
    from ablate.tune.search import retrying as retrying_storage
    from ablate.tune.search.arm import open_storage

    pytest.importorskip("psycopg")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrying_storage, "PATIENCE_SECONDS", 0.0)
        patch.setattr(retrying_storage.with_retries, "__defaults__", (0.0,))
        with pytest.raises(RecordError, match="does not answer") as caught:
            open_storage(f"postgresql+psycopg://user:{SECRET}@127.0.0.1:9/x", "s")
    assert SECRET not in str(caught.value)


def test_the_command_that_is_kept_has_no_password(capsys: pytest.CaptureFixture[str]) -> None:
    from ablate import cli
    from ablate.commands.study import resume_command

    words = ["study", "x.py", "--mlflow", f"http://user:{SECRET}@host:5000"]
    words += ["--searches", f"postgresql://user:{SECRET}@host/x"]
    assert SECRET not in resume_command(cli.parser("study").parse_args(words))


# -- code that a record names --

PLANTED = """
from pathlib import Path
from ablate.lm.components import Regularizer, register
from dataclasses import dataclass

Path(r"{mark}").write_text("executed")

@dataclass(frozen=True, kw_only=True)
class C: ...

@register("regularizer", "{name}", config=C)
class Planted(Regularizer):
    def __init__(self, config): ...
"""


def planted(workspace: Workspace, **changed: object) -> str:
    """Run a trial, then write into its journal as anybody can who shares the store."""
    from ablate.config.identity import make_trial
    from ablate.config.resolve import resolve
    from ablate.lm.data.corpus import corpus_digest
    from ablate.store import journal as journals
    from ablate.trial.run import TrialRun

    values = {**small_studies.BASE, "training.epochs": 1}
    config = resolve(values)
    trial = make_trial(
        config,
        values=values,
        seed=1,
        corpus_digest=corpus_digest(config.corpus, workspace.data),
        runner="stand_in",
    )
    run = TrialRun(trial, workspace.store, workspace.data)
    while not run.advance(1.0):
        pass
    plain = workspace.store.read_json(journals.key(trial.id))
    plain["trial"] |= changed
    workspace.store.write_json(journals.key(trial.id), plain)
    return trial.id


@pytest.fixture
def evil(tmp_path: Path) -> tuple[Path, Path]:
    """A file of code, and the file that it writes when it runs."""
    file, mark = tmp_path / "shared" / "evil.py", tmp_path / "executed"
    file.parent.mkdir()
    file.write_text(PLANTED.format(mark=mark, name=f"planted_{tmp_path.name[-6:]}".lower()))
    return file, mark


def ran(*words: str, workspace: Workspace) -> int:
    from ablate import cli

    return cli.main([*words, "--workspace", str(workspace.folder)])


@pytest.mark.parametrize("command", [["rerun"], ["analyze", "mixture_use"]])
def test_a_file_that_a_record_names_is_run_only_after_trust(
    workspace: Workspace, evil: tuple[Path, Path], command: list[str], capsys
) -> None:
    file, mark = evil
    file.write_text(f"{file.read_text()}# {command[0]}: other contents than the other test's\n")
    trial = planted(workspace, modules=[str(file)])
    assert ran(*command, trial, workspace=workspace) == 5
    error = capsys.readouterr().err
    assert str(file) in error and "--trust" in error and "ablate study FILE" in error
    assert not mark.exists()
    with contextlib.suppress(RuntimeError):  # the stand-in's weights are not a model's
        ran(*command, trial, "--trust", workspace=workspace)
    assert mark.read_text() == "executed"


def test_trust_is_of_the_contents_and_not_of_the_path(evil: tuple[Path, Path]) -> None:
    from ablate.trial.provenance import trust

    file, _ = evil
    trust.remember([file])
    moved = file.with_name("moved.py")
    file.rename(moved)
    assert trust.checked(moved)
    moved.write_text(moved.read_text() + "# edited by somebody else\n")
    with pytest.raises(AblateError, match="--trust"):
        trust.checked(moved)


def test_a_list_of_trust_that_others_can_write_is_not_believed(
    tmp_path: Path, evil: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import hashlib

    from ablate.trial.provenance import trust

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file, _ = evil
    folder = tmp_path / "state" / "ablate" / "trusted"
    folder.mkdir(parents=True)
    (folder / hashlib.sha256(file.read_bytes()).hexdigest()).touch()
    folder.chmod(0o777)
    with pytest.raises(StoreError, match="chmod 700"):
        trust.checked(file)
    folder.chmod(0o700)
    assert trust.checked(file)


def test_where_no_state_can_be_written_a_users_own_files_still_run(
    tmp_path: Path, evil: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ablate.trial.run import load_own

    (tmp_path / "state").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    load_own([str(evil[0])])
    assert evil[1].exists()


def test_compiled_code_next_to_a_trusted_file_is_not_run(
    tmp_path: Path, evil: tuple[Path, Path]
) -> None:
    """Python itself would run it: it only compares the time and the size."""
    import importlib.util
    import py_compile

    from ablate.trial.run import load_own

    file, mark = evil
    good = tmp_path / "good.py"
    good.write_text("x = 1".ljust(file.stat().st_size))
    os.utime(good, (1e9, 1e9))
    os.utime(file, (1e9, 1e9))
    cached = importlib.util.cache_from_source(str(good))
    py_compile.compile(str(file), cached, doraise=True)
    load_own([str(good)])
    assert not mark.exists()


@pytest.mark.parametrize("runner", ["evil_package.evil:Runner", "evil_runner:Runner"])
def test_a_runner_that_a_record_names_is_not_imported(
    workspace: Workspace, tmp_path: Path, runner: str, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """Not even when a study looks whether files of its trials were edited."""
    from ablate.store import journal as journals
    from ablate.trial.provenance.changes import Changes

    mark = tmp_path / "executed"
    code = f"open({str(mark)!r}, 'w').close()\n"
    (tmp_path / "evil_package").mkdir()
    for name in ("evil_package/__init__", "evil_package/evil", "evil_runner"):
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    trial = planted(workspace, runner=runner)
    for words in (["rerun", trial], ["rerun", trial, "--trust"]):
        assert ran(*words, workspace=workspace) == 2
        assert f"runner '{runner}' is none of ablate's own" in capsys.readouterr().err
    journal = journals.read(workspace.store, trial)
    assert journal is not None
    journal.note(sources={"evil.py": "0" * 16})
    assert [each.name for each in Changes().since(journal.trial, journal)] == ["evil.py"]
    assert not mark.exists()


def test_a_worker_runs_what_its_driver_sends_without_a_list(
    workspace: Workspace, evil: tuple[Path, Path], tmp_path: Path
) -> None:
    """On another host: the file has another path there, and no list of trust exists."""
    from ablate.store import journal as journals
    from ablate.tune.worker import Worker

    file, mark = evil
    trial = planted(workspace, modules=["/of/the/driver/sent.py"])
    journal = journals.read(workspace.store, trial)
    assert journal is not None
    workspace.store.delete(journals.key(trial))
    file.write_text(f"{file.read_text()}# of the driver\n")
    order = {"store": workspace.store.uri, "data": workspace.data}
    order |= {"modules": {"/of/the/driver/sent.py": str(file)}}
    Worker({"trial": journal.trial.to_plain(), **order})
    assert mark.read_text() == "executed"


@pytest.mark.parametrize("id", ["../../../out", "/tmp/out"])
@pytest.mark.usefixtures("without_pages", "without_mlflow")
def test_no_record_writes_outside_its_folder(workspace: Workspace, id: str, capsys) -> None:
    """Ids and keys in records become names of files."""
    trial = planted(workspace, id=id)
    assert ran("analyze", "learning_curve", trial, workspace=workspace) == 4
    assert "is damaged" in capsys.readouterr().err
    run_by_hand(workspace)
    store = workspace.store
    plain = store.read_json("studies/secretive@s/study.json")
    store.write_json("studies/secretive@s/study.json", {**plain, "name": id})
    assert ran("report", "secretive", workspace=workspace) == 4
    assert "is damaged" in capsys.readouterr().err


def run_by_hand(workspace: Workspace) -> None:
    from ablate.engine.run import RunOptions, run_study

    run_study(study(), "s", workspace, RunOptions(local=True, quiet=True))
