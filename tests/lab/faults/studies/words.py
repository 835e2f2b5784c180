"""A file of techniques, which must reach the workers though it registers no technique."""

import hostly  # noqa: F401  (it adds a runner)

from ablate.trial import run

run.SAVE_SECONDS = 1.0
