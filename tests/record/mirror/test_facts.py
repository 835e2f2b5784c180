"""What is recorded of a trial is declared once: names stay, and the docs have the same list."""

from __future__ import annotations

import pytest

from ablate.record.mirror.syncing import update_mirror
from ablate.results import facts
from ablate.results.facts import FACTS, documented
from tests.support.golden import changes
from tests.support.places import ROOT


@pytest.mark.golden
def test_names_stay(recorded):
    """Users have queries of these columns, and filters of these tags."""
    from ablate.compare.records.query import ask

    tags = "\n".join(f"{fact.name} {fact.kind} {fact.recorded_as}" for fact in FACTS)
    mirror = update_mirror(recorded.workspace)
    parts = [f"== tags\n{tags}"]
    for view in ("trials", "epochs", "arms", "studies", "published"):
        described = ask(mirror, f"DESCRIBE {view}").rows
        parts.append(f"== {view}\n" + "\n".join(f"{name} {kind}" for name, kind, *_ in described))
    assert not changes("facts.txt", "\n".join(parts) + "\n")


@pytest.mark.parametrize("name", ["FACTS", "OF_STUDIES"])
def test_the_docs_have_the_list(name):
    page = (ROOT / "docs" / "asking.md").read_text()
    needed = documented(getattr(facts, name))
    assert needed in page, f"docs/asking.md needs `ablate.results.facts.documented({name})`"
