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


def test_a_published_trial_has_the_sums_of_its_runs_of_tokens(tmp_path):
    store, published, again = (Store(str(tmp_path / name)) for name in "abc")
    log_probs = -np.random.default_rng(1).exponential(4.0, 8_001)
    tokens.write(store, "00aa", "test", log_probs)
    tokens.copy_sums(store, "00aa", published)
    tokens.copy_sums(published, "00aa", again)
    assert published.names("trials/00aa/tokens") == ["test.json"]
    found = again.read_json("trials/00aa/tokens/test.json")
    assert found is not None
    assert sum(found["tokens"]) == 8_001
    assert len(found["nats"]) == 100
    assert found["nats"][1] == pytest.approx(-log_probs[81:161].sum(), abs=1e-3)
    assert len(str(found)) < 2_000
