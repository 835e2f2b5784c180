"""Mutated study files, configs, spaces, command lines and SQL, as a user might get them wrong.

    python -m tests.lab.attack --only inputs [--seed N] [--quick]

Each input must end with exit status 0 and some output, or with one clear error and another status.
An exception that nobody caught, or frames of the package on screen, is a traceback; more than
`HANG_SECONDS` of the processor's time is a hang; anything else that is not clear is wrong.

Most inputs are tried in this process, by the command's own `main`; every `REAL`-th is tried as a
process of its own.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

from ablate import cli
from tests.lab.attack.tally import Tally
from tests.support import places

HANG_SECONDS = 30  # of the processor's time; four times as many by the clock
REAL = 100
MEMORY = 12 << 30  # bytes of addresses, so that a mutated size cannot take the machine down
LONGEST = 4_000  # characters of an error
SECRET = "hunter2hunter2"  # of a location: shown nowhere

STUDY = """
from ablate import Arm, Scale, Search, Stage, Study, factorial, fractional_factorial, table

BASE = {
    "corpus.train_tokens": 300,
    "corpus.eval_tokens": 100,
    "embedding.size": 4,
    "backbone": "lstm",
    "backbone.num_layers": 2,
    "backbone.units": [4, 5],
    "head": "doc",
    "head.experts": [2, 1, 0],
    "optimizer": "sgd",
    "optimizer.learning_rate": 1.0,
    "training.epochs": 1,
    "regularizer.weight_drop.rate": 0.2,
}
MIXED = factorial(
    {"drop": {"0": {}, "0.5": {"regularizer.weight_drop.rate": 0.5}},
     "clip": {"no": {}, "yes": {"training.clip": 0.25}}}
)
LISTED = table(Arm("a"), Arm("b", {"optimizer.learning_rate": 2.0}, stages={"more": {}}))

study = Study(
    question="What is wrong?",
    base=BASE,
    base_arm="a",
    design=LISTED,
    paper="takase2018doc",
    tables=("Table 3",),
    scales={
        "small": Scale(seeds=2, stages=(Stage("more", {"training.epochs": 2}),), ensemble=True),
        "tuned": Scale(seeds=1, search=Search(space="space.toml", trials=3, batch=2, repeats=2)),
        "budget": Scale(seeds=3, first_seed=4, threads=1, gpus=0.0, precision="float32"),
    },
    metric="nll",
)
"""
CONFIG = """
corpus = { name = "grammar", train_tokens = 300, eval_tokens = 100 }
embedding.size = 4
head = { name = "mos", experts = 3 }
loss = "cross_entropy"

[backbone]
name = "lstm"
num_layers = 2
units = [4, 5]

[optimizer]
name = "nt_asgd"
learning_rate = 2.0
nonmono = 1

[training]
epochs = 1
batch_size = 4
window = 10
variable_window = true
clip = 0.25

[regularizer]
weight_drop.rate = 0.3
variational_dropout = { hidden = 0.1, input = 0.2 }
l2.everything = 1e-5

[evaluator.dynamic]
learning_rate = 1e-3
"""
SPACE = """
paper = "takase2018doc"
tables = ["Table 2"]
note = "A table."
require = ["Layers < Window"]

["Learning rate"]
field = "optimizer.learning_rate"
range = [1e-3, 10.0]
scale = "log"

["Layers"]
field = "backbone.num_layers"
choices = [1, 2]

["Window"]
field = "training.window"
range = [10, 70]
integer = true

["Drop"]
field = "regularizer.weight_drop.rate"
value = 0.5
when = "Layers = 2 and Window > 20"

["Clip"]
field = "training.clip"
same_as = "Drop"
printed = false
source = "a guess"
"""
QUERIES = (
    "SELECT study, arm, ppl FROM arms WHERE corpus = 'grammar' ORDER BY ppl LIMIT 5",
    "SELECT t.arm, avg(e.valid_nll) AS nll FROM trials t JOIN epochs e USING (trial) GROUP BY 1",
    "SELECT count(*), max(seed) FROM trials WHERE status <> 'failed' AND seed BETWEEN 1 AND 3",
    "WITH best AS (SELECT arm, min(nll) m FROM arms GROUP BY arm) SELECT * FROM best",
    "EXPLAIN SELECT * FROM studies",
    'SELECT "optimizer.learning_rate", started::TIMESTAMP FROM trials',
    "SELECT paper, model, value FROM published WHERE value < 60.5",
    "SELECT * FROM test_all_types()",
    "UPDATE EXTENSIONS",
)
TASK = """
from ablate import Arm, Metric, Scale, Study, table, task_command

task_command("own", "python train.py --lr {lr} --seed {seed:d} {lr:.3f} {{}}", settings={"lr": 0.1},
             metrics=Metric("accuracy", better="higher"))
study = Study(question="What?", base={"task": "own"}, base_arm="a",
              design=table(Arm("a"), Arm("b", {"own.lr": 0.2})), scales={"small": Scale(seeds=2)})
"""
FILLED = (
    "{0}",
    "{}",
    "{lr!z}",
    "{lr!r}",
    "{lr:q}",
    "{",
    "}",
    "{lr.x}",
    "{lr[0]}",
    "{lr:{seed}}",
    "{x}",
)
VARIABLES = (
    *("ABLATE_WORKSPACE", "ABLATE_STORE", "ABLATE_SEARCHES", "MLFLOW_TRACKING_URI"),
    *("SOURCE_DATE_EPOCH", "COLUMNS", "TZ", "NO_COLOR", "ABLATE_NATIVE", "ABLATE_GROUP_READABLE"),
)
COMMANDS = {  # command -> its own arguments, and the options that it has
    "status": (("STUDY", ""), ()),
    "table": (("STUDY",), ("--format", "--effects")),
    "plan": (("FILE",), ("--scale",)),
    "query": (("SQL",), ("--format",)),
    "compare": (("STUDY", "STUDY", ""), ("--except", "--split", "--format")),
    "importance": (("STUDY",), ()),
    "provenance": (("TRIAL",), ()),
    "tokens": (("TRIAL", "TRIAL"), ("--split",)),
    "components": (("WORD", "WORD", ""), ("--techniques",)),
    "spaces": (("FILE", "WORD", ""), ("--check",)),
    "data": (("verify",), ("--from",)),
    "studies": (("WORD", ""), ("--copy",)),
    "trial": (("FILE",), ("--seed", "--threads", "--code")),
    "plot": (("STUDY", "WORD"), ("--to",)),
    "sync": ((), ()),
    "analyze": (("WORD", "TRIAL", ""), ("--set",)),
}
LOCATIONS = ("--workspace", "--store", "--mlflow", "--searches")
NUMBERS = (
    *("0", "-1", "1", "2", "3", "7", "0.5", "-0.0", "1e-300", "1e308", "1e309", "nan", "inf"),
    *("-inf", "true", "10000000", "2147483648", "9223372036854775807", "9223372036854775808"),
    *("1" + "0" * 18, "9" * 401, "9" * 5000, "0x10", "1_000", "''", "[]", "[1, 2, 3]", "{}"),
)
TEXTS = (
    *("", " ", "a", "b", "none", "lstm", "mos", "softmax", "grammar", "ptb", "character", "small"),
    *("../../etc/passwd", "~nosuchuser", "~", "/", ".", "a/b", "a@b", "a\nb", "\t", "%s", "{seed}"),
    *("\udcff", "a\udcffb", "\0", "ü", "𝔘", "\u202e", "'", '"', "\\", "x" * 5000, "-1", "--help"),
    *("ablate-crc32:12345678", r"$\write18{id}$", "{0}", "{x!z}", "--", "--except=--"),
    *("[" * 3000, "(" * 3000, "=SUM(A1)", "<b>", "*", "__class__", "a.b.c.d", "head.experts"),
)
URIS = (
    *("http://[::1", "http://127.0.0.1:1", "http://h:99999999", "s3://", "gs://", "file://", "://"),
    *("sqlite:///", "sqlite:////proc/x.db", "sqlite:////proc", "postgresql://u:p@127.0.0.1:1/x"),
    *("nosuch://x", "htp:/h", "memory://", "local:///proc/x", "\udcff", "sqlite:////tmp/\udcff"),
    *("", " ", "/proc/x", "/etc/passwd", "folder:x", "http://", "http://u:p@", "x" * 5000),
    *(f"{scheme}://KEY:{SECRET}@b/x" for scheme in ("s3", "abfs", "postgresql", "file")),
)


@dataclass(frozen=True)
class Attempt:
    """A command line, and the files that it finds in its folder."""

    arguments: tuple[str, ...]
    files: dict[str, bytes] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        shown = {name: data[-3000:] for name, data in self.files.items()}
        around = self.environment or ""
        return f"{around} ablate {' '.join(map(repr, self.arguments))[:2000]} {shown or ''}"


class Hang(BaseException):
    """It has used the processor for too long."""


# --------------------------------------------------------------------------- making wrong inputs


def mutated(text: str, rng: random.Random) -> str:
    """Change a text in one to three places, like a typing error or like malice."""
    kinds = (_number, _string, _token, _line, _characters)
    for _ in range(rng.choice((1, 1, 1, 2))):  # most that changes the syntax ends at the parser
        (change,) = rng.choices(kinds, (5, 4, 2, 1, 1))
        text = change(text, rng)
    return text


def _replaced(text: str, pattern: str, choices: tuple[str, ...], rng: random.Random) -> str:
    matches = list(re.finditer(pattern, text))
    if not matches:
        return text + rng.choice(choices)
    match = rng.choice(matches)
    return text[: match.start()] + rng.choice(choices) + text[match.end() :]


def _number(text: str, rng: random.Random) -> str:
    return _replaced(text, r"(?<![\w.])\d[\d.]*(e-?\d+)?", NUMBERS, rng)


def _string(text: str, rng: random.Random) -> str:
    """Another text, a number or nothing in place of a text, or one with an error of spelling."""
    matches = list(re.finditer(r"\"[^\"\n]*\"|'[^'\n]*'", text))
    if not matches:
        return _characters(text, rng)
    match = rng.choice(matches)
    inside = match[0][1:-1]
    others = [m[0] for m in matches]
    new = rng.choice(
        (
            lambda: repr(rng.choice(TEXTS)),
            lambda: rng.choice(others),
            lambda: rng.choice(NUMBERS),
            lambda: f'"{_characters(inside, rng)}"',
        )
    )()
    return text[: match.start()] + new + text[match.end() :]


def _line(text: str, rng: random.Random) -> str:
    """A line that is missing, twice there, or in another place."""
    lines = text.split("\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    line = lines.pop(at)
    lines[other:other] = rng.choice(([], [line], [line, line], [line * 3]))
    return "\n".join(lines)


def _characters(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    length, inserted = (
        rng.choice((0, 1, 1, 4)),
        rng.choice((*"[](){}=,.\"'\\#\n\t a0", "", "\udcff")),
    )
    return text[:at] + inserted + text[at + length :]


def _token(text: str, rng: random.Random) -> str:
    """A word of the text in place of another."""
    words = list(re.finditer(r"\w+", text))
    if not words:
        return _characters(text, rng)
    one, other = rng.choice(words), rng.choice(words)
    return text[: one.start()] + other[0] + text[one.end() :]


def encoded(text: str) -> bytes:
    """As a file: lone surrogates are bytes that are not UTF-8."""
    return text.encode("utf-8", "surrogateescape" if _escapable(text) else "surrogatepass")


def _escapable(text: str) -> bool:
    return not re.search("[\ud800-\udc7f\udd00-\udfff]", text)


def study_file(rng: random.Random) -> Attempt:
    text = mutated(STUDY, rng)
    scale = rng.choice(("small", "small", "tuned", "budget"))
    design = rng.choice(("LISTED", "LISTED", "MIXED"))
    if design == "MIXED":
        text = text.replace("design=LISTED", "design=MIXED")
        text = text.replace('base_arm="a"', 'base_arm="drop 0, clip no"')
    files = {"asked.py": encoded(text), "space.toml": encoded(SPACE)}
    return Attempt(("plan", "asked.py", "--scale", scale), files)


def config(rng: random.Random) -> Attempt:
    return Attempt(("trial", "one.toml"), {"one.toml": encoded(mutated(CONFIG, rng))})


def space(rng: random.Random) -> Attempt:
    files = {"space.toml": encoded(mutated(SPACE, rng)), "asked.py": encoded(STUDY)}
    shown = ("spaces", "./space.toml")
    return Attempt(rng.choice((shown, ("plan", "asked.py", "--scale", "tuned"))), files)


def sql(rng: random.Random) -> Attempt:
    text = rng.choice(QUERIES)
    if rng.random() < 0.1:
        text = rng.choice(ENDLESS)
    return Attempt(("query", mutated(text, rng)))


ENDLESS = (
    "SELECT count(*) FROM range(10000000000000)",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT sum(n) FROM t",
    "SELECT * FROM range(100000) a, range(100000) b ORDER BY 1 DESC",
    "SELECT list(range) FROM range(1000000000)",
    "SELECT length(lpad('x', 100000000, 'y'))",  # one function that DuckDB does not stop
)


def command_line(rng: random.Random) -> Attempt:
    command = rng.choice(list(COMMANDS))
    needed, options = COMMANDS[command]
    arguments = [_argument(kind, rng) for kind in needed if rng.random() < 0.9]
    for option in options:
        if rng.random() < 0.5:
            arguments += [option, _argument("WORD", rng)]
    for option in LOCATIONS:
        if rng.random() < 0.2:
            arguments += [option, rng.choice((*URIS, *TEXTS))]
    if rng.random() < 0.1:
        arguments.insert(rng.randrange(len(arguments) + 1), rng.choice(TEXTS))
    arguments = [argument for argument in arguments if "\0" not in argument]
    files = {"asked.py": encoded(STUDY), "space.toml": encoded(SPACE), "one.toml": encoded(CONFIG)}
    return Attempt((command, *arguments), files)


def task_of_a_command(rng: random.Random) -> Attempt:
    text = TASK
    for _ in range(rng.choice((1, 2))):
        text = (
            _replaced(text, r"\{[^\"}]*\}", FILLED, rng)
            if rng.random() < 0.7
            else mutated(text, rng)
        )
    return Attempt(("plan", "asked.py", "--scale", "small"), {"asked.py": encoded(text)})


def environment(rng: random.Random) -> Attempt:
    plain = rng.choice(
        (("status",), ("table", "asked@s"), ("report", "asked@s"), ("plot", "asked@s", "deltas"))
    )
    values = [
        value for value in (*URIS, *TEXTS, *NUMBERS) if "\0" not in value and _escapable(value)
    ]
    return Attempt(plain, environment={rng.choice(VARIABLES): rng.choice(values)})


def _argument(kind: str, rng: random.Random) -> str:
    likely = {
        "STUDY": ("asked@s", "asked", "tuned@s", "askd"),
        "FILE": ("asked.py", "./space.toml", "one.toml", "takase2018doc_table2"),
        "SQL": QUERIES,
        "TRIAL": ("00b27cd8cbb29f21", "00", "e2321995814f60bb"),
        "WORD": ("head", "mos", "valid", "csv", "lstm", "rank", "curves", "s", "text", "1", "json"),
    }
    return rng.choice(likely[kind] if kind in likely and rng.random() < 0.6 else (*TEXTS, kind))


KINDS: dict[str, Callable[[random.Random], Attempt]] = {
    "study files": study_file,
    "configs": config,
    "spaces": space,
    "command lines": command_line,
    "SQL": sql,
    "tasks of commands": task_of_a_command,
    "environments": environment,
}


# --------------------------------------------------------------------------- trying them


@dataclass
class Judged:
    """How an attempt ended: "" if it ended well, else what was wrong with it, and how it looked."""

    what: str = ""
    shown: str = ""


def judge(status: int, out: str, err: str) -> Judged:
    """What a user would say to what is on the screen."""
    if "Traceback (most recent call last)" in err + out or "/ablate/" in _frames(err):
        return Judged("tracebacks", err[-2000:])
    if SECRET in out + err:
        return Judged("wrong", f"a location is shown with its secret: {out[-500:]}{err[-500:]}")
    if status == 0:
        return Judged() if out.strip() else Judged("wrong", "nothing printed")
    lines = [line for line in err.splitlines() if line.startswith(("ablate", "usage: "))]
    if not lines or len(err) > LONGEST + 2 * 5000 or status < 0:
        return Judged("wrong", f"status {status}, error {err[:500]!r}")
    return Judged()


def _frames(err: str) -> str:
    return "\n".join(line for line in err.splitlines() if line.startswith('  File "'))


class Place:
    """A folder with a workspace of recorded studies, in which attempts are made."""

    def __init__(self, folder: Path, data: str | None = None) -> None:
        self.folder = folder
        shutil.unpack_archive(places.GOLDEN / "workspace_0.1.0.tar.xz", folder, filter="data")
        (folder / "workspace").rename(folder / ".ablate")
        if data is not None:
            (folder / ".ablate" / "data").symlink_to(data)
        self._mirror = None

    def attempt(self, attempt: Attempt) -> Judged:
        """Try it in this process."""
        out, err = io.StringIO(), io.StringIO()
        started = time.monotonic()
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(self._written(attempt))
                stack.enter_context(mock.patch.dict(os.environ, attempt.environment))
                stack.enter_context(_short_trials())
                stack.enter_context(_one_mirror(self))
                stack.enter_context(contextlib.redirect_stdout(out))
                stack.enter_context(contextlib.redirect_stderr(err))
                stack.enter_context(_limited())
                status = cli.main(list(attempt.arguments))
        except SystemExit as end:  # argparse
            status = end.code if isinstance(end.code, int) else 1
        except Hang:
            return Judged("hangs", f"more than {HANG_SECONDS} s of the processor")
        except BaseException:
            return Judged("tracebacks", traceback.format_exc()[-2000:])
        for thread in threading.enumerate():
            if thread.name == "ablate-query":  # left behind; Python's end would abort the process
                thread.join()
        if time.monotonic() - started > 4 * HANG_SECONDS:
            return Judged("hangs", f"{time.monotonic() - started:.0f} s")
        return judge(status, out.getvalue(), err.getvalue())

    def real(self, attempt: Attempt) -> Judged:
        """Try it as a process of its own."""
        environment = {**os.environ, "PYTHONPATH": str(places.ROOT), "OMP_NUM_THREADS": "1"}
        environment |= attempt.environment
        words = [os.fsencode(w) if _escapable(w) else b"?" for w in attempt.arguments]
        command = [os.fsencode(sys.executable), b"-m", b"ablate", *words]
        limit = f'ulimit -v {MEMORY >> 10}; exec "$@"'
        try:
            with self._written(attempt):
                ended = subprocess.run(
                    [b"bash", b"-c", limit.encode(), b"bash", *command],
                    env=environment,
                    capture_output=True,
                    check=False,
                    timeout=4 * HANG_SECONDS,
                )
        except subprocess.TimeoutExpired:
            return Judged("hangs", f"more than {4 * HANG_SECONDS} s")
        out, err = (each.decode(errors="replace") for each in (ended.stdout, ended.stderr))
        return judge(ended.returncode, out, err)

    @contextlib.contextmanager
    def _written(self, attempt: Attempt) -> Iterator[None]:
        for name, data in attempt.files.items():
            (self.folder / name).write_bytes(data)
        with contextlib.chdir(self.folder):
            yield

    def mirror(self):
        """The mirror of the records, which is made once."""
        from ablate.record.mirror.syncing import update_mirror
        from ablate.store.workspace import open_workspace

        if self._mirror is None:
            self._mirror = update_mirror(open_workspace(str(self.folder / ".ablate")))
        return self._mirror


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Limit the processor's time and the memory."""

    def stop(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGVTALRM, stop)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))
    signal.setitimer(signal.ITIMER_VIRTUAL, HANG_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextlib.contextmanager
def _short_trials() -> Iterator[None]:
    """A trial trains one window, and then counts as completed: how long it may take is its own."""
    from ablate.commands import trial as command
    from ablate.store.outcome import Outcome, Status
    from ablate.trial.run import TrialRun

    def one_window(trial, store, data):
        run = TrialRun(trial, store, data)
        run.advance(0.0)
        if run.journal.outcome is None:
            run.journal.outcome = Outcome(status=Status.COMPLETED, metrics={"valid_nll": 1.0})
        return run.journal

    with mock.patch.object(command, "run_showing", one_window):
        yield


@contextlib.contextmanager
def _one_mirror(place: Place) -> Iterator[None]:
    """Queries of the workspace read its mirror without looking for new records each time."""
    from ablate.compare.across import asked, query

    ask = asked._ask

    def quick(workspace, question):
        here = workspace.folder == place.folder / ".ablate" and workspace.mlflow_uri is None
        return (question(place.mirror()), ()) if here else ask(workspace, question)

    with mock.patch.object(asked, "_ask", quick), mock.patch.object(query, "MOST_SECONDS", 1.0):
        yield


def attack(seed: int, tries: int, kinds: tuple[str, ...] = tuple(KINDS)) -> list[Tally]:
    """Try `tries` inputs of each kind."""
    with tempfile.TemporaryDirectory(prefix="ablate-attack-") as folder:
        place = Place(Path(folder))
        return [attack_kind(place, kind, seed, tries) for kind in kinds]


def attack_kind(place: Place, kind: str, seed: int, tries: int) -> Tally:
    counts, examples = {"wrong": 0, "tracebacks": 0, "hangs": 0}, []
    for number in range(tries):
        attempt = made(kind, seed, number)
        judged = (place.real if number % REAL == REAL - 1 else place.attempt)(attempt)
        if judged.what:
            counts[judged.what] += 1
            again = f"{judged.what}: tests.lab.attack.inputs.made({kind!r}, {seed}, {number}): "
            examples.append(f"{again}{attempt}\n{judged.shown}")
    return replace(Tally(kind, tried=tries, examples=tuple(examples)), **counts)


def made(kind: str, seed: int, number: int) -> Attempt:
    """An attempt, which is the same each time."""
    return KINDS[kind](random.Random(f"{kind} {seed} {number}"))
