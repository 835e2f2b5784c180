"""Records with a field of another type or an odd name, and with a right checksum, as in planted or
edited results.

    attack(seed=1, tries=200)

Each attempt copies the recorded workspace, changes one field of one record as `Store.write_json`
writes it, and runs one command in this process. It must end with a result, or with one error that
names the file.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ablate.store.store import Store
from tests.lab.attack.inputs import Judged, judge
from tests.lab.attack.tally import Tally
from tests.lab.attack.workspace import ablate
from tests.support import places
from tests.support.damage import as_new_process

STUDY = "asked@s"
COMMANDS: dict[str, Callable[[str], tuple[str, ...]]] = {
    "table": lambda trial: ("table", STUDY, "--effects"),
    "report": lambda trial: ("report", STUDY),
    "plot": lambda trial: ("plot", STUDY, "curves"),
    "publish": lambda trial: ("publish", STUDY, "--to", "published"),
    "status": lambda trial: ("status", STUDY),
    "query": lambda trial: ("query", "SELECT * FROM arms, trials, epochs, studies", *RESULTS),
    "compare": lambda trial: ("compare", STUDY, "--split", "valid", *RESULTS),
    "importance": lambda trial: ("importance", STUDY),
    "provenance": lambda trial: ("provenance", trial),
    "tokens": lambda trial: ("tokens", trial, trial[:15]),
    "sync": lambda trial: ("sync",),
    "study": lambda trial: ("study", "asked.py", "--local", "--scale", "s"),
}
RESULTS = ("--results", ".ablate/store")
KINDS = {
    "journals": ("trials/*/journal.json",),
    "study records": ("studies/*/study.json",),
    "other records": (
        "studies/*/ledger.json",
        "studies/*/results/*.json",
        "tables/*.json",
    ),
}
OTHERS: tuple[Any, ...] = (
    "x",
    "",
    7,
    -1,
    1.5,
    True,
    None,
    [],
    ["x"],
    [1],
    {},
    {"x": 1},
    [[]],
    "nan",
)
NAMES = (
    *(
        "ablate-crc32:12345678",
        r"$\write18{id}$",
        "$x$",
        "",
        " ",
        "\ud800",
        "a\0b",
        "a\nb",
        "x" * 3000,
    ),
    *("../../x", "<b>", "=SUM(A1)", "\x1b[2J", "{0}", "%s", "a@b", "\u202e", "_a"),
)


@dataclass
class Place:
    """The recorded workspace, and a copy in which a record is changed."""

    folder: Path

    def __post_init__(self) -> None:
        shutil.unpack_archive(places.GOLDEN / "workspace_0.1.0.tar.xz", self.folder, filter="data")
        (self.folder / "workspace").rename(self.folder / "pristine")

    def restore(self) -> Store:
        shutil.rmtree(self.folder / ".ablate", ignore_errors=True)
        shutil.copytree(self.folder / "pristine", self.folder / ".ablate")
        as_new_process()
        return Store(str(self.folder / ".ablate" / "store"))


def changed(plain: Any, rng: random.Random, where: str = "") -> tuple[str, Any]:
    """A field, at any depth, of another type or with another name; and where it is."""
    fields = list(plain.items()) if isinstance(plain, dict) else list(enumerate(plain))
    name, value = rng.choice(fields)
    where, copy = f"{where}.{name}", plain.copy()
    if isinstance(value, dict | list) and value and rng.random() < 0.8:
        where, copy[name] = changed(value, rng, where)
    elif isinstance(value, str) and rng.random() < 0.5:
        copy[name] = rng.choice(NAMES)
        where += f" = {copy[name][:40]!r}"
    elif isinstance(plain, dict) and rng.random() < 0.2:
        del copy[name]
        copy[rng.choice(NAMES)] = value
        where += " renamed"
    else:
        copy[name] = rng.choice([o for o in OTHERS if type(o) is not type(value)])
        where += f" = {copy[name]!r}"
    return where, copy


def attempt(place: Place, kind: str, seed: int, number: int) -> Judged:
    """Change a record, run a command, and say how it ended."""
    rng, store = random.Random(f"{kind}/{seed}/{number}"), place.restore()
    root = Path(store.uri)
    path = rng.choice(sorted(path for pattern in KINDS[kind] for path in root.glob(pattern)))
    key = path.relative_to(root).as_posix()
    what, plain = changed(store.read_json(key) or {}, rng)
    store.write_json(key, plain)
    command = rng.choice(list(COMMANDS))
    trial = sorted(store.names("trials"))[0]
    said = Judged("tracebacks")
    before = os.getcwd()
    os.chdir(place.folder)
    try:
        ended = ablate(*COMMANDS[command](trial))
        said = judge(ended.status, ended.out, ended.error)
        if command == "sync" and ended.status == 6:  # its result names what was not delivered
            said = Judged() if key.split("/")[1] in ended.out else Judged("wrong", ended.out)
        if not said.what and ended.status == 4 and "is damaged" in ended.error:
            named = key.split("/")[1] in ended.error
            said = said if named else Judged("wrong", ended.error)
    except BaseException:
        said = Judged("tracebacks", traceback.format_exc()[-1500:])
    finally:
        os.chdir(before)
    return replace(said, shown=f"{command} after {key}: {what[:300]}\n{said.shown}")


def attack(seed: int, tries: int) -> list[Tally]:
    """Change `tries` records of each kind."""
    with tempfile.TemporaryDirectory(prefix="ablate-attack-") as folder:
        place = Place(Path(folder))
        return [tally(place, kind, seed, tries) for kind in KINDS]


def tally(place: Place, kind: str, seed: int, tries: int) -> Tally:
    """Change records of one kind; count what gave way."""
    judged = [attempt(place, kind, seed, number) for number in range(tries)]
    counts = {name: sum(j.what == name for j in judged) for name in ("wrong", "tracebacks")}
    failed = tuple(f"number {n}: {j.shown}" for n, j in enumerate(judged) if j.what)
    return Tally(f"records: {kind}", tried=tries, examples=failed, **counts)
