"""Triton's kernels are switched on, and run by its interpreter, which `tests/conftest.py` sets."""

from __future__ import annotations

import importlib.util

import pytest

from ablate.model.triton.library import SWITCH

INSTALLED = importlib.util.find_spec("triton") is not None


@pytest.fixture(autouse=True)
def switched_on(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A test of this folder is skipped only where there is no Triton, as on a Mac."""
    if not INSTALLED and request.module.__name__.rpartition(".")[2] != "test_library":
        pytest.skip("Triton is not installed, so its kernels cannot be tested")
    monkeypatch.setenv(SWITCH, "on")
    if INSTALLED:
        from ablate.model.triton import softmax

        monkeypatch.setattr(softmax, "BLOCK", 16)  # so that a few words are several blocks


@pytest.fixture
def ran():
    """A function that says whether kernels of Triton ran since its last call, and torch did not."""
    from ablate.model.triton import library

    before = [library.uses()]

    def since() -> bool:
        now = library.uses()
        ran = now["kernels"] > before[0]["kernels"] and now["torch"] == before[0]["torch"]
        before[0] = now
        return ran

    return since
