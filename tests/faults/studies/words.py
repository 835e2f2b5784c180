"""A file of techniques, which must reach the workers though it registers nothing."""

from ablate.trial import run

run.SAVE_SECONDS = 1.0
