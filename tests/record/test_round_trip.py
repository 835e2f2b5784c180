"""What is exported to a server and read back is what the store says, row for row."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from ablate.compare.across.query import ask
from ablate.record.export import sync
from ablate.record.mirror.server import ServerSource
from ablate.record.mirror.syncing import Mirror, update_mirror
from ablate.store.store import Store
from ablate.store.workspace import open_workspace
from tests.results.test_agree import stored_studies, write
from tests.support import places

QUERIES = (
    "SELECT * EXCLUDE (run_id) FROM trials",
    "SELECT * FROM epochs",
    "SELECT * EXCLUDE (run_id, status) FROM studies",  # no driver has ended them
    "SELECT * FROM arms",
)


def same(store: Store, folder: Path, database: Path) -> None:
    shutil.copy(database, folder / "mlflow.db")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    assert all(delivery.complete for delivery in sync(store, uri, folder / "artifacts").values())
    own = update_mirror(open_workspace(str(folder / "own"), store=store.uri))
    team = update_mirror(open_workspace(str(folder / "team")), lambda _: ServerSource(uri))
    for query in QUERIES:
        assert rows(team, query) == rows(own, query), query
    assert rows(own, QUERIES[0])


def rows(mirror: Mirror, query: str) -> list[str]:
    """Rows as text, in which NaN is equal to NaN."""
    table = ask(mirror, query)
    named = (dict(zip(table.headings, row, strict=True)) for row in table.rows)
    return sorted(repr(sorted(row.items())) for row in named)


def test_of_a_workspace_of_0_1_0(empty_database, tmp_path) -> None:
    shutil.unpack_archive(places.GOLDEN / "workspace_0.1.0.tar.xz", tmp_path, filter="data")
    same(Store(str(tmp_path / "workspace" / "store")), tmp_path, empty_database)


@pytest.mark.slow
@settings(max_examples=2, suppress_health_check=[HealthCheck.too_slow], phases=[Phase.generate])
@given(studies=stored_studies())
def test_of_random_journals(empty_database, studies) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(str(Path(folder) / "store"))
        write(store, studies)
        if any(known for _, known in studies):
            same(store, Path(folder), empty_database)
