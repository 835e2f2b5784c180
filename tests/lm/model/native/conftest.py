"""What tests of the compiled kernels share."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture
def threads():
    """A function that sets torch's number of threads, for the length of a test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)
