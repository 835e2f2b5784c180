from __future__ import annotations

import pytest

from tests.support.studies_by_hand import ByHand


@pytest.fixture
def by_hand() -> type[ByHand]:
    return ByHand
