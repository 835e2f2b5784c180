"""What studies say, each in a sentence, for the list of them.

To judge a study takes its whole table, so a thread does it, one study after another, while the list
is shown already.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime

from ablate.compare.judged import Judged
from ablate.compare.study_summary import open_study
from ablate.compare.table.study_table import answer_sentences
from ablate.errors import AblateError
from ablate.live import times
from ablate.results.verdict import Verdict
from ablate.store.store import Store


@dataclass(frozen=True)
class Summary:
    """A study's answer, a verdict for each arm that is compared, and when its last trial ended."""

    answer: str = ""
    verdicts: tuple[Verdict, ...] = ()
    best: str = ""
    ended: datetime | None = None


def summary_of(judged: Judged) -> Summary:
    """What a table says."""
    span = times.span(judged.journals.values())
    return Summary(
        answer=" ".join(answer_sentences(judged)),
        verdicts=tuple(arm.comparison.verdict for arm in judged.arms if arm.comparison),
        best=next((arm.name for arm in judged.arms if arm.best), ""),
        ended=span and span[1],
    )


class Summaries:
    """The summaries that have been asked for, as far as they are made."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._made: dict[str, tuple[Hashable, Summary]] = {}
        self._waiting: dict[str, Hashable] = {}
        self._works = False
        self.num_made = 0

    def of(self, key: str, version: Hashable) -> Summary:
        """The latest summary of a study, empty at first; another version of it is made anew."""
        with self._lock:
            made_of, known = self._made.get(key, (None, Summary()))
            if made_of != version:
                self._waiting[key] = version
                if not self._works:
                    self._works = True
                    threading.Thread(
                        target=self._work, name="ablate-summaries", daemon=True
                    ).start()
            return known

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._works = False
                    return
                key, version = next(iter(self._waiting.items()))
            try:
                summary = summary_of(open_study(self._store, key))
            except AblateError:  # its page says what is damaged
                summary = Summary()
            with self._lock:
                self._made[key] = version, summary
                self.num_made += 1
                if self._waiting.get(key) == version:
                    del self._waiting[key]
