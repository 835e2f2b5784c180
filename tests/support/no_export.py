"""An export that delivers nothing, for studies whose runs in MLflow no test looks at."""

from __future__ import annotations

import contextlib
from typing import Any

from ablate.record.export import Delivery


class NoExport:
    """`BackgroundExport` without a server: MLflow would take longer than the trials."""

    page = ""

    def __init__(self, *given: Any, **options: Any) -> None: ...

    def notify(self, trial_id: str, done: bool = False) -> None: ...

    def update(self, record: Any) -> None: ...

    def paused_by_errors(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def finish(self, table_markdown: str, artifacts: Any) -> Delivery:
        return Delivery()

    def pause(self) -> Delivery:
        return Delivery()
