"""What is stored of a trial's tokens, and who has read its test split."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack

import numpy as np
import pytest

from ablate.store import tokens
from ablate.store.store import Store
from tests.support import places

READS = """
import sys
from ablate.store import tokens
from ablate.store.store import Store

print("ready", flush=True)
sys.stdin.read()
for _ in range(20):
    tokens.remember_reading(Store(sys.argv[1]), "00aa", sys.argv[2])
"""


def test_readings_of_processes_that_read_at_once_all_count(tmp_path):
    words = [sys.executable, "-c", READS, str(tmp_path)]

    def reader(by: str) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen([*words, by], cwd=places.ROOT, stdin=pipe, stdout=pipe)

    with ExitStack() as stack:
        readers = [stack.enter_context(reader(by)) for by in "abc"]
        for one in readers:
            assert one.stdout is not None and one.stdout.readline() == b"ready\n"
        for one in readers:
            assert one.stdin is not None
            one.stdin.close()
    assert [one.returncode for one in readers] == [0, 0, 0]
    assert tokens.num_readings(Store(str(tmp_path)), "00aa") == 60


def test_a_trial_has_the_deviations_of_its_runs_of_tokens():
    log_probs = -np.random.default_rng(1).exponential(4.0, 8_001)
    found = tokens.deviations(log_probs)
    assert found is not None
    assert len(found) == 20  # runs, the first of which has one token more
    own = -log_probs[401:801]
    assert found[1] == pytest.approx(20 / 8_001 * (own + log_probs.mean()).sum(), abs=1e-6)
    assert np.mean(found) == pytest.approx(0, abs=1e-6)
    assert len(tokens.deviations(np.resize(log_probs, 10**6)) or ()) == tokens.MOST_RUNS
    assert tokens.deviations(log_probs[:500]) is None
