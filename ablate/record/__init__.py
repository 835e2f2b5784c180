"""Records: every study and trial as runs of an MLflow server, written from the durable journals.

    places         locations of records (URIs), and the command that opens the UI; no MLflow
    runs           what a run should look like, from a journal and a study; pure
    tracking       runs as plain data, and the errors of tracking servers
    client         any MLflow server, through MLflow's own client
    sqlite_client  the same for a SQLite file, a whole trial in one transaction
    note           what was delivered to a server, as noted in the store
    mlflow_records deliver a study, idempotently: `Recorder`, `sync`
    background     the same in a thread during training: `BackgroundRecorder`
    mirror/        the rows of a store, or of a server, as typed Parquet files

Importing this package does not import MLflow; delivering does.
"""
