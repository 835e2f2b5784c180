"""Stands in for an agent of a local Ray node: it lives as long as the raylet, and does nothing.

A raylet starts two agents, in Python, and ends when one of them does. One serves the dashboard and
metrics, the other prepares runtime environments; a local node uses neither. `ray_private` says how
this file takes their place. Python runs it without `site`, in 20 ms.
"""

import os
import time

if __name__ == "__main__":
    raylet = os.getppid()
    while os.getppid() == raylet:  # another process becomes the parent when the raylet ends
        time.sleep(1)
