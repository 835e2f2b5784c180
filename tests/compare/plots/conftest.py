from __future__ import annotations

import pytest

from ablate.compare.judged import Judged
from tests.support.whole_study import judged_of, whole_study


@pytest.fixture
def study():
    return whole_study()


@pytest.fixture
def judged(study) -> Judged:
    return judged_of(study)
