"""Analyses as a study names them: what its end asks of this plug-in."""

from __future__ import annotations

from collections.abc import Sequence

from ablate.lm.analysis import Finding, get, names
from ablate.lm.analysis.writing import check_number, text_rows, write
from ablate.store.journal import Journal
from ablate.store.store import Store

__all__ = ["check_number", "found", "get", "names", "text_rows", "write"]


def found(
    name: str, journals: Sequence[Journal], store: Store, data: str, options: object
) -> Finding:
    """Return what an analysis finds in finished trials."""
    from ablate.lm.analysis.subject import Subject  # which imports torch

    subjects = [Subject(journal, store, data) for journal in journals]
    return get(name).run(*subjects, options=options)
