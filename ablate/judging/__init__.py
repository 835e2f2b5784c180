"""Judges anybody's results: rows of arms and seeds, made into the same table as a study's.

files     reads rows from CSV, JSON lines and Parquet
rows      checks them: one number for each arm and seed
imported  makes them a study's record and journals, as if ablate had run them
ledger    remembers every variant that was ever judged against a base
judge     all of it, for the command and for Python
"""
