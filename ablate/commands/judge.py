"""Judge results that were not made with ablate: a table with verdicts, from rows of runs."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from ablate.commands import _options
from ablate.commands._answers import Judgement, Next
from ablate.compare import formats
from ablate.compare.formats import json
from ablate.errors import AblateError, ConfigError

if TYPE_CHECKING:
    from ablate.compare.formats import Table
    from ablate.compare.judged import Judged
    from ablate.judging.rows import Records

NEEDED = {
    "arm": "the column that names a variant.",
    "metric": "the column of the number that decides.",
    "better": "higher or lower, whichever values of the metric are better.",
}
REPEATED = (
    "arm",
    "seed",
    "metric",
    "better",
    "last",
    "item",
    "cluster",
    "cost",
    "base",
    "scale",
    "margin",
    "looks",
)
EXAMPLE = "ablate judge results.csv --arm model --seed seed --metric acc --better higher"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate judge`."""
    parser.add_argument(
        "results",
        nargs="?",
        help="a file (csv, tsv, jsonl, json, parquet), a pattern of such files, logs of "
        "lm-evaluation-harness, Inspect, Ray Tune, TensorBoard or trackio or their folder, "
        "mlflow:EXPERIMENT, or optuna:STUDY",
    )
    _column_options(parser.add_argument_group("columns"))
    _judging_options(parser.add_argument_group("judging"))
    parser.add_argument(
        "--keep", metavar="NAME", help="store the results as a study of the workspace"
    )
    parser.add_argument(
        "--notes", action="store_true", help="show every column, and how the numbers were made"
    )
    parser.add_argument(
        "--format", choices=formats.names(), default="text", help="output format (default: text)"
    )
    _options.add_locations(parser)


def _column_options(columns: argparse._ArgumentGroup) -> None:
    columns.add_argument(
        "--arm", action="append", default=[], metavar="COLUMN",
        help="the column that names a variant; several columns name it together",
    )  # fmt: skip
    pairs = columns.add_mutually_exclusive_group()
    pairs.add_argument(
        "--seed", default="seed", metavar="COLUMN", help="the seed of a run (default: seed)"
    )
    pairs.add_argument(
        "--in-order", action="store_true",
        help="runs have no seeds: pair those of two arms in the order of rows",
    )  # fmt: skip
    columns.add_argument("--metric", metavar="COLUMN", help="the number that decides")
    columns.add_argument(
        "--better", choices=("higher", "lower"), help="which values of the metric are better"
    )
    columns.add_argument(
        "--last", metavar="COLUMN", help="of several rows of a run, take the one with the largest"
    )
    columns.add_argument(
        "--item", metavar="COLUMN",
        help="of several rows of a run, take the mean over these items, which all runs share",
    )  # fmt: skip
    columns.add_argument(
        "--cluster", metavar="COLUMN",
        help="items that are no independent draws, such as questions on one text",
    )  # fmt: skip
    columns.add_argument("--cost", metavar="COLUMN", help="what a run cost, in any unit")


def _judging_options(judging: argparse._ArgumentGroup) -> None:
    judging.add_argument(
        "--base", metavar="ARM", help="the variant to compare with (default: that of the first row)"
    )
    judging.add_argument(
        "--scale", choices=("linear", "log", "logit"), default="linear",
        help="compare differences (linear), ratios (log), or ratios of odds (logit)",
    )  # fmt: skip
    judging.add_argument(
        "--margin", metavar="SIZE", help="a difference too small to matter, such as 0.5 or 1%%"
    )
    judging.add_argument(
        "--looks", type=_looks, default=(), metavar="NUM,NUM",
        help="look at results at these numbers of seeds, as planned before the first look",
    )  # fmt: skip
    judging.add_argument(
        "--groups", action="store_true",
        help="compare any two variants: those that share a letter are not told apart",
    )  # fmt: skip
    judging.add_argument(
        "--ledger", metavar="FILE", help="count every variant that was ever judged, in this file"
    )
    judging.add_argument(
        "--draw", type=_options.count, metavar="NUM", help="give out held-out seeds of the ledger"
    )


def _looks(text: str) -> tuple[int, ...]:
    """Read planned looks: whole numbers, separated by commas."""
    return tuple(int(number) for number in text.split(","))


def run(options: argparse.Namespace) -> str:
    """Return the table of the results, or seeds that the ledger gives out."""
    from ablate.judging.judge import draw

    if options.draw:
        if options.ledger is None:
            raise ConfigError("--draw gives out seeds of a ledger. Add --ledger FILE.")
        return "\n".join(draw(options.ledger, options.draw))
    if options.results is None:
        raise ConfigError("there is nothing to judge. Name a file: ablate judge results.csv ...")
    if options.groups and options.ledger is not None:
        raise ConfigError(
            "--groups compares all variants of a table with each other, and --ledger counts those "
            "that are judged one by one. Leave one of the two out."
        )
    for name in ("arm", "metric", "better"):
        if not getattr(options, name):
            raise ConfigError(f"--{name} is needed: {NEEDED[name]}")
    return judge(options)


def judge(options: argparse.Namespace) -> str:
    """Judge what the options name, and return the table in the chosen format."""
    from ablate.judging.judge import Question, check_name, judged, keep
    from ablate.judging.rows import Columns

    columns = Columns(
        arm=options.arm,
        seed=None if options.in_order else options.seed,
        metric=options.metric,
        cost=options.cost,
        last=options.last,
        item=options.item,
        cluster=options.cluster,
    )
    question = Question(
        columns=columns,
        better=options.better,
        scale=options.scale,
        base=options.base,
        margin=_margin(options.margin),
        looks=options.looks,
        ledger=options.ledger,
        command=_command(options),
    )
    source, records = _read(options)
    if options.keep is not None:
        check_name(options.keep)
    study = judged(records, question, source)
    if options.keep is not None:
        _deliver(keep(study, _options.workspace(options).store, options.keep), options)
    if options.format == "json":
        return json.written(answer(study, options.groups))
    table = study.full_table() if options.notes else study.table()
    if formats.is_exact(options.format):
        table = study.values()
    return formats.writer(options.format).write(_grouped(table, study, options.groups))


def _grouped(table: Table, judged: Judged, asked: bool) -> Table:
    """The table, with a column of groups if it is asked for."""
    if not asked:
        return table
    from ablate.judging.groups import with_groups

    return with_groups(table, judged)


def _command(options: argparse.Namespace) -> str:
    """The command that judges the same again, as the record and the report have it."""
    values = {name: getattr(options, name) for name in REPEATED}
    values["looks"] = ",".join(map(str, options.looks)) or None
    if options.in_order:
        values["seed"] = None
    words = ["ablate", "judge", options.results, *(["--in-order"] if options.in_order else [])]
    words += ["--groups"] if options.groups else []
    for name, value in values.items():
        several = value if isinstance(value, list) else [value]
        words += [f"--{name}={one}" for one in several if one is not None]
    return shlex.join(words)


def answer(judged: Judged, groups: bool = False) -> Judgement:
    """Return the judgement for programs: the table's rows and notes, and what to run next."""
    from ablate.compare.table import notes, numbers
    from ablate.compare.table.advice import advice
    from ablate.compare.table.study_table import answer_sentences

    record = judged.record
    said = (*notes.holes(judged), *notes.verdicts(judged), *notes.cautions(judged))
    return Judgement(
        study=record.key,
        imported=record.imported,
        base_arm=record.base_arm,
        metric=judged.metric.shown,
        better=judged.metric.better,
        looks=str(judged.looks),
        comparisons=judged.num_comparisons,
        answer=" ".join(answer_sentences(judged)),
        arms=tuple(json.rows_of(_grouped(numbers.arms(judged, ""), judged, groups))),
        next=tuple(Next(arm=one.arm, more=one.more, why=one.why) for one in advice(judged)),
        notes=tuple(note.replace(formats.BEST, "best") for note in said),
    )


def _margin(text: str | None) -> str | float | None:
    """A number, or a percentage as it was written."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _deliver(key: str, options: argparse.Namespace) -> None:
    """Record a kept study, so that comparisons and queries have it; the store has it already."""
    from ablate.record.export import sync

    place = _options.workspace(options)
    try:
        delivery = sync(place.store, place.tracking_uri, place.artifacts, keys=[key])[key]
        error = delivery.error
    except AblateError as away:
        error = away
    if error:
        print(f"ablate: {key} is stored, but not recorded yet: {error}", file=sys.stderr)
        print("ablate: to record it later: ablate report sync", file=sys.stderr)


def _read(options: argparse.Namespace) -> tuple[str, Records]:
    """Where the results come from, and their rows."""
    from ablate.judging import files

    kind, _, name = options.results.partition(":")
    if kind == "mlflow" and name:
        from ablate.record import foreign as runs

        return name, _some(runs.rows(_options.workspace(options).tracking_uri, name), options)
    if kind == "optuna" and name:
        from ablate.tune.search import foreign as trials

        if options.searches is None:
            raise ConfigError(
                "Optuna's storage is needed: --searches sqlite:///optuna.db, or a journal's file."
            )
        return name, _some(trials.rows(options.searches, name), options)
    return options.results, files.read(options.results)


def _some(rows: Records, options: argparse.Namespace) -> Records:
    if not rows:
        raise ConfigError(f"{options.results} has no run that finished.")
    return rows
