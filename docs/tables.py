"""Write the tables of pages whose text stands in the code: `python docs/tables.py`.

Such a table stands between `<!-- from the code: NAME -->` and `<!-- end -->`. NAME is a public name
of `ablate`, whose docstring explains its fields or arguments, or a key of `TABLES`.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import ablate
from ablate.config.fields import REQUIRED
from ablate.results.facts import FACTS, OF_STUDIES, Fact, Kind

NONE = inspect.Parameter.empty
PAGES = Path(__file__).parent
BLOCK = re.compile(r"(<!-- from the code: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
ARGUMENTS = re.compile(r"^(?:Args|Attributes):\n((?:(?: .*)?\n)+)", re.MULTILINE)
ARGUMENT = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
DESIGNS = (
    ablate.table,
    ablate.one_at_a_time,
    ablate.leave_one_out,
    ablate.factorial,
    ablate.fractional_factorial,
    ablate.path,
)


def explained(thing: Any) -> dict[str, str]:
    """Return what the docstring of a class or function says of each field or argument."""
    section = ARGUMENTS.search((inspect.getdoc(thing) or "") + "\n")
    found = ARGUMENT.findall(section[1]) if section else []
    return {name: " ".join(text.split()) for name, text in found}


def defaults(thing: Any) -> dict[str, Any]:
    """Return the default of each field or argument; `NONE` for what must be given."""
    if dataclasses.is_dataclass(thing):
        return {field.name: _default(field) for field in dataclasses.fields(thing) if field.init}
    parameters = inspect.signature(thing).parameters.values()
    needless = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {
        p.name: None if p.kind in needless or p.default is REQUIRED else p.default
        for p in parameters
    }


def _default(field: dataclasses.Field) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return None
    return NONE if field.default in (dataclasses.MISSING, REQUIRED) else field.default


def _shown(default: Any) -> str:
    if default is NONE:
        return "required"
    return "" if default in (None, "", ()) else f"`{default!r}`".replace("'", '"')


def fields(thing: Any) -> Iterator[str]:
    """Yield the rows of a class's fields, or of a function's arguments."""
    yield "| name | default | meaning |\n|---|---|---|"
    texts = explained(thing)
    for name, default in defaults(thing).items():
        yield f"| `{name}` | {_shown(default)} | {texts[name]} |"


def given() -> Iterator[str]:
    """Yield the rows of what a task's function is given: no user makes a `Run`."""
    yield "| | |\n|---|---|"
    for name, text in explained(ablate.Run).items():
        yield f"| `run.{name}` | {text} |"


def designs() -> Iterator[str]:
    """Yield the rows of the functions that make a study's arms."""
    yield "| design | arms |\n|---|---|"
    for design in DESIGNS:
        text = (inspect.getdoc(design) or "").partition("\n\nArgs:")[0]
        yield f"| `{signature(design)}` | {' '.join(text.split())} |"


def facts(listed: Iterable[Fact[Any]]) -> Iterator[str]:
    """Yield the rows of what is recorded of trials, or of studies."""
    words = {Kind.TEXT: "text", Kind.WHOLE: "integer", Kind.NUMBER: "number", Kind.TRUTH: "boolean"}
    yield "| column | type | meaning |\n|---|---|---|"
    for fact in listed:
        if fact.doc:
            yield f"| `{fact.name}` | {words[fact.kind]} | {fact.doc} |"


def signature(function: Callable[..., Any]) -> str:
    """Return how a function is called, without types: `path(steps, *, start="start")`."""
    given = inspect.signature(function)
    plain = [p.replace(annotation=p.empty) for p in given.parameters.values()]
    words = given.replace(parameters=plain, return_annotation=given.empty)
    return f"{function.__name__}{words}".replace("'", '"')


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "designs": designs,
    "what a function gets": given,
    "facts of a trial": lambda: facts(FACTS),
    "facts of a study": lambda: facts(OF_STUDIES),
}


def written(page: str) -> str:
    """Return the text of a page with its tables as the code has them now."""

    def table(block: re.Match[str]) -> str:
        name = block[2]
        rows = TABLES[name]() if name in TABLES else fields(getattr(ablate, name))
        return "\n".join((block[1].rstrip("\n"), "", *rows, "", block[3]))

    return BLOCK.sub(table, page)


if __name__ == "__main__":
    for path in sorted(PAGES.rglob("*.md")):
        before = path.read_text(encoding="utf-8")
        if (after := written(before)) != before:
            path.write_text(after, encoding="utf-8")
            print(path.name)
