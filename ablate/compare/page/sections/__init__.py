"""The sections of a study's page, each a file."""
