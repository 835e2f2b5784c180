"""A file of techniques, which must reach the workers though it registers nothing."""

import ablate.trial

ablate.trial.SAVE_SECONDS = 1.0
