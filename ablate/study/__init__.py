"""The classes and functions that study files use, and the plan of a study's trials."""
