"""The command that ran the study."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.compare.judged import Judged
from ablate.compare.page.parts import Section, Text
from ablate.store.store import Store


def sections(judged: Judged, store: Store) -> Iterator[Section]:
    """The command, if the study was run by one."""
    if judged.record.command:
        yield Section("To run it again", [Text(judged.record.command, "command")])
