"""`make calibrate`: how often the statistics of a table err, beside what they promise.

    rows/       a file for each promise: how it is simulated, its limit, and its twin
    row.py      what a row is, and how a rate is held to a limit
    draws.py    the tests of tables in numpy, for ten thousand tables at once
    tables.py   the same draws as studies, through `Judged`
    sources.py  which code the numbers are of
    page.py     docs/calibration.md from measured.json

A twin is a wrong way to do the same thing (Holm's correction left out, seeds taken for searches).
A check that does not notice its twin proves nothing, so each twin must be beyond the limit. What is
computed in numpy is held equal to the code of tables on the first 200 draws.
"""
