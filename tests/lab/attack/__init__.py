"""Seeded, repeatable attacks, whose failures are counted. `make attack` runs all of them."""
