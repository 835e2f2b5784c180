"""For workers alone: Python's clock is off by as many seconds as FAULTS_CLOCK says.

libfaketime is no help: Ray's servers do not come up with it, and `time.sleep` fails under it.
"""

import os
import sys
import time

if "default_worker.py" in " ".join(sys.orig_argv) and "FAULTS_CLOCK" in os.environ:
    OFF = int(os.environ["FAULTS_CLOCK"])
    now, now_ns, gmtime, localtime, strftime = (
        time.time,
        time.time_ns,
        time.gmtime,
        time.localtime,
        time.strftime,
    )
    time.time = lambda: now() + OFF
    time.time_ns = lambda: now_ns() + OFF * 10**9
    time.gmtime = lambda seconds=None: gmtime(time.time() if seconds is None else seconds)
    time.localtime = lambda seconds=None: localtime(time.time() if seconds is None else seconds)
    time.strftime = lambda text, given=None: strftime(text, given or time.localtime())
