"""The user's own files as modules (`ablate/trial/user/own_modules.py`)."""

import sys

from ablate.trial.user.own_modules import Finder

sys.meta_path.append(Finder())
