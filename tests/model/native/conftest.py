"""What tests of the compiled kernels share."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture
def threads():
    """Sets how many threads torch is told to use, for a test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)
