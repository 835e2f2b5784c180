"""Python's clock is off by as many seconds as FAULTS_CLOCK says, ahead or (negative) behind.

In Ray's workers alone, or in the commands that contain one of the words in FAULTS_CLOCK_IN.

libfaketime is no help: Ray's servers do not come up with it, and `time.sleep` fails under it.
"""

import os
import sys
import time

COMMAND = " ".join(sys.orig_argv)
WORDS = os.environ.get("FAULTS_CLOCK_IN", "default_worker.py").split(",")
if "FAULTS_CLOCK" in os.environ and any(word in COMMAND for word in WORDS):
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
