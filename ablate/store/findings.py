"""What a study's analyses found: `studies/<key>/analyses.json`, written when the study ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from ablate.config import typed
from ablate.store.store import Store, damaged


@dataclass(frozen=True, kw_only=True)
class SavedFinding:
    """An analysis of some of a study's trials, as it is shown: its table as text, and its plot."""

    analysis: str
    options: str  # as text, so that an analysis with other options is another one
    trials: tuple[str, ...]
    paper: str  # what the paper shows there
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    svg: str = ""


@dataclass(frozen=True)
class _Findings:
    """The whole file."""

    findings: tuple[SavedFinding, ...]


def write(store: Store, key: str, findings: Sequence[SavedFinding]) -> None:
    """Save the findings of a study's analyses."""
    store.write_json(_path(key), {"findings": [dataclasses.asdict(each) for each in findings]})


def read(store: Store, key: str) -> tuple[SavedFinding, ...]:
    """The findings of the study `name@scale`; none if it has no analyses or has not ended."""
    plain = store.read_json(_path(key))
    if plain is None:
        return ()
    try:
        return typed.read(_Findings, plain).findings
    except typed.Wrong as error:
        raise damaged(store, _path(key), str(error)) from error


def _path(key: str) -> str:
    return f"studies/{key}/analyses.json"
