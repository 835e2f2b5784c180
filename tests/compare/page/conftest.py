from __future__ import annotations

import pytest

from tests.support.whole_study import Material, material_of, whole_study


@pytest.fixture
def study():
    return whole_study()


@pytest.fixture
def material(study) -> Material:
    return material_of(study)
