from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "compare")]

from whole_study import Material, material_of, whole_study  # noqa: E402


@pytest.fixture
def study():
    return whole_study()


@pytest.fixture
def material(study) -> Material:
    return material_of(study)
