"""The mirror: trials, epochs, arms and studies as typed Parquet files, for fast queries.

    stored    makes rows from a store's journals and records: the source of a workspace
    server    reads rows from a server where `ablate report sync` has exported them
    arms      the rows of `arms`, counted as tables count them
    files     generations of files, complete or absent, and the detection of damage
    lines     rows as lines of JSON, and the types of their columns
    writing   the next generation, written with DuckDB
    syncing   reads what has changed since the last time: `update_mirror`
    views     the tables that a query may name: trials, epochs, arms, studies, published

The rows are made by `ablate.results.rows`. The mirror holds nothing that its source does not: if
its folder is deleted, the next query rebuilds it.
"""
