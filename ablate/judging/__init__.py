"""Judges anybody's results: rows of arms and seeds, made into the same table as a study's.

files         reads rows from CSV, JSON lines and Parquet, and from folders of logs
harness       reads the logs of lm-evaluation-harness
inspect_logs  reads those of Inspect
plain         JSON, and what of it a cell can have
rows          reads their cells by what the columns are
runs          makes them one number for each arm and seed
items         the mean over a run's items, and how far each is from it
refusals      what no test could judge
imported      makes them a study's record and journals, as if ablate had run them
ledger        remembers every variant that was ever judged
variants      what a ledger knows of a variant, and the variants that share one error
lines         a file that is only ever added to
judge         all of it, for the command and for Python
"""
