"""Commands as trials: what they print, how they fail, and that nothing of them is left running."""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from ablate import Metric, run, task_command
from ablate.config import tasks
from ablate.config.identity import make_trial
from ablate.config.resolve import resolve
from ablate.errors import ConfigError
from ablate.lm.kinds import KINDS
from ablate.store.journal import Journal
from ablate.store.outcome import Status, is_its_own
from ablate.store.store import Store
from ablate.trial.run import TrialRun
from ablate.trial.user.user_code import executed

SCRIPT = """
import argparse, json, random
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()
chance = random.Random(options.seed)
print("reading data ... {not json}")
for epoch in range(3):
    luck = chance.random() * options.lr / 100
    print(json.dumps({"valid_accuracy": 0.5 + options.lr + epoch / 10 + luck, "loss": 2.0}))
print('{"a line": "that is cut')
print(json.dumps([1, 2]))
print(json.dumps({"test_accuracy": 0.6 + options.lr + luck}))
"""
DECLARED = """\
from ablate import Metric, task_command
METRIC = Metric("accuracy", better="higher")
"""
STUDY = """
from ablate import Arm, Metric, Scale, Study, table, task_command

task_command(
    "classifier",
    "python train.py --lr {lr} --seed {seed}",
    settings={"lr": 0.1},
    metrics=Metric("accuracy", better="higher"),
)
study = Study(
    question="Does a higher rate help?",
    base={"task": "classifier"},
    base_arm="low",
    design=table(Arm("low"), Arm("high", {"classifier.lr": 0.2})),
    scales={"laptop": Scale(seeds=3)},
)
"""


@pytest.fixture(autouse=True)
def own_tasks(monkeypatch):
    # Other tests of this process may have left tasks of these names.
    shipped = KINDS
    monkeypatch.setattr(tasks, "_kinds", {kind.name: kind for kind in shipped})


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "classifier.py").write_text(STUDY)
    return tmp_path


def run_command(
    command: str,
    folder: Path,
    *,
    seconds: float = 60.0,
    more: str = "",
    cut_after: int | None = None,
    **settings,
) -> Journal:
    """Run one trial of a command that a file in the folder registers, with more arguments.

    `cut_after` is the epoch after which it is cut once, and started again.
    """
    given = f"{command!r}, settings={settings!r}, metrics=METRIC, {more}"
    declaration = f"task_command('own', {given})"
    (folder / "own.py").write_text(f"{DECLARED}{declaration}")
    executed(folder / "own.py", "own")
    values = {"task": "own"}
    trial = make_trial(resolve(values), values=values, seed=3, corpus_digest="", reads_test=True)
    store, deadline = Store(str(folder / "store")), time.time() + seconds
    going = TrialRun(trial, store, "data")
    while not going.advance(seconds=1):
        assert time.time() < deadline
        if len(going.journal.epochs) == cut_after:
            going.save()
            going, cut_after = TrialRun(trial, store, "data"), None
    return going.journal


def test_a_script_that_nobody_touched_is_compared(folder, workspace):
    summary = run(folder / "classifier.py", workspace=str(workspace.folder), local=True)
    high = summary.arm("high").comparison
    draws = [[chance.random() for _ in range(3)][-1] for chance in map(random.Random, (1, 2, 3))]
    expected = 0.1 + 0.1 * sum(draws) / 3 / 100  # what the script's test line adds up to
    assert high.verdict == "better" and round(high.delta - expected, 9) == 0
    assert len(set(summary.arm("low").values.values())) == 3, "each seed its own luck"


def test_what_its_script_reads_is_on_record_and_what_it_writes_is_not(folder):
    (folder / "data.csv").write_text("1")
    (folder / "log.txt").write_text("of an earlier run")
    (folder / "extra.py").write_text("A = 1\n")
    script = """
    import json, sys
    open(sys.argv[1], "a").write(open("data.csv").read())
    __import__("ex" + "tra")
    print(json.dumps({"valid_accuracy": 0.5}))
    open("late.csv").read()
    print(json.dumps({"test_accuracy": 0.5}))
    """
    (folder / "late.csv").write_text("1")
    (folder / "train.py").write_text(textwrap.dedent(script))
    closure = run_command("python train.py log.txt {seed}", folder).last_attempt.closure
    assert {*closure["files"]} == {"data.csv", "late.csv"}
    assert {*closure["code"]} == {"own.py", "train.py", "extra.py"}


def test_its_lines_are_epochs_and_the_result(folder):
    journal = run_command("python train.py --lr {lr} --seed {seed}", folder, lr=0.1)
    assert journal.status == Status.COMPLETED
    assert [round(e.metrics["valid_accuracy"], 1) for e in journal.epochs] == [0.6, 0.7, 0.8]
    assert all(epoch.metrics["loss"] == 2.0 for epoch in journal.epochs)
    result = journal.outcome.metrics
    assert result["valid_accuracy"] == journal.epochs[-1].metrics["valid_accuracy"]
    assert round(result["test_accuracy"], 1) == 0.7


COUNTS = """
import json, pathlib, sys
folder, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2])
[first] = [int(path.stem) for path in folder.iterdir()] or [0]
for epoch in range(first + 1, 5):
    path = folder / f"{epoch}.txt"
    path.write_text("")
    print(json.dumps({"valid_accuracy": epoch / 10, "checkpoint": str(path)}), flush=True)
print(json.dumps({"test_accuracy": first / 10}))
"""


def test_a_command_that_is_cut_finds_the_checkpoint_that_it_named(folder):
    (folder / "counts.py").write_text(COUNTS)
    journal = run_command("python counts.py {checkpoints} {seed}", folder, cut_after=2)
    assert [epoch.metrics["valid_accuracy"] for epoch in journal.epochs] == [0.1, 0.2, 0.3, 0.4]
    assert journal.outcome.metrics["test_accuracy"] == 0.2, "it started from the second one"


def test_a_checkpoint_that_is_gone_is_said_and_not_stored(folder):
    lines = [{"valid_accuracy": 0.1, "checkpoint": "gone.pt"}, {"test_accuracy": 0.1}]
    (folder / "train.py").write_text("\n".join(f"print('{json.dumps(line)}')" for line in lines))
    journal = run_command("python train.py {checkpoints} {seed}", folder)
    assert journal.status == Status.COMPLETED, journal.outcome
    assert "There is no checkpoint gone.pt" in journal.output[0]


def test_seeds_that_a_command_ignores_give_one_result_and_no_verdict(folder, workspace):
    study = folder / "classifier.py"
    study.write_text(STUDY.replace(" --seed {seed}", ""))
    with pytest.raises(ConfigError, match=r"classifier.py:\d+: .*\{seed\}"):
        run(study, workspace=str(workspace.folder), local=True)


def test_a_command_that_ran_out_of_memory_says_nothing_of_its_result(folder):
    (folder / "large.py").write_text("raise MemoryError('too large')\n")
    reason = run_command("python large.py --seed {seed}", folder).outcome.reason
    assert "MemoryError: too large" in reason and not is_its_own(reason)


def test_a_failing_command_shows_its_last_lines(folder):
    (folder / "broken.py").write_text("print('step 7')\nraise ValueError('no such layer')\n")
    outcome = run_command("python broken.py --seed {seed}", folder).outcome
    assert outcome.status == Status.FAILED
    first, *rest = outcome.reason.splitlines()
    assert (
        first
        == f"{folder / 'own.py'}:3: the command ended with status 1: ValueError: no such layer"
    )
    assert is_its_own(outcome.reason)
    assert rest[0] == f"$ {shlex.join([sys.executable, 'broken.py', '--seed', '3'])}"
    assert "step 7" in outcome.reason and "ValueError: no such layer" in outcome.reason


def test_a_killed_command_names_the_signal(folder):
    outcome = run_command("sh -c 'echo step 7; kill -9 $$; echo {seed}'", folder).outcome
    assert outcome.status == Status.FAILED
    assert "the command was killed by SIGKILL" in outcome.reason and "step 7" in outcome.reason
    assert not is_its_own(outcome.reason)


def test_no_such_program(folder):
    outcome = run_command("no-such-program --seed {seed}", folder).outcome
    assert outcome.status == Status.FAILED
    assert outcome.reason.splitlines() == [
        f"{folder / 'own.py'}:3: the command cannot be run: No such file or directory",
        "$ no-such-program --seed 3",
    ]


def test_a_command_that_prints_no_result(folder):
    outcome = run_command("echo nothing of note {seed}", folder).outcome
    assert outcome.status == Status.FAILED
    assert outcome.reason.splitlines() == [
        f"{folder / 'own.py'}:3: the command printed no JSON line with 'valid_accuracy'. "
        'Given: nothing. Expected: {"valid_accuracy": 0.9}. If it prints them otherwise: '
        r"reads={'valid_accuracy': r'...: (\S+)', ...}.",
        "$ echo nothing of note 3",
        "nothing of note 3",
    ]


def test_a_command_that_prints_another_name(folder):
    (folder / "other.py").write_text("""print('{"valid_acuracy": 0.5}')""")
    outcome = run_command("python other.py {seed}", folder).outcome
    assert outcome.status == Status.FAILED
    assert "Given: valid_acuracy. 'valid_acuracy' may be misspelt." in outcome.reason


def test_a_wrong_number_names_the_declaration(folder):
    (folder / "wrong.py").write_text("""print('{"valid_accuracy": "high"}')""")
    outcome = run_command("python wrong.py {seed}", folder).outcome
    assert outcome.status == Status.FAILED
    assert f"{folder / 'own.py'}:3: " in outcome.reason
    assert "valid_accuracy = 'high', which is not a number" in outcome.reason


NAN = """
import os, time
open('pid', 'w').write(str(os.getpid()))
print('{"valid_accuracy": NaN}', flush=True)
time.sleep(300)
"""
# As torchrun, it ends its process when it is told to end, and cannot if it is killed.
LAUNCHES = """
import signal, subprocess, sys
started = subprocess.Popen([sys.executable, *sys.argv[1:]], start_new_session=True)
signal.signal(signal.SIGTERM, lambda *_: started.kill())
started.wait()
"""


@pytest.fixture
def endless(folder) -> Path:
    (folder / "nan.py").write_text(NAN)
    (folder / "launches.py").write_text(LAUNCHES)
    return folder


@pytest.mark.parametrize("command", ["python nan.py", "python launches.py nan.py"])
def test_nan_diverges_and_the_command_ends(endless, command):
    assert run_command(f"{command} {{seed}}", endless).outcome.status == Status.DIVERGED
    wait_for_the_end(endless)


def test_a_worker_that_is_killed_leaves_nothing_of_a_launcher(endless):
    command = [sys.executable, "launches.py", "nan.py"]
    run_it = f"""
from pathlib import Path
from ablate.trial.user.command_process import CommandProcess
for epoch in CommandProcess({command}, Path("."), where="here").epochs():
    print(epoch, flush=True)
"""
    worker = subprocess.Popen([sys.executable, "-c", run_it], cwd=endless, stdout=subprocess.PIPE)
    with worker:
        assert worker.stdout and worker.stdout.readline()
        worker.kill()
    wait_for_the_end(endless)


def wait_for_the_end(folder: Path) -> None:
    pid, deadline = int((folder / "pid").read_text()), time.time() + 60
    while running(pid):
        assert time.time() < deadline, "the command still runs"
        time.sleep(0.05)


def running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


PRINTS = """
print("step 1 loss: 0.9")
for epoch in 1, 2:
    for step in 1, 2:
        print(f"step {step} loss: {1 / epoch + step / 100}")
    print(f"epoch {epoch} | val_loss: {1 / epoch}, val_acc: {epoch / 10},")
print("test_acc: 0.15")
print("test_acc: 0.25")
"""
PATTERNS = r"""reads={
    "train_loss": r"step \d+ loss: (\S+)",
    "valid_loss": r"val_loss: (\S+)",
    "valid_accuracy": r"val_acc: (\S+)",
    "test_accuracy": r"test_acc: (\S+)",
}"""


def test_patterns_find_the_numbers_that_a_script_prints(folder):
    (folder / "prints.py").write_text(PRINTS)
    journal = run_command("python prints.py {seed}", folder, more=PATTERNS)
    assert journal.status == Status.COMPLETED, journal.outcome
    first = {"train_loss": 1.02, "valid_loss": 1.0, "valid_accuracy": 0.1}
    second = {"train_loss": 0.52, "valid_loss": 0.5, "valid_accuracy": 0.2}
    assert [dict(epoch.metrics) for epoch in journal.epochs] == [first, second]
    assert journal.metrics == {**second, "test_accuracy": 0.25}
    assert "step 1 loss: 0.9" in journal.output, "people read these lines"


def test_one_number_may_be_that_of_both_splits(folder):
    (folder / "prints.py").write_text("print('val_acc: 0.1')\nprint('val_acc: 0.2')")
    places = dict.fromkeys(["valid_accuracy", "test_accuracy"], r"val_acc: (\S+)")
    journal = run_command("python prints.py {seed}", folder, more=f"reads={places}")
    assert [epoch.metrics["valid_accuracy"] for epoch in journal.epochs] == [0.1, 0.2]
    assert journal.metrics == {"valid_accuracy": 0.2, "test_accuracy": 0.2}


ROWS = [
    {"step": 1, "loss": 0.9, "acc": ""},
    {"step": 1, "loss": "", "acc": 0.1},
    {"step": 2, "loss": 0.8, "acc": 0.2},
    {"step": 3, "test": 0.25},
]


@pytest.mark.parametrize("name", ["log.csv", "log.json", "log.jsonl"])
def test_a_file_that_a_script_writes_has_the_numbers(folder, name):
    lines = [*map(json.dumps, ROWS)]
    texts = {
        "log.csv": "step,loss,acc,test\n1,0.9,,\n1,,0.1,\n2,0.8,0.2,\n3,,,0.25\n",
        "log.json": json.dumps(ROWS),
        "log.jsonl": "\n".join(lines),
    }
    (folder / "writes.py").write_text(
        f"import sys\nopen(sys.argv[1] + '/{name}', 'w').write({texts[name]!r})"
    )
    places = {"train_loss": "loss", "valid_accuracy": "acc", "test_accuracy": "test"}
    more = f"reads={places}, file={name!r}"
    journal = run_command("python writes.py {folder} {seed}", folder, more=more)
    assert journal.status == Status.COMPLETED, journal.outcome
    first, second = [dict(epoch.metrics) for epoch in journal.epochs]
    assert first == {"train_loss": 0.9, "valid_accuracy": 0.1}
    assert second == {"train_loss": 0.8, "valid_accuracy": 0.2}
    assert journal.metrics == {**second, "test_accuracy": 0.25}


ACC = "valid_accuracy,test_accuracy"


@pytest.mark.parametrize(
    ("text", "more", "says"),
    [
        ("acc: 1", PATTERNS, "output has no '"),
        (None, "file='log.csv'", "the command wrote no log.csv"),
        ("{", "file='log.json'", "log.json of the command cannot be read"),
        ("[1]", "file='log.json'", "log.json of the command has 1 where an object should be"),
        ("a,b\n1,2", "file='log.csv'", "log.csv has no 'valid_accuracy'"),
        ("a, b\n1, 2", "file='log.csv'", "Found: ' b', 'a'."),
        (f"{ACC}\n0,85,1", "file='log.csv'", "line 2 has more cells than the header"),
        (f"{ACC},{ACC}\n1,2", "file='log.csv'", "two columns are called 'test_accuracy'"),
    ],
)
def test_numbers_that_are_not_where_they_should_be(folder, text, more, says):
    writes = "print('acc: 1')" if text is None else f"open(sys.argv[1], 'w').write({text!r})"
    (folder / "writes.py").write_text(f"import sys\n{writes}")
    name = "log.json" if "log.json" in more else "log.csv"
    outcome = run_command(f"python writes.py {{folder}}/{name} {{seed}}", folder, more=more).outcome
    assert outcome.status == Status.FAILED
    assert f"{folder / 'own.py'}:" in outcome.reason and says in outcome.reason


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("reads={'valid_accuracy': r'(.)'}", "does not say where 'test_accuracy' is"),
        (PATTERNS.replace(r"acc: (\S+)", "acc: ("), "missing \\)"),
        (PATTERNS.replace(r"acc: (\S+)", "acc: ."), "has 0 groups"),
        ("file='log.csv'", "does not name {folder}"),
        ("file='log.txt'", "Expected: a path below {folder}"),
    ],
)
def test_wrong_places_are_refused_where_they_are_declared(folder, more, says):
    with pytest.raises(ConfigError, match=f"task 'own': .*{says}"):
        run_command("python train.py {seed}", folder, more=more)


def test_settings_are_names_with_defaults():
    metrics = Metric("loss")
    with pytest.raises(ConfigError, match=r"task 'own': settings is \['lr'\]. Expected: each"):
        task_command("own", "python train.py --lr {lr} {seed}", settings=["lr"], metrics=metrics)


def test_an_unknown_setting_in_a_command_is_refused(folder):
    with pytest.raises(ConfigError, match="unknown setting 'lrr'"):
        run_command("python train.py --lr {lrr} --seed {seed}", folder, lr=0.1)


@pytest.mark.parametrize("name", ["seed", "device", "data"])
def test_a_setting_cannot_replace_what_the_trial_gives(folder, name):
    command = "python train.py --seed {seed} {device} {data}"
    with pytest.raises(ConfigError, match=f"'own': a setting cannot be called '{name}'"):
        run_command(command, folder, **{name: 3})


def test_a_setting_that_the_command_never_names_is_refused(folder):
    with pytest.raises(ConfigError, match=r"does not name \{lr\}, so arms that differ in it"):
        run_command("python train.py --seed {seed}", folder, lr=0.1)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("{0}", "unknown setting '0'"),
        ("{}", "unknown setting ''"),
        ("{lr!z}", "cannot be filled in: "),
        ("{lr:q}", "cannot be filled in: "),
        ("{lr", "cannot be filled in: "),
        ("lr}", "cannot be filled in: "),
        ("{lr.real}", "unknown setting 'lr.real'"),
        ("{lr:{}}", "cannot be filled in: "),
    ],
)
def test_what_cannot_be_filled_in_is_refused_where_it_is_declared(folder, part, message):
    """`{0}` was an IndexError of the first trial."""
    with pytest.raises(ConfigError, match=message):
        run_command(f"python train.py --lr {{lr}} --seed {{seed}} '{part}'", folder, lr=0.1)


@pytest.mark.parametrize(("on", "words"), [(True, ["--big", "--fast"]), (False, ["--no-fast"])])
def test_a_setting_that_is_on_or_off_is_a_flag(folder, on, words):
    (folder / "flags.py").write_text(
        "import json, sys\nprint(sys.argv[2:])\n"
        "print(json.dumps({'valid_accuracy': len(sys.argv), 'test_accuracy': 1}))"
    )
    command = "python flags.py {seed} {big:--big} {fast:--fast/--no-fast}"
    journal = run_command(command, folder, big=on, fast=on)
    assert journal.status == Status.COMPLETED and journal.metrics["valid_accuracy"] == 2 + len(
        words
    )


def test_a_flag_of_a_number_is_refused(folder):
    with pytest.raises(ConfigError, match=r"\{NAME:--FLAG\} for one that is true or false"):
        run_command("python train.py {lr:--lr} --seed {seed}", folder, lr=0.1)


def test_a_line_that_is_nested_too_deeply_is_no_result(folder):
    deep = "print('{\"a\": ' * 99_999)"
    (folder / "deep.py").write_text(
        f'{deep}\nprint(\'{{"valid_accuracy": 1, "test_accuracy": 1}}\')'
    )
    journal = run_command("python deep.py {seed}", folder)
    assert journal.metrics["test_accuracy"] == 1
