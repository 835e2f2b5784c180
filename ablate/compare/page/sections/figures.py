"""Every figure that the study has something for, with its numbers."""

from __future__ import annotations

from collections.abc import Iterator

from ablate.compare import plots
from ablate.compare.material import Material
from ablate.compare.page.parts import Picture, Section
from ablate.compare.plots import static
from ablate.store.store import Store


def sections(material: Material, store: Store) -> Iterator[Section]:
    """A section for each figure, as `ablate plot` draws it."""
    for figure in plots.described(material).values():
        svg = static.written(static.drawn(figure), "svg").decode()
        picture = Picture(svg, figure.title, figure.caption, figure.table)
        yield Section(figure.title, [picture])
