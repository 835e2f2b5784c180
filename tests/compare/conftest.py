from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from studies_by_hand import ByHand


@pytest.fixture
def by_hand() -> type[ByHand]:
    return ByHand
