"""Where tests find what they read, wherever they lie themselves."""

from __future__ import annotations

import os
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
STUDIES = ROOT / "studies"
DOCS = ROOT / "docs"
GOLDEN = TESTS / "golden"
VECTORS = GOLDEN / "vectors"
TABLES = TESTS / "tables"  # the papers' tables, typed
SCHEMAS = TESTS / "schemas"
# Texts of corpora are not ours to commit: tests that read them skip where they are not.
DATA = Path(os.environ.get("ABLATE_TEST_DATA", ROOT.parent / "shared" / "data"))
