"""Brought by studies that die: this process is killed at a write to the store, before or after it.

DIE_AT_WRITE says at which, counted from when the study is planned.
"""

import itertools
import os
import signal

from ablate.store.store import Store

_write, _number = Store.write, itertools.count(1)


def write(store, key, data):
    number, last = next(_number), int(os.environ.get("DIE_AT_WRITE", 0))
    if number == last and last % 2:
        os.kill(os.getpid(), signal.SIGKILL)
    _write(store, key, data)
    if number == last:
        os.kill(os.getpid(), signal.SIGKILL)


Store.write = write
