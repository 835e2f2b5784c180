"""MLflow's own page behind our gate: MLflow's server finds this app by the name `ablate`."""

from __future__ import annotations

import os

from ablate.live.gate import Gate
from ablate.record.places import ui_app

TOKEN = "ABLATE_MLFLOW_TOKEN"  # in the environment, which no other user can read


def app() -> Gate:
    """MLflow's app, for whoever has the token."""
    return Gate(ui_app(), os.environ[TOKEN], is_mlflows=True)
