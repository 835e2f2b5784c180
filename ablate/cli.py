"""The command line: one function a command, which imports what it needs when it is called."""

from __future__ import annotations

import argparse
import errno
import io
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any

from ablate.errors import AblateError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
EXAMPLES = """examples:
  ablate study studies/doc_layer_mix.py            run a study, or go on with it
  ablate study studies/doc_layer_mix.py --local    the same without Ray, to step through
  ablate plan studies/doc_layer_mix.py --scale paper
  ablate status                                    what is done, running, failed and left
  ablate table doc_layer_mix                       the table of a study, as far as it is
  ablate components head doc                       a technique: paper, equation, fields
  ablate spaces takase2018doc_table2               a paper's hyperparameter table
  ablate data get ptb --from ~/ptb                 take over a corpus you have
  ablate query "SELECT * FROM arms"                ask all records, in SQL
  ablate compare --except head                     what a change of heads bought, anywhere
  ablate compare takase2018doc doc_layer_mix       ours beside the paper's
  ablate report doc_layer_mix                      all of it on one page, with pictures
  ablate ui                                        open the MLflow UI on the records
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit status tells what kind of failure there was."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a letter it lacks is no reason to fail
            stream.reconfigure(errors="replace")
    try:
        options = _parser().parse_args(arguments)
        status = options.run(options) or 0
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except AblateError as error:
        return _fail(str(error), error.exit_code)
    except BrokenPipeError:
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return _fail("stopped; nothing that was done is lost.", 130)
    except OSError as error:
        if error.filename is None and error.errno not in NO_ROOM:
            raise
        place = f"{error.filename}: " if error.filename else ""
        return _fail(f"{place}{error.strerror}.", 4)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ablate"):
            raise
        need = "pip install 'ablate[study]'"
        return _fail(f"this command needs the package {error.name}: {need}.", 7)


def _fail(message: str, status: int) -> int:
    print(f"ablate: {message}", file=sys.stderr)
    return status


def study(options: argparse.Namespace) -> int:
    from ablate.engine import RunOptions, run_and_show

    command = _command(options)
    _settle_cluster(options)
    chosen = RunOptions(
        local=options.local,
        workers=options.workers,
        address=options.cluster,
        verbose=options.verbose,
    )
    return run_and_show(options.file, options.scale, _workspace(options), chosen, command)


def plan(options: argparse.Namespace) -> int:
    from ablate.show_plan import show_plan

    return _shown(show_plan(options.file, options.scale, _workspace(options)))


def probe(options: argparse.Namespace) -> int:
    from ablate.plan import make_plan
    from ablate.probe import show_probe
    from ablate.study_file import load

    data = _workspace(options).data
    return _shown(show_probe(make_plan(load(options.file), options.scale, data=data), data))


def status(options: argparse.Namespace) -> int:
    from ablate.status import show_status

    return _shown(show_status(_workspace(options), options.study))


def table(options: argparse.Namespace) -> int:
    from ablate.status import show_table

    return _shown(show_table(_workspace(options), options.study, options.format, options.effects))


def trial(options: argparse.Namespace) -> int:
    from ablate.single import run_config

    return run_config(options.config, options.seed, options.threads, _workspace(options))


def rerun(options: argparse.Namespace) -> int:
    from ablate.single import rerun_trial

    return rerun_trial(options.trial, _workspace(options))


def analyze(options: argparse.Namespace) -> int:
    from ablate.analysis import show

    if options.analysis is None:
        return _shown(show.list_analyses())
    if not options.trials:
        return _shown(show.describe(options.analysis))
    named = options.analysis, options.trials, options.set
    return _shown(show.analyze(*named, _workspace(options)))


def components(options: argparse.Namespace) -> int:
    from ablate.show_components import show_components

    return _shown(show_components(options.slot, options.name, options.techniques))


def spaces(options: argparse.Namespace) -> int:
    from ablate import space

    if options.name is None:
        return _shown(space.render_index())
    found = space.load(options.name)
    if options.check:
        found.check()
    return _shown(found.render())


def data(options: argparse.Namespace) -> int:
    from ablate.data import commands

    return commands.run(options.action, options.name, options.source, _workspace(options).data)


def sync(options: argparse.Namespace) -> int:
    from ablate.engine import sync_records

    return sync_records(_workspace(options))


def ui(options: argparse.Namespace) -> int:
    from ablate.engine import open_ui

    return open_ui(_workspace(options), options.port)


def query(options: argparse.Namespace) -> int:
    from ablate import ask

    return _shown(ask.query(_workspace(options), options.sql, options.format))


def compare(options: argparse.Namespace) -> int:
    from ablate import ask

    names, slots = options.names, options.except_
    return _shown(ask.compare(_workspace(options), names, slots, options.split, options.format))


def importance(options: argparse.Namespace) -> int:
    from ablate import ask

    return _shown(ask.importance(_workspace(options), options.study))


def provenance(options: argparse.Namespace) -> int:
    from ablate import ask

    return _shown(ask.provenance(_workspace(options), options.hash))


def tokens(options: argparse.Namespace) -> int:
    from ablate.by_token import show_tokens

    return _shown(show_tokens(_workspace(options), options.trials, options.split))


def plot(options: argparse.Namespace) -> int:
    from ablate.plots.show import plot

    return _shown(plot(_workspace(options), options.study, options.plots, options.to))


def report(options: argparse.Namespace) -> int:
    from ablate.plots.report import report

    return _shown(report(_workspace(options), options.study))


def doctor(options: argparse.Namespace) -> int:
    from ablate.doctor import examine

    if options.cluster == "":
        options.cluster = os.environ.get("RAY_ADDRESS") or "auto"
    else:
        _settle_cluster(options)
    return examine(_workspace(options), options.cluster)


def _shown(text: str) -> int:
    print(text)
    return 0


def _settle_cluster(options: argparse.Namespace) -> None:
    """A cluster's name stands for its address, and for places that the command does not name."""
    if options.cluster is None:
        return
    from ablate import clusters
    from ablate.workspace import open_workspace

    found = clusters.named(options.cluster, open_workspace(options.workspace).folder)
    options.cluster = found.pop("address")
    for name, value in found.items():
        if getattr(options, name, value) is None:
            setattr(options, name, value)


def _command(options: argparse.Namespace) -> str:
    """The command that goes on with a study, as it may be shown and kept."""
    from ablate.record.places import redacted

    words = ["ablate", "study", options.file]
    for name in ("scale", "workers", "cluster", "workspace", "store", "mlflow", "searches"):
        value = getattr(options, name)
        words += [] if value is None else [f"--{name}", redacted(str(value))]
    return shlex.join([*words, *(["--local"] if options.local else [])])


def _workspace(options: argparse.Namespace) -> Any:
    from ablate.workspace import open_workspace

    return open_workspace(
        options.workspace,
        store=options.store,
        mlflow=options.mlflow,
        searches=options.searches,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ablate",
        usage="ablate COMMAND [options]",
        description="Which technique really helps, once every variant had a fair chance?",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND [options]", prog="ablate", required=True
    )
    places = _places()

    def command(function: Any, summary: str, example: str) -> argparse.ArgumentParser:
        added = commands.add_parser(
            function.__name__,
            help=summary,
            description=summary,
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            parents=[places],
        )
        added.set_defaults(run=function)
        return added

    _study_commands(command)
    _picture_commands(command)
    _trial_commands(command)
    _asking_commands(command)
    _other_commands(command)
    return parser


def _study_commands(command: Any) -> None:
    added = command(
        study, "run a study, or go on with it where it stopped", "ablate study studies/x.py"
    )
    added.add_argument("file", help="the study file")
    added.add_argument("--scale", help="one of the study's scales (the first, if not given)")
    added.add_argument("--local", action="store_true", help="in this process, without Ray")
    added.add_argument("--workers", type=_count, help="trials at a time (all cores, if not given)")
    added.add_argument(
        "--cluster", metavar="ADDRESS|NAME", help="a Ray cluster (else RAY_ADDRESS), or its name"
    )
    added.add_argument("-v", "--verbose", action="store_true", help="Ray's and Tune's own messages")
    added = command(
        plan, "what a study would run: arms, trials, cost", "ablate plan studies/x.py --scale paper"
    )
    added.add_argument("file", help="the study file")
    added.add_argument("--scale", help="one of the study's scales (the first, if not given)")
    added = command(
        probe, "threads a trial: which way this machine trains fastest", "ablate probe studies/x.py"
    )
    added.add_argument("file", help="the study file")
    added.add_argument("--scale", help="one of the study's scales (the first, if not given)")
    added = command(
        status, "what is done, running, failed, pruned and left", "ablate status doc_layer_mix"
    )
    added.add_argument("study", nargs="?", help="a study's name, or name@scale (else all)")
    added = command(table, "a study's table, as far as it is", "ablate table x --format markdown")
    added.add_argument("study", help="a study's name, or name@scale")
    added.add_argument(
        "--format",
        choices=("text", "markdown", "latex", "csv", "html"),
        default="text",
        help="text (default), or with a hash that `ablate provenance` follows",
    )
    added.add_argument(
        "--effects",
        action="store_true",
        help="with csv: a row for each effect of a factorial, not for each arm",
    )


def _picture_commands(command: Any) -> None:
    added = command(plot, "a study's pictures, as PNG and SVG", "ablate plot doc_layer_mix deltas")
    added.add_argument("study", help="a study's name, or name@scale")
    added.add_argument(
        "plots",
        nargs="*",
        metavar="PLOT",
        help="deltas, curves, parameters, interactions, budget, search (else all there are)",
    )
    added.add_argument("--to", metavar="DIR", help="where (the study's folder in the workspace)")
    added = command(
        report, "everything about a study on one HTML page", "ablate report doc_layer_mix"
    )
    added.add_argument("study", help="a study's name, or name@scale")


def _trial_commands(command: Any) -> None:
    added = command(
        trial, "run one trial from a config, with torch alone", "ablate trial config.toml --seed 2"
    )
    added.add_argument("config", help="a TOML file of values")
    added.add_argument("--seed", type=int, default=1, help="of every random stream (1)")
    added.add_argument("--threads", type=_count, default=1, help="that torch may use (1)")
    added = command(rerun, "repeat a recorded trial: do the bits agree?", "ablate rerun 3f2a9c")
    added.add_argument("trial", help="a trial's id, or its first digits")
    added = command(
        tokens,
        "trials by the token: ensembles, interpolations, sentences",
        "ablate tokens 3f2a9c 81bb02",
    )
    added.add_argument("trials", nargs="+", help="ids of finished trials, or their first digits")
    added.add_argument(
        "--split",
        choices=("valid", "test"),
        default="valid",
        help="(valid); reading test once more is written down",
    )
    example = "ablate analyze next_words 3f2a9c 81bb02 --set num=5"
    added = command(analyze, "look into finished trials: a table, a picture", example)
    added.add_argument("analysis", nargs="?", help="which; without one, the list of them")
    added.add_argument(
        "trials", nargs="*", help="ids of trials, or their first digits; without one, its options"
    )
    added.add_argument(
        "--set", action="append", default=[], metavar="OPTION=VALUE", help="an option"
    )


def _asking_commands(command: Any) -> None:
    forms = {
        "choices": ("table", "csv", "json", "markdown"),
        "default": "table",
        "help": "of the answer (table)",
    }
    example = "ablate query \"SELECT study, arm, ppl FROM arms WHERE corpus = 'ptb'\""
    added = command(query, "ask all records, in SQL", example)
    added.add_argument("sql", help="a SELECT over trials, epochs, arms, studies, published")
    added.add_argument("--format", **forms)
    added = command(
        compare,
        "studies beside papers; or what one change bought, over all records",
        "ablate compare --except head",
    )
    added.add_argument("names", nargs="*", help="studies and papers, for one table")
    added.add_argument(
        "--except",
        dest="except_",
        metavar="SLOT",
        help="all pairs of trials that differ in this alone: a slot, a field, or more with commas",
    )
    added.add_argument(
        "--split", choices=("valid", "test"), help="this alone (--except: valid; else: both)"
    )
    added.add_argument("--format", **forms)
    added = command(
        importance, "which hyperparameters mattered in a search", "ablate importance my_study"
    )
    added.add_argument("study", help="a study's name, or name@scale")
    added = command(
        provenance, "what is behind an exported table", "ablate provenance 3f2a9c81d5e60b74"
    )
    added.add_argument("hash", help="of the table's footnote, or its first digits")


def _other_commands(command: Any) -> None:
    added = command(
        components, "the techniques, with paper, equation and fields", "ablate components head doc"
    )
    added.add_argument("slot", nargs="?", help="backbone, head, loss, ... (else all)")
    added.add_argument("name", nargs="?", help="a technique of the slot, to see its fields")
    added.add_argument("--techniques", metavar="FILE", help="a file with techniques of your own")
    added = command(
        spaces, "the papers' hyperparameter tables", "ablate spaces takase2018doc_table2"
    )
    added.add_argument("name", nargs="?", help="a file of search_spaces/ (else all)")
    added.add_argument("--check", action="store_true", help="check it against the techniques too")
    added = command(data, "list, fetch or verify corpora", "ablate data get ptb --from ~/ptb")
    added.add_argument("action", choices=("list", "get", "verify"), help="what to do")
    added.add_argument("name", nargs="?", help="a corpus of the list (verify: else all)")
    added.add_argument("--from", dest="source", metavar="DIR", help="take the files from a folder")
    command(sync, "deliver what a tracking server missed", "ablate sync --mlflow http://host:5000")
    added = command(ui, "open the MLflow UI on the records", "ablate ui --port 5050")
    added.add_argument("--port", type=_count, default=5050, help="of this machine (5050)")
    added = command(doctor, "check versions, devices, disk, workspace and servers", "ablate doctor")
    added.add_argument(
        "--cluster",
        nargs="?",
        const="",
        metavar="ADDRESS|NAME",
        help="ask a cluster's hosts too: this one, else RAY_ADDRESS's, else this machine's",
    )


def _places() -> argparse.ArgumentParser:
    places = argparse.ArgumentParser(add_help=False)
    group = places.add_argument_group("places")
    group.add_argument("--workspace", metavar="DIR", help="where everything is kept (.ablate)")
    group.add_argument("--store", metavar="URI", help="trials and studies elsewhere")
    group.add_argument("--mlflow", metavar="URI", help="an MLflow server")
    group.add_argument("--searches", metavar="URL", help="a database for searches")
    return places


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


class _Version(argparse.Action):
    """argparse's own wants the version for every `--help`, and it takes half of that time."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(_version())
        parser.exit()


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"ablate {version('ablate')}"
    except PackageNotFoundError:
        return "ablate (not installed)"
