"""Logs of evaluation harnesses, made by these harnesses, and what `ablate judge` says of them."""
