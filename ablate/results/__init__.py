"""What came of trials, counted once: for tables, for the mirror, for whatever shows results.

    result       what came of one trial, read from its journal or from its recorded run
    cells        which results enter an arm's cells, and what became of the others
    arm          an arm's results: counts, cells, losses by seed
    verdict      what a test says of an arm next to another: better, worse, undecided
    facts        what else is recorded of a trial: MLflow's tags, SQL's columns
    rows         the typed rows of SQL: of a trial, its epochs, and a study
    labels       the names that a study gives its trials
    spread       mean and standard deviation, as every table shows them

Nothing here knows where results are read from, or how they are shown.
"""
