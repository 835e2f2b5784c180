"""Records: every study and trial as runs of an MLflow server, written from the durable journals.

    places         locations of records (URIs), and the command that opens the UI; no MLflow
    runs           what a trial's and a study's run should look like, from its journal; pure
    arm_runs       the same for the runs of arms, and the numbers in charts
    artifacts      the files of a trial's run
    results        a study's results, as its store keeps them for exports
    tracking       runs as plain data, and the errors of tracking servers
    client         MLflow's client, opened; its errors and pages
    server         writes runs through it, each once: the only file that does
    export         a study's runs, brought to a server as often as one likes: `Export`, `sync`
    background     the same in a thread during training: `BackgroundExport`
    mirror/        the rows of a store, or of a server, as typed Parquet files

Importing this package does not import MLflow; delivering does.
"""
