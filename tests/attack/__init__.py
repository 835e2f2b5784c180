"""Attacks on a finished `ablate`: seeded, repeatable, and counted. `make attack` runs all of them."""
