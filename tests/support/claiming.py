"""What other processes of this machine see of the trials that are claimed in a store."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from ablate.store.store import Store
from tests.support import places

CLAIMS = """
import sys
from types import SimpleNamespace
from ablate.store.claims import Claims
from ablate.store.store import Store

remote = SimpleNamespace(folder=None, uri=sys.argv[1])
claims = Claims(remote if "://" in sys.argv[1] else Store(sys.argv[1]))
print(claims.claim(sys.argv[2]), flush=True)
sys.stdin.read()
"""


@contextmanager
def other_process(store: Store, trial_id: str) -> Iterator[bool]:
    """Another process claims the trial until the block ends; yields whether it got it."""
    words = [sys.executable, "-c", CLAIMS, store.uri, trial_id]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=places.ROOT, stdin=pipe, stdout=pipe) as other:
        assert other.stdout is not None
        yield other.stdout.readline() == b"True\n"


def is_free(store: Store, trial_id: str) -> bool:
    with other_process(store, trial_id) as got_it:
        return got_it
