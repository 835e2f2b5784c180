"""The mirror: the records of every study, as typed Parquet files that questions are asked of.

    records    a run as plain data, and the rows that become of it
    kinds      texts as numbers where they are numbers: one type for each column
    database   the runs of MLflow's SQLite file, by SQL and in bulk; no MLflow
    files      generations of files, whole or not there, and what tells that they are damaged
    syncing    what has changed since the last time, and only that: `up_to_date`
    views      the tables a question may name: trials, epochs, arms, studies, published

A server is read through its own client by `ablate.record.server_source`. The mirror holds nothing
that MLflow does not: delete its folder, and the next question makes it again.
"""
