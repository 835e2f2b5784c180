"""Records: every study and trial as runs of an MLflow server, written from the durable journals.

    places         where records go (URIs), and the command that opens the UI; no MLflow
    runs           what a run should look like, from a journal and a study; pure
    tracking       the words spoken to a server, whichever kind it is
    client         any MLflow server, through MLflow's own client
    database       a SQLite file, a whole trial in one transaction
    note           what a server has, as this store remembers it
    mlflow_records a study delivered, idempotently: `Recorder`, `sync`
    recorded       what is read back from a server, as plain data
    server_source  what has changed on any server since the last look, found without a clock
    background     the same in a thread beside the training: `BackgroundRecorder`

Importing this package imports no MLflow; delivering does.
"""
