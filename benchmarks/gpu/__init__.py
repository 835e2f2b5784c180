"""The table that a GPU is to be measured by, on a machine that has torch and numpy alone."""
