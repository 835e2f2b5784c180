"""What is stored of a trial's tokens, and who has read its test split."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack

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
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with ExitStack() as stack:
        started = (subprocess.Popen([*words, by], cwd=places.ROOT, **pipes) for by in "abc")
        readers = [stack.enter_context(reader) for reader in started]
        for reader in readers:
            assert reader.stdout is not None and reader.stdout.readline() == b"ready\n"
        for reader in readers:
            assert reader.stdin is not None
            reader.stdin.close()
    assert [reader.returncode for reader in readers] == [0, 0, 0]
    assert tokens.num_readings(Store(str(tmp_path)), "00aa") == 60
