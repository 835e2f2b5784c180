"""The command that ran the study."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.compare.material import Material
from ablate.compare.page.parts import Section, Text
from ablate.store.store import Store


def sections(material: Material, store: Store) -> Iterator[Section]:
    """The command, if the study was run by one."""
    if material.record.command:
        yield Section("To run it again", [Text(material.record.command, "command")])
