"""Each test draws what it draws alone, whatever ran before it in the process."""

from __future__ import annotations

import pytest
import torch


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed torch, whose generator all tests of a process share."""
    torch.manual_seed(0)
