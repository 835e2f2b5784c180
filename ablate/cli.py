"""The command line: finds the command, runs it, and turns what went wrong into an exit status."""

from __future__ import annotations

import argparse
import errno
import io
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from ablate import commands
from ablate.errors import (
    DISTRIBUTION,
    AblateError,
    ConfigError,
    StillRunning,
    needs,
    unknown,
    wrong_value,
)
from ablate.redaction import redacted

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
# Every control character, except the tab and the end of a line.
CONTROLS = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)], "\N{REPLACEMENT CHARACTER}")
OUT_OF_MEMORY = "out of memory. See how much a process may use with: ulimit -v; free -h"
EXAMPLES = """examples:
  ablate new my_study.py                           write a small study to start from
  ablate data add mine text.txt                    import a text of your own
  ablate plan my_study.py                          its arms, trials and cost
  ablate study my_study.py --ui                    run it, or resume it, with a page to watch
  ablate study my_study.py --local                 the same without Ray, to step through
  ablate status                                    what is done, running, failed and left
  ablate table my_study.py                         its results (also while it is running)
  ablate report my_study.py                        everything on one page, with plots
  ablate ui                                        a page that shows all studies
  ablate judge r.csv --arm model --metric acc --better higher   results of a loop of your own
  ablate show studies                                   the studies that come with ablate
  ablate table compare takase2018doc doc_layer_mix       our numbers next to the paper's
  ablate table compare --except head                     what changing the head bought, in any study
  ablate show components head doc                       a technique: paper, equation, fields
  ablate show spaces takase2018doc_table2               a paper's hyperparameter table
  ablate query "SELECT * FROM arms"                query all records in SQL
  ablate mcp --ledger tries.jsonl                  serve a coding agent, as its referee
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. The exit status says what kind of failure there was."""
    try:  # from the first line on: Ctrl-C may come at any time
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # a missing letter is no reason to fail
                stream.reconfigure(errors="replace")
        sys.excepthook = _show_bug
        words = sys.argv[1:] if arguments is None else list(arguments)
        _check(words)
        # Only the chosen command is imported: all of them would take seconds.
        words = commands.found(words)
        options = parser(*words[:1]).parse_args(words)
        _check_folder()
        return _finish(options.run(options))
    except StillRunning as error:
        status = _fail(str(error), error.exit_code)
        if arguments is None:  # this process is the command's own; Python's end would abort it
            os._exit(status)
        return status
    except AblateError as error:
        return _fail(str(error), error.exit_code)
    except BrokenPipeError:
        if sys.stdout is not None:
            # Else Python writes the rest to the closed pipe when it ends, and prints an error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return _fail("stopped; nothing that was done is lost.", 130)
    except OSError as error:
        if error.filename is None and error.errno not in DISK_FULL:
            raise  # a bug, which is shown with its traceback
        path = f"{error.filename}: " if error.filename else ""
        return _fail(redacted(f"{path}{error.strerror}."), 4)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ablate"):
            raise  # a bug: no package would help
        return _fail(needs("this command needs", error.name or "?"), 7)
    except ImportError as error:  # a library that does not fit under `ulimit -v`
        if "failed to map segment" not in str(error) and "allocate memory" not in str(error):
            raise
        return _fail(OUT_OF_MEMORY, 5)
    except RecursionError:
        return _fail("something in the input is nested too deeply to be read.", 2)
    except MemoryError:
        return _fail(OUT_OF_MEMORY, 5)


def _check(words: Sequence[str]) -> None:
    """Refuse what argparse does not name well: a command's misspelling, or `--name=--`, which it
    takes for a list of nothing."""
    known = [*commands.names(), commands.SHOW]
    if words and not words[0].startswith("-") and words[0] not in known:
        raise ConfigError(unknown("command", words[0], known))
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "0")
    if not re.fullmatch(r"\s*\d{1,12}\s*", epoch):
        raise ConfigError(
            wrong_value("SOURCE_DATE_EPOCH", epoch, "seconds since 1970", "the environment")
        )
    for word in words:
        if re.fullmatch("--[a-z-]+=--", word):
            raise ConfigError(f"{word} has no value. Expected: {word.removesuffix('--')}VALUE.")


def _check_folder() -> None:
    try:
        os.getcwd()
    except FileNotFoundError:
        raise ConfigError(
            "the current folder has been deleted. Change to another one: cd"
        ) from None


def _finish(result: str | int | None) -> int:
    """Print a command's result; return its exit status."""
    if isinstance(result, str):
        print(_for_a_terminal(result, sys.stdout))
    if sys.stdout is not None:  # the caller may have closed it (`>&-`)
        sys.stdout.flush()  # here, where `main` handles a closed pipe and a full disk
    return result if isinstance(result, int) else 0


def _show_bug(kind: type[BaseException], error: BaseException, frames: Any) -> None:
    """Print a traceback as Python does, without secrets."""
    import traceback

    print(redacted("".join(traceback.format_exception(kind, error, frames))), file=sys.stderr)


def _fail(message: str, status: int) -> int:
    print(f"ablate: {_for_a_terminal(message, sys.stderr)}", file=sys.stderr, flush=True)
    return status


def _for_a_terminal(text: str, stream: Any) -> str:
    """A text without the control characters that a terminal obeys: records may have any."""
    return text.translate(CONTROLS) if stream is not None and stream.isatty() else text


class _Parser(argparse.ArgumentParser):
    """Gives a command that passes words on all those behind `--`.

    argparse gives a positional of its own none of them if an option stands before the `--`.
    """

    passes_on: str | None = None  # the attribute that gets the words

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        if self.passes_on is None or args is None:
            return super().parse_known_args(args, namespace)
        end = args.index("--") if "--" in args else len(args)
        options, unknown = super().parse_known_args(args[:end], namespace)
        setattr(options, self.passes_on, args[end + 1 :])
        return options, unknown


def parser(*chosen: str) -> argparse.ArgumentParser:
    """The parser of all commands, with the options of those that are chosen."""
    whole = _Parser(
        prog="ablate",
        usage="ablate COMMAND [options]",
        description="Which technique really helps, once every variant has had a fair chance?",
        epilog=f"{_groups()}\n\n{EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    added = whole.add_subparsers(
        metavar="COMMAND [options]", prog="ablate", required=True, help=argparse.SUPPRESS
    )
    for name in commands.names():
        one = added.add_parser(
            name,
            prog=f"ablate {commands.called(name)}",
            description=commands.summary(name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name in chosen:
            module = commands.load(name)
            module.arguments(one)
            one.passes_on = getattr(module, "PASSES_ON", None)
            one.epilog = f"example:\n  {module.EXAMPLE}"
            one.set_defaults(run=module.run)
    return whole


def _groups() -> str:
    """The commands, as the help shows them."""
    lines = []
    for group, names in commands.groups().items():
        lines += ["", f"{group}:"]
        lines += [f"  {commands.called(name):<17} {commands.summary(name)}" for name in names]
    return "\n".join(lines[1:])


class _Version(argparse.Action):
    """Looks the version up only when it is printed, unlike argparse's action: that takes time."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(_version())
        parser.exit()


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"ablate {version(DISTRIBUTION)}"
    except PackageNotFoundError:
        return "ablate (not installed)"
