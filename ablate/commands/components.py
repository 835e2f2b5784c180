"""List the techniques by slot, with paper, equation and fields."""

from __future__ import annotations

import argparse
import inspect
import itertools
import textwrap
from collections.abc import Iterable, Iterator, Mapping

from ablate.commands import _options
from ablate.commands._answers import Components, FieldOf, OneSection, OneTechnique
from ablate.compare.formats import json, text
from ablate.compare.text.plain import paragraph
from ablate.config import registry
from ablate.config.fields import FieldInfo, describe
from ablate.config.metrics import Metric
from ablate.config.tasks import find_kind, kind_names
from ablate.errors import ConfigError, unknown

EXAMPLE = "ablate show components head doc"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate show components`."""
    parser.add_argument(
        "slot",
        nargs="?",
        help="backbone, head, loss, ..., or corpus, training, or a technique (default: all)",
    )
    parser.add_argument("name", nargs="?", help="show this technique's formula and fields")
    _options.add_json(parser)
    parser.add_argument("--techniques", metavar="FILE", help="also load techniques from this file")


def run(options: argparse.Namespace) -> str:
    """Return the list of slots, one slot's techniques, or one technique's page."""
    if options.format == "json":
        _load(options.techniques)
        return json.written(answer(options.slot, options.name))
    return show_components(options.slot, options.name, options.techniques)


def answer(slot: str | None, name: str | None) -> Components:
    """Return the names of all techniques, or all that is known of a slot, section or technique."""
    sections = _sections()
    if slot is None:
        # Names alone: reading what a technique is imports torch.
        names = ((slot, name) for slot in registry.every_slot() for name in registry.names(slot))
        return Components(
            techniques=tuple(OneTechnique(slot=s, name=n) for s, n in names), sections=()
        )
    if slot in sections:
        return Components(techniques=(), sections=tuple(_answer_sections(slot, sections[slot])))
    techniques = tuple(map(_answer_technique, _techniques(slot, name, sections)))
    return Components(techniques=techniques, sections=())


def _techniques(
    slot: str, name: str | None, sections: Mapping[str, object]
) -> list[registry.Technique]:
    """Return one technique, all of a slot, or those of any slot whose name is given alone."""
    if name is None and slot not in registry.every_slot():
        having = [one for one in registry.every_slot() if slot in registry.names(one)]
        if having:
            return [registry.get(one, slot) for one in having]
    _check_slot(slot, sections)
    names = registry.names(slot) if name is None else [name]
    return [registry.get(slot, one) for one in names]


def _answer_technique(technique: registry.Technique) -> OneTechnique:
    return OneTechnique(
        slot=technique.slot,
        name=technique.name,
        doc=inspect.cleandoc(technique.doc),
        source=_source(technique),
        formula=technique.formula,
        departures=tuple(technique.departures),
        metrics=tuple(map(_reported, technique.metrics, itertools.repeat(technique.name))),
        fields=_answer_fields(technique.config),
    )


def _answer_sections(name: str, by_task: Mapping[str, type]) -> Iterator[OneSection]:
    for settings in dict.fromkeys(by_task.values()):
        tasks = tuple(task for task, own in by_task.items() if own is settings)
        yield OneSection(section=name, tasks=tasks, fields=_answer_fields(settings))


def _answer_fields(config: type) -> tuple[FieldOf, ...]:
    return tuple(
        FieldOf(
            name=f.name,
            default=None if f.required else f.default,
            required=f.required,
            allowed=f.allowed,
            doc=f.limits.doc,
        )
        for f in describe(config)
    )


def _load(techniques: str | None) -> None:
    if techniques is not None:  # before the registry is read
        from ablate.trial.run import load_own

        load_own((techniques,))


def _check_slot(slot: str, sections: Mapping[str, object]) -> None:
    if slot not in registry.every_slot():
        known = (*registry.every_slot(), *sections)
        raise ConfigError(unknown("slot or section", slot, known))


def _reported(metric: Metric, technique: str) -> str:
    return f"{technique}.{metric.name} ({metric.shown}; better: {metric.better})"


def show_components(slot: str | None, name: str | None, techniques: str | None = None) -> str:
    """Return the list of slots, one slot's techniques, or one technique's page."""
    _load(techniques)
    if slot is None:
        return _slots()
    sections = _sections()
    if slot in sections:
        return _section(slot, sections[slot])
    found = _techniques(slot, name, sections)
    if name is None and slot in registry.every_slot():
        return _slot(found)
    return "\n\n".join(map(_page, found))


def _slots() -> str:
    rows = [[slot, ", ".join(registry.names(slot))] for slot in registry.every_slot()]
    lines = text.aligned(["slot", "techniques"], rows)
    sections = [[name, ", ".join(tasks)] for name, tasks in _sections().items()]
    lines += ["", *text.aligned(["section", "of trials of the task"], sections)]
    then = "One slot: ablate show components head. One page: ... head doc. A section: ... training."
    return "\n".join([*lines, "", then])


def _sections() -> dict[str, dict[str, type]]:
    """Section -> task -> its settings. Those of a section are of no technique."""
    sections: dict[str, dict[str, type]] = {}
    # Most people read a language model's settings.
    for task in sorted(kind_names(), key=lambda name: find_kind(name).chosen_by != {}):
        for name, settings in find_kind(task).sections.items():
            sections.setdefault(name, {})[task] = settings
    return sections


def _section(name: str, by_task: Mapping[str, type]) -> str:
    """Show a section's fields; tasks that have other ones have a table of their own."""
    lines: list[str] = []
    for settings in dict.fromkeys(by_task.values()):
        tasks = ", ".join(task for task, own in by_task.items() if own is settings)
        doc = inspect.cleandoc(settings.__doc__ or "").splitlines()[0]
        lines += ["", f"{name}  (trials of: {tasks})", "", f"  {doc}", "", *_fields(settings)]
    return "\n".join(lines[1:])


def _slot(techniques: Iterable[registry.Technique]) -> str:
    rows = [[t.name, t.summary, _source(t)] for t in techniques]
    headings = ["technique", "what it does", "source"]
    return "\n".join(text.aligned(headings, rows))


def _source(technique: registry.Technique) -> str:
    return f"{technique.paper} {technique.equation}".strip()


def _page(technique: registry.Technique) -> str:
    source, width = _source(technique), text.terminal_width()
    lines = [f"{technique.slot} {technique.name}" + (f"  ({source})" if source else "")]
    lines += ["", textwrap.indent(technique.formula, "  "), ""]
    lines += [textwrap.indent(inspect.cleandoc(technique.doc), "  "), ""]
    lines += _fields(technique.config)
    for metric in technique.metrics:
        lines += ["", f"reports {_reported(metric, technique.name)}"]
    if technique.departures:
        lines += ["", "departures from the paper:"]
        for departure in technique.departures:
            lines += [f"  {line}" for line in paragraph(f"- {departure}", width - 2, "  ")]
    return "\n".join(lines)


def _fields(config: type) -> list[str]:
    fields = describe(config)
    if not fields:
        return ["no fields"]
    rows = [[f.name, _default(f), f.allowed, f.limits.doc] for f in fields]
    table = text.aligned(
        ["field", "default", "allowed", "what it is"], rows, text.terminal_width() - 2
    )
    return [f"  {line}" for line in table]


def _default(field: FieldInfo) -> str:
    return "required" if field.required else str(field.default)
