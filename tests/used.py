"""Print every public word with its shipped uses: fields of study files, techniques, samplers.

    python -m tests.used

A use is in a shipped study, a search space, a block of docs or README, or a template of `ablate
new`; or `ablate/study` itself sets it. It is found by the syntax tree: arguments of a word's class,
of `replace` and of `smoke`, for fields; the values of slots, such as `"head": "doc"` and
`"evaluator.cache.share"`, for techniques.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from ablate import Ladder, Scale, Search, Stage, Study
from ablate.config import registry
from tests.support import places

WORDS = {word.__name__: [f.name for f in fields(word)] for word in (Scale, Search, Stage, Study)}
MOST_FIELDS = 70  # of these together
WORDS |= {"Ladder": [f.name for f in fields(Ladder)]}
CHANGING = ("replace", "smoke")  # functions whose arguments are fields of whatever is changed
# Schedules as fields of sgd and adam, which recipes of papers and recorded trials set.
OLDER = {"inverse_sqrt_epoch": "inverse_sqrt", "decay": "halving", "patience": "plateau"}
BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
Used = tuple[str, str]  # the class or slot, and the name


def public_words() -> list[Used]:
    """Every field of a study's words, and every technique of every slot."""
    names = ((word, name) for word, own in WORDS.items() for name in own)
    techniques = ((slot, name) for slot in registry.every_slot() for name in registry.shipped(slot))
    return [*names, *techniques]


def python_uses(source: str) -> Iterator[Used]:
    """The words that a text of Python uses."""
    tree = ast.parse(source)
    functions = {n.name: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            yield from _of_slots((_value(key), _value(value)) for key, value in pairs if key)
        elif isinstance(node, ast.Constant):
            yield from _of_slots([(node.value, None)])
        elif isinstance(node, ast.Call):
            yield from _of_call(node, functions)


def _of_call(node: ast.Call, functions: dict[str, ast.FunctionDef]) -> Iterator[Used]:
    called = getattr(node.func, "id", getattr(node.func, "attr", ""))
    parameters = WORDS.get(called, [])
    if called in functions:
        parameters = [argument.arg for argument in functions[called].args.args]
    given = {**dict(zip(parameters, node.args, strict=False)), **_keywords(node)}
    yield from _of_slots((name, _value(value)) for name, value in given.items())
    for word, names in WORDS.items():
        if called == word or called in CHANGING:
            yield from ((word, name) for name in given if name in names)


def _keywords(node: ast.Call) -> dict[str, ast.expr]:
    return {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}


def _value(node: ast.expr | None) -> Any:
    """What a literal says; None for anything else."""
    try:
        return ast.literal_eval(node) if node else None
    except ValueError:
        return None


def toml_uses(source: str) -> Iterator[Used]:
    """The techniques that a search space or a trial's config names."""
    tables = [tomllib.loads(source)]
    for table in tables:
        tables += [own for own in table.values() if isinstance(own, dict)]
        told = [table.get(name) for name in ("value", "choices")]
        yield from _of_slots((table.get("field"), each) for each in told)
        yield from _of_slots((slot, own["name"]) for slot, own in table.items() if _is_named(own))


def _is_named(own: Any) -> bool:
    return isinstance(own, dict) and "name" in own


def _of_slots(values: Iterable[tuple[Any, Any]]) -> Iterator[Used]:
    """Techniques in `slot: name`, `slot: [name, other]`, `slot.name.field`."""
    for key, value in values:
        slot, _, rest = key.partition(".") if isinstance(key, str) else ("", "", "")
        if key == "optimizer.schedule" and value in OLDER:
            yield "schedule", OLDER[value]
        if slot in registry.listed_slots() and rest:
            yield slot, rest.partition(".")[0]
        if key in registry.every_slot():
            yield from ((slot, name) for name in _strings(value))


def _strings(value: Any) -> list[str]:
    many = value.values() if isinstance(value, dict) else value
    each = many if isinstance(value, dict | list | tuple) else [value]
    return [name for name in each if isinstance(name, str)]


def sources() -> Iterator[tuple[str, str, str]]:
    """File, language and text of everything that ships, or that shows how to use what ships."""
    package = places.ROOT / "ablate"
    own = (package / room for room in ("study", "templates"))
    for folder in (places.STUDIES, places.DOCS, *own):
        for file in sorted([*folder.rglob("*.py"), *folder.rglob("*.py.txt")]):
            yield str(file.relative_to(places.ROOT)), "python", file.read_text(encoding="utf-8")
    for file in sorted((places.ROOT / "search_spaces").glob("*.toml")):
        yield f"search_spaces/{file.name}", "toml", file.read_text(encoding="utf-8")
    for page in [places.ROOT / "README.md", *sorted(places.DOCS.rglob("*.md"))]:
        for language, block in BLOCK.findall(page.read_text(encoding="utf-8")):
            yield str(page.relative_to(places.ROOT)), language, block


def uses() -> dict[Used, list[str]]:
    """Word -> the files that use it."""
    found: dict[Used, list[str]] = defaultdict(list)
    for slot, name in [*registry.defaults().items(), (registry.SAMPLER, "tpe")]:
        found[slot, name].append("(the default)")
    for file, language, text in sources():
        read = {"python": python_uses, "toml": toml_uses}.get(language)
        if read is None:
            continue
        try:
            used = set(read(text))
        except (SyntaxError, tomllib.TOMLDecodeError):  # a part of a file
            continue
        for each in used:
            found[each].append(file)
    return found


def unused() -> list[str]:
    """The public words that nothing shipped uses."""
    found = uses()
    return [f"{kind}.{name}" for kind, name in public_words() if not found.get((kind, name))]


if __name__ == "__main__":
    found = uses()
    for kind, name in public_words():
        where = list(dict.fromkeys(found.get((kind, name), [])))
        print(f"{len(where):4}  {kind}.{name}  {', '.join(where[:3])}")
