"""Write a small study, a training, a technique and its test, or instructions for agents."""

from __future__ import annotations

import argparse
import ast
import json
import keyword
import shlex
from pathlib import Path

from ablate.commands import _options
from ablate.config import registry
from ablate.config.plugins import plugins
from ablate.errors import ConfigError, unknown, wrong_value

EXAMPLE = "ablate new my_study.py"
_PACKAGE = Path(__file__).parents[1]
TEMPLATES = _PACKAGE / "templates"
OF_THE_MODEL = ("paper", "equation", "departures", "version")  # what `register` says of the copied


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate new`."""
    parser.add_argument("file", help="the file to write, such as my_study.py")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument(
        "--corpus",
        default="grammar",
        metavar="NAME",
        help="a study of this corpus, such as one of `ablate data add` (default: grammar, which is "
        "built in)",
    )
    kind.add_argument(
        "--task", action="store_true", help="a study of a training of your own, in plain torch"
    )
    kind.add_argument(
        "--agents", action="store_true",
        help="instructions for coding agents, such as AGENTS.md: how to ask for a verdict",
    )  # fmt: skip
    kind.add_argument(
        "--technique",
        metavar="SLOT",
        help=f"a technique and its test; SLOT: {', '.join(sorted(registry.slots()))}",
    )
    _options.add_locations(parser, "workspace")


def run(options: argparse.Namespace) -> str:
    """Write the files, and say what to do next."""
    file = Path(options.file)
    if options.agents:
        _write({file: (TEMPLATES / "agents.md.txt").read_text(encoding="utf-8")})
        return f"wrote {file}; docs/judging.md has more"
    if file.suffix != ".py":
        raise ConfigError(
            wrong_value("FILE", options.file, "a name that ends in .py", "ablate new")
        )
    if options.technique is not None:
        return _technique(file, options.technique)
    quoted, missing = shlex.quote(str(file)), ""
    if options.task:
        text = _template("task.py", name=_name(file), file=quoted)
    else:
        missing, level = _checked(options)
        text = _template("study.py", file=quoted, corpus=json.dumps(options.corpus), level=level)
    _write({file: text})
    return (
        f"wrote {file}\n\n{missing}look at what it trains:  ablate plan {quoted}\n"
        f"run it, or resume it:    ablate study {quoted}"
    )


def _checked(options: argparse.Namespace) -> tuple[str, str]:
    """Refuse a corpus that the study could not read.

    Return a line for people on one that is not fetched, and lines for the study on how it is read.
    """
    from ablate.config.data_source import source_of
    from ablate.config.tasks import DATA, kind_chosen_by

    kind, data = kind_chosen_by({}), _options.workspace(options).data
    values = kind.asked.values_of_data(options.corpus, data)
    settings = {key.removeprefix(f"{DATA}."): value for key, value in values.items()}
    source = source_of(kind.sections[DATA](name=options.corpus, **settings), data)
    source.digest()
    missing = source.to_fetch()
    lines = (f"        {json.dumps(key)}: {json.dumps(value)},\n" for key, value in values.items())
    return f"{missing}\n" if missing else "", "".join(lines)


def _technique(file: Path, slot: str) -> str:
    models = {slot: name for plugin in plugins() for slot, name in plugin.examples.items()}
    if slot not in models:
        raise ConfigError(unknown("slot", slot, models, "--technique"))
    name, test = _name(file), file.with_name(f"test_{file.name}")
    model = models[slot]
    source = registry.file_of(slot, model)
    _write(
        {
            file: _copied(source.read_text(encoding="utf-8"), slot, model, name),
            test: _template("test_technique.py", name=name, slot=slot),
        }
    )
    quoted = shlex.quote(str(file))
    return (
        f"wrote {file}, a copy of the {slot} `{model}` for you to change, and {test}\n\n"
        f"test it:        python -m pytest {shlex.quote(str(test))}\n"
        f"see its page:   ablate show components {slot} {name} --techniques {quoted}\n"
        f"use it:         Study(..., techniques=({file.name!r},)), in a study next to it"
    )


def _name(file: Path) -> str:
    """The name of a task or technique: its file's."""
    if not file.stem.isidentifier() or keyword.iskeyword(file.stem) or not file.stem.islower():
        expected = "a name in snake_case, such as my_training.py"
        raise ConfigError(wrong_value("FILE", str(file), expected, "ablate new"))
    return file.stem


def _template(which: str, **words: str) -> str:
    text = (TEMPLATES / f"{which}.txt").read_text(encoding="utf-8")
    for word, value in words.items():  # not `format`: Python's own braces stay as they are
        text = text.replace(f"{{{word}}}", value)
    return text


def _copied(source: str, slot: str, model: str, name: str) -> str:
    """The source of a technique that registers as `name`, without the paper of the original."""
    tree, lines = ast.parse(source), source.splitlines()
    for node in tree.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "register":
                kept = [ast.unparse(k) for k in mark.keywords if k.arg not in OF_THE_MODEL]
                words = ", ".join([f'"{slot}"', f'"{name}"', *kept])
                lines[mark.lineno - 1 : mark.end_lineno] = [f"@register({words})"]
    comment = [
        "",
        f"# Written by `ablate new` as a copy of ablate's {slot} `{model}`: change the",
        "# formula above, the config's fields and the code below.",
    ]
    after = tree.body[0].end_lineno or 1  # the docstring, which is shown as the formula
    return "\n".join([*lines[:after], *comment, *lines[after:]]) + "\n"


def _write(texts: dict[Path, str]) -> None:
    """Write all files, or none: an existing one is left as it is."""
    if there := [str(file) for file in texts if file.exists()]:
        raise ConfigError(
            f"{' and '.join(there)} already exists and is left as it is. Instead: another name."
        )
    for file, text in texts.items():
        try:
            with file.open("x", encoding="utf-8") as new:
                new.write(text)
        except FileNotFoundError:
            raise ConfigError(
                f"there is no folder {file.parent}. Make it: mkdir {file.parent}"
            ) from None
