"""Every figure that the study has something for, with its numbers."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.compare import plots
from ablate.compare.judged import Judged
from ablate.compare.page.parts import Drawing, Section
from ablate.store.store import Store


def sections(judged: Judged, store: Store) -> Iterator[Section]:
    """A section for each figure, as `ablate plot` draws it."""
    for name, figure in plots.described(judged, plots.OF_PAGES).items():
        yield Section(figure.title, [Drawing(name, figure)])
