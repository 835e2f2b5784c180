"""List the shipped studies, or copy one to edit."""

from __future__ import annotations

import argparse
import ast
import shlex
from pathlib import Path

from ablate.compare.formats import text
from ablate.errors import StudyError, unknown
from ablate.study.file import load, shipped

EXAMPLE = "ablate show studies doc_layer_mix --copy ."


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate show studies`."""
    parser.add_argument("name", nargs="?", help="a shipped study to describe (default: list all)")
    parser.add_argument("--copy", metavar="FOLDER", help="copy the study's file into this folder")


def run(options: argparse.Namespace) -> str:
    """Return the list of shipped studies, or one study's page; or copy its file."""
    files = shipped()
    if options.name is None:
        if options.copy is not None:
            raise StudyError(f"--copy needs a study's name. Expected one of: {', '.join(files)}.")
        return _index(files)
    if options.name not in files:
        raise StudyError(unknown("shipped study", options.name, files))
    file = files[options.name]
    return _page(file) if options.copy is None else _copy(file, Path(options.copy))


def _index(files: dict[str, Path]) -> str:
    studies = {name: load(file) for name, file in files.items()}
    rows = [[name, s.paper, s.question.splitlines()[0]] for name, s in studies.items()]
    lines = text.aligned(["Name", "Paper", "Question"], rows)
    then = "run one: ablate study NAME     edit one: ablate show studies NAME --copy ."
    return "\n".join([*lines, "", then])


def _page(file: Path) -> str:
    """Return the study's docstring, and the commands to run and to copy it."""
    # Parsed, and not executed: a page needs none of what the study imports.
    name, doc = file.stem, ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return f"{doc}\n\nrun it:   ablate study {name}\nedit it:  ablate show studies {name} --copy ."


def _copy(file: Path, folder: Path) -> str:
    """Copy one file, and never overwrite another."""
    target = folder / file.name
    try:
        with target.open("xb") as copy:  # "x" fails if the file exists
            copy.write(file.read_bytes())
    except FileExistsError:
        raise StudyError(
            f"{target} already exists and is left as it is. Instead: rename it, or copy to another "
            "folder."
        ) from None
    command = f"ablate study {shlex.quote(str(target))}"
    return f"copied to {target}\nrun it:   {command}\nscales:   {', '.join(load(target).scales)}"
