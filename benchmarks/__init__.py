"""Measurements of ablate beside what a user would otherwise write."""

import os

# Both sides have small pages, as plain torch does; `benchmarks.half` measures large ones
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "0")
