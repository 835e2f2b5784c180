"""List the techniques by slot, with paper, equation and fields."""

from __future__ import annotations

import argparse
import inspect
import textwrap

from ablate.compare.formats import text
from ablate.compare.text.plain import paragraph
from ablate.config import registry
from ablate.config.fields import FieldInfo, describe

EXAMPLE = "ablate components head doc"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `ablate components`."""
    parser.add_argument("slot", nargs="?", help="backbone, head, loss, ... (default: all)")
    parser.add_argument("name", nargs="?", help="show this technique's formula and fields")
    parser.add_argument("--techniques", metavar="FILE", help="also load techniques from this file")


def run(options: argparse.Namespace) -> str:
    """Return the list of slots, one slot's techniques, or one technique's page."""
    return show_components(options.slot, options.name, options.techniques)


def show_components(slot: str | None, name: str | None, techniques: str | None = None) -> str:
    """Return the list of slots, one slot's techniques, or one technique's page."""
    if techniques is not None:  # before the registry is read
        from ablate.trial.run import load_own

        load_own((techniques,))
    if slot is None:
        return _slots()
    if name is None:
        return _slot(slot)
    return _page(registry.get(slot, name))


def _slots() -> str:
    rows = [[slot, ", ".join(registry.names(slot))] for slot in registry.EVERY_SLOT]
    lines = text.aligned(["slot", "techniques"], rows)
    return "\n".join([*lines, "", "One slot: ablate components head. One page: ... head doc."])


def _slot(slot: str) -> str:
    techniques = [registry.get(slot, name) for name in registry.names(slot)]
    rows = [[t.name, (t.doc.splitlines() or [""])[0], _source(t)] for t in techniques]
    headings = ["technique", "what it does", "source"]
    return "\n".join(text.aligned(headings, rows))


def _source(technique: registry.Technique) -> str:
    return f"{technique.paper} {technique.equation}".strip()


def _page(technique: registry.Technique) -> str:
    source, width = _source(technique), text.terminal_width()
    lines = [f"{technique.slot} {technique.name}" + (f"  ({source})" if source else "")]
    lines += ["", textwrap.indent(technique.formula, "  "), ""]
    lines += [textwrap.indent(inspect.cleandoc(technique.doc), "  "), ""]
    fields = describe(technique.config)
    if fields:
        rows = [[f.name, _default(f), f.allowed, f.limits.doc] for f in fields]
        table = text.aligned(["field", "default", "allowed", "what it is"], rows, width - 2)
        lines += [f"  {line}" for line in table]
    else:
        lines.append("no fields")
    for metric in technique.metrics:
        reported = f"{technique.name}.{metric.name} ({metric.shown}; better: {metric.better})"
        lines += ["", f"reports {reported}"]
    if technique.departures:
        lines += ["", "departures from the paper:"]
        for departure in technique.departures:
            lines += [f"  {line}" for line in paragraph(f"- {departure}", width - 2, "  ")]
    return "\n".join(lines)


def _default(field: FieldInfo) -> str:
    return "required" if field.required else str(field.default)
