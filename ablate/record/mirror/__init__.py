"""The mirror: the records of every study as typed Parquet files, for fast queries.

    rows           the rows made from a recorded run
    kinds          one type for each column, from values recorded as text
    sqlite_source  reads the runs of MLflow's SQLite file in bulk, by SQL; no MLflow
    stored         reads a store's journals: published results, without MLflow
    arms           the rows of `arms`, counted as tables count them
    files          generations of files, complete or absent, and the detection of damage
    writing        the next generation, written with DuckDB
    syncing        reads what has changed since the last time: `update_mirror`
    views          the tables that a query may name: trials, epochs, arms, studies, published

A server is read through MLflow's client by `ablate.record.server_source`. The mirror holds nothing
that its source does not: if its folder is deleted, the next query rebuilds it.
"""
