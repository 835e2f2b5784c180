"""What an agent may do over `ablate mcp`: the tools, each of which is a command with its JSON.

A study file is Python. So an agent plans only files that a person shipped or named when the server
was started, with the contents that they had then. The ledger is the server's, too: an agent cannot
start a new one to be judged more kindly.
"""

from __future__ import annotations

import argparse
import hashlib
import json
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
    ) -> None:
        self._places = places
        # File -> the hash of what it was when the server was started.
        self._named = {path: _hash(path) for path in (Path(file).resolve() for file in files)}
        self._ledger = ledger
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
        """The tools that write the ledger."""
        return (self.judge, self.draw_seeds) if self._ledger else ()

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

    def _allowed(self, study: str) -> Path:
        """The file of a study that may be executed; an error for any other."""
        from ablate.study.file import shipped

        known, file = shipped(), Path(study).resolve()
        if file in self._named and self._named[file] == _hash(file):
            return file
        if study in known:
            return known[study]
        with _errors():
            if file in self._named:
                raise StudyError(
                    f"{file} is not the file that it was when the server was started. A person "
                    "reads it and starts the server again."
                )
            raise StudyError(
                f"{unknown('study', study, [*known, *map(str, self._named)])} Study files are "
                "code: a person names them when the server is started (ablate mcp FILE)."
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
