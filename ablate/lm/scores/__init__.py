"""Scores of texts: pure functions that know no model and no corpus."""
