"""Simulates the cases of a row, each from a stream of its own."""

from __future__ import annotations

import zlib

import numpy as np

from tests.lab.calibration.row import Simulated
from tests.lab.calibration.rows import ROWS


def measure(name: str, num: int) -> dict[str, Simulated]:
    """What each case of a row gives. Adding a case shifts no other one's draws."""
    return {
        case.what: case.simulate(
            np.random.default_rng(zlib.crc32(f"{name}/{case.what}".encode())), num
        )
        for case in ROWS[name].cases
    }
