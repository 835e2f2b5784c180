"""What is recorded of a trial is declared once: names stay."""

from __future__ import annotations

import pytest

from ablate.record.mirror.syncing import update_mirror
from ablate.results.facts import FACTS
from tests.support.golden import changes


@pytest.mark.golden
def test_names_stay(recorded):
    """Users have queries of these columns, and filters of these tags."""
    from ablate.compare.across.query import ask

    tags = "\n".join(f"{fact.name} {fact.kind} {fact.recorded_as}" for fact in FACTS)
    mirror = update_mirror(recorded.workspace)
    parts = [f"== tags\n{tags}"]
    for view in ("trials", "epochs", "arms", "studies", "published"):
        described = ask(mirror, f"DESCRIBE {view}").rows
        parts.append(f"== {view}\n" + "\n".join(f"{name} {kind}" for name, kind, *_ in described))
    assert not changes("facts.txt", "\n".join(parts) + "\n")
