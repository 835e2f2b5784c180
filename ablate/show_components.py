"""`ablate components`: the techniques there are, from the code itself."""

from __future__ import annotations

import textwrap

from ablate import registry
from ablate.fields import FieldInfo, describe

WIDTH = 100


def show_components(slot: str | None, name: str | None, techniques: str | None = None) -> str:
    """All slots, one slot's techniques, or one technique's page."""
    if techniques is not None:
        from ablate.trial import load_modules

        load_modules((techniques,))
    if slot is None:
        return _slots()
    if name is None:
        return _slot(slot)
    return _page(registry.get(slot, name))


def _slots() -> str:
    rows = [[slot, ", ".join(registry.names(slot))] for slot in registry.SLOTS]
    width = max(len(slot) for slot in registry.SLOTS)
    lines = []
    for slot, names in rows:
        wrapped = textwrap.wrap(names, WIDTH - width - 2) or [""]
        lines += [f"{slot:<{width}}  {wrapped[0]}"]
        lines += [" " * (width + 2) + line for line in wrapped[1:]]
    return "\n".join([*lines, "", "One slot: ablate components head. One page: ... head doc."])


def _slot(slot: str) -> str:
    found = [registry.get(slot, name) for name in registry.names(slot)]
    width = max(len(technique.name) for technique in found)
    return "\n".join(
        f"{t.name:<{width}}  {t.doc.splitlines()[0] if t.doc else ''}"
        + (f"  [{t.paper}{', ' + t.equation if t.equation else ''}]" if t.paper else "")
        for t in found
    )


def _page(technique: registry.Technique) -> str:
    source = f"{technique.paper} {technique.equation}".strip()
    lines = [f"{technique.slot} {technique.name}" + (f"  ({source})" if source else "")]
    lines += ["", textwrap.indent(technique.formula, "  "), ""]
    lines += [textwrap.indent(textwrap.dedent(technique.doc), "  "), ""]
    fields = describe(technique.config)
    if fields:
        rows = [[f.name, _default(f), f.allowed, f.limits.doc] for f in fields]
        lines += _aligned([["field", "default", "allowed", "what it is"], *rows])
    else:
        lines.append("no fields")
    if technique.departures:
        lines += ["", "departures from the paper:"]
        for departure in technique.departures:
            lines += textwrap.wrap(
                departure, WIDTH, initial_indent="  - ", subsequent_indent="    "
            )
    return "\n".join(lines)


def _default(field: FieldInfo) -> str:
    return "required" if field.required else str(field.default)


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    room = max(WIDTH - sum(widths) - 8, 30)
    lines = []
    for row in rows:
        wrapped = textwrap.wrap(row[3], room) or [""]
        start = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False))
        lines.append(f"  {start}  {wrapped[0]}")
        lines += [" " * (len(start) + 4) + line for line in wrapped[1:]]
    return lines
