"""What an agent may do over `ablate mcp`: the tools, each of which is a command with its JSON.

A study file is Python. So an agent plans and starts only files that a person shipped or named when
the server was started, with the contents that they had then, and those that `propose` wrote: from
data, with the contents that it wrote.
The ledger is the server's, too: an agent cannot start a new one to be judged more kindly.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ablate import commands
from ablate.errors import AblateError, ConfigError, StudyError, unknown, wrong_value

Answer = dict[str, Any]
Rows = list[dict[str, Any]]
MOST_SEEDS = 1000  # of one call


class Tools:
    """The tools of one server. Their signatures and docstrings are what the agent reads."""

    def __init__(
        self,
        *,
        places: Mapping[str, str],
        files: Sequence[str],
        ledger: str | None,
        proposals: str,
    ) -> None:
        self._places = places
        # File -> the hash of what it was when the server was started.
        self._named = {path: _hash(path) for path in (Path(file).resolve() for file in files)}
        self._ledger = ledger
        self._proposals = Path(proposals)
        self._proposed: dict[Path, str] = {}  # the file -> the hash of what was written
        # Tools run in threads, and commands are made for one at a time.
        self._one_at_a_time = threading.Lock()

    @property
    def reading(self) -> tuple[Callable[..., Any], ...]:
        """The tools that change nothing."""
        reads = (self.status, self.table, self.compare, self.papers, self.query)
        judges = () if self._ledger else (self.judge,)
        return (*reads, self.spaces, self.components, self.plan, *judges)

    @property
    def writing(self) -> tuple[Callable[..., Any], ...]:
        """The tools that write a file."""
        return (self.propose, *((self.judge, self.draw_seeds) if self._ledger else ()))

    def status(self, study: str | None = None) -> Answer:
        """Show which trials are done, running, failed and left: of one study, or of all."""
        return self._answer("status", study)

    def table(self, study: str) -> Rows:
        """Show a study's results so far: a row for each arm, with its verdict."""
        return self._answer("table", study)

    def compare(self, names: list[str]) -> Rows:
        """Set studies next to papers, such as ["doc_layer_mix", "takase2018doc"]."""
        return self._answer("compare", *names)

    def papers(self, papers: list[str] | None = None, missing: bool = False) -> Rows:
        """Show the rows of papers' tables; `missing`: only those that no shipped study has."""
        return self._answer("papers", *(papers or ()), missing=missing)

    def query(self, sql: str) -> Rows:
        """Query all records in SQL: a SELECT over trials, epochs, arms, studies, published."""
        return self._answer("query", sql)

    def spaces(self, name: str | None = None) -> Answer:
        """List the papers' tables of hyperparameters, or show one with its rows."""
        return self._answer("spaces", name)

    def components(self, slot: str | None = None, name: str | None = None) -> Answer:
        """List the techniques by slot, or show those of a slot (head), or one (head, doc)."""
        return self._answer("components", slot, name)

    def judge(
        self,
        results: str,
        arm: list[str],
        metric: str,
        better: str,
        seed: str | None = "seed",
        base: str | None = None,
        margin: str | None = None,
        looks: list[int] | None = None,
        last: str | None = None,
        item: str | None = None,
        cluster: str | None = None,
        cost: str | None = None,
        scale: str = "linear",
    ) -> Answer:
        """Judge results of runs: does a variant really beat its base, or is it seed noise?

        Args:
            results: A file (csv, tsv, jsonl, json, parquet) with a row for each run, or a log, or
                a folder of logs, of lm-evaluation-harness or Inspect, with a row for each item.
            arm: The columns that name a variant.
            metric: The column of the number that decides.
            better: higher or lower: which values of the metric are better.
            seed: The column of the seed; null pairs runs in the order of rows.
            base: The variant to compare with; default: that of the first row.
            margin: A difference too small to matter, as a number or 1%.
            looks: Numbers of seeds at which you will judge, all planned before the first time.
            last: Of several rows of a run, take the one with the largest number in this column.
            item: Of several rows of a run, take the mean over the items that this column names.
            cluster: The column of what items share, if they are no independent draws.
            cost: The column of what a run cost.
            scale: linear (differences), log (ratios) or logit (ratios of odds).
        """
        return self._answer(
            "judge",
            results,
            arm=arm,
            metric=metric,
            better=better,
            seed=seed,
            in_order=seed is None,
            base=base,
            margin=margin,
            looks=",".join(map(str, looks)) if looks else None,
            last=last,
            item=item,
            cluster=cluster,
            cost=cost,
            scale=scale,
            ledger=self._ledger,
        )

    def plan(self, study: str, scale: str | None = None) -> Answer:
        """Show what a study would train, how long that takes, and which difference it can find."""
        return self._answer("plan", str(self._allowed(study)), scale=scale)

    def draw_seeds(self, num: int) -> list[str]:
        """Draw seeds that no variant was judged on, to confirm one. Each is given out once."""
        from ablate.judging.judge import draw

        with _errors():
            if not 1 <= num <= MOST_SEEDS:
                raise ConfigError(wrong_value("num", num, f"1 to {MOST_SEEDS}", "draw_seeds"))
        with self._one_at_a_time, _errors():
            return draw(self._ledger or "", num)

    def propose(
        self,
        name: str,
        question: str,
        base: dict[str, Any],
        arms: dict[str, dict[str, Any]],
        corpus: str = "grammar",
        seeds: int = 5,
        margin: str | None = None,
    ) -> Answer:
        """Write a study file from data, check it, and return its plan. Overwrites nothing.

        Args:
            name: The name of the file: small letters, digits and _.
            question: What the study asks.
            base: Field -> value of what all arms share, such as {"backbone": "lstm"}.
            arms: Arm -> the fields that it changes; the first one is the base arm: {}.
            corpus: A corpus that `ablate data list` names.
            seeds: Seeds per arm; from 3 on, differences get a verdict.
            margin: A difference that does not matter, such as 1%.
        """
        from ablate.commands._proposal import proposal

        with _errors():
            text = proposal(name, question, base, arms, corpus=corpus, seeds=seeds, margin=margin)
            file = self._written(self._proposals / f"{name}.py", text)
        try:
            plan = self.plan(str(file))
        except Exception:
            file.unlink()  # an agent may propose studies, and nothing else
            del self._proposed[file]
            raise
        return {"file": str(file), "plan": plan}

    def start(self, study: str, scale: str | None = None, workers: int | None = None) -> Answer:
        """Start a study, or resume it; follow it with `status` and `table`."""
        file = self._allowed(study)
        words = [sys.executable, "-m", "ablate", "study", str(file)]
        words += _options(scale=scale, workers=workers, **self._places)
        # Files of one name in two folders have a log each.
        place = hashlib.sha256(str(file.parent).encode()).hexdigest()[:8]
        log = Path(f"{file.stem}.{place}.log")
        log = file.with_suffix(".log") if file in self._proposed else log
        with log.open("a") as output:
            # In a session of its own: it outlives the server, and `ablate status` finds it.
            started = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        threading.Thread(target=started.wait, daemon=True).start()  # leaves no zombie
        return {"process": started.pid, "log": str(log.resolve()), "study": file.stem}

    def _written(self, file: Path, text: str) -> Path:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with file.open("x", encoding="utf-8") as opened:
                opened.write(text)
        except FileExistsError:
            raise StudyError(
                f"{file} exists, and is not overwritten. Choose another name."
            ) from None
        self._proposed[file.resolve()] = hashlib.sha256(text.encode()).hexdigest()
        return file.resolve()

    def _allowed(self, study: str) -> Path:
        """The file of a study that may be executed; an error for any other."""
        from ablate.study.file import shipped

        known, file = shipped(), Path(study).resolve()
        read = {**self._named, **self._proposed}.get(file)
        if read is not None and read == _hash(file):
            return file
        if study in known:
            return known[study]
        with _errors():
            if file in self._proposed:
                raise StudyError(f"{file} was changed after it was proposed. Propose it again.")
            if file in self._named:
                raise StudyError(
                    f"{file} is not the file that it was when the server was started. A person "
                    "reads it and starts the server again."
                )
            names = [*known, *map(str, (*self._named, *self._proposed))]
            raise StudyError(
                f"{unknown('study', study, names)} Study files are code: a person names them when "
                "the server is started (ablate mcp FILE), or `propose` writes them."
            )

    def _answer(self, command: str, *words: str | None, **options: Any) -> Any:
        """What a command answers with --format json."""
        with self._one_at_a_time, _errors():
            module, parser = commands.load(command), _Parser(prog=f"ablate {command}")
            module.arguments(parser)
            places = {n: v for n, v in self._places.items() if parser.has(n)}
            given = [word for word in words if word is not None]
            # Words after -- are never options, whatever the agent puts into them.
            written = [*_options(format="json", **options, **places), "--", *given]
            return json.loads(module.run(parser.parse_args(written)))


class _Parser(argparse.ArgumentParser):
    """Raises errors, instead of ending the server."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)

    def has(self, name: str) -> bool:
        return f"--{name}" in self._option_string_actions


class _errors:  # noqa: N801 (used as a function)
    """Turns an error that a user may meet into one that the agent reads."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        from mcp.server.mcpserver.exceptions import ToolError

        if isinstance(error, AblateError | ModuleNotFoundError):
            raise ToolError(str(error)) from error


def _options(**values: Any) -> list[str]:
    """Options as words of a command line: each with its value in one word."""
    words: list[str] = []
    for name, value in values.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            several = value if isinstance(value, list) else [value]
            words += [f"{option}={one}" for one in several]
    return words


def _hash(file: Path) -> str | None:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None
