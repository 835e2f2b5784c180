"""Templates -> HTML. Whatever users named or wrote is escaped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ablate.compare.page.render import environment
from ablate.live.parts import Block, Page

FOLDER = Path(__file__).parent / "templates"


def page(shown: Page, **more: Any) -> str:
    """Return a page as HTML."""
    return environment(FOLDER).get_template("page.html").render(page=shown, **more)


def block(shown: Block) -> str:
    """Return what is inside a block, as a page has it."""
    return environment(FOLDER).get_template("block.html").render(block=shown)
