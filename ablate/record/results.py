"""A study's results as its store keeps them for exports: where it stands, its table and files.

studies/<key>/results/state.json   status, start, table, names of files and their hashes
studies/<key>/results/files/       the files
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import Any

from ablate.results.rows import StudyStatus
from ablate.store.store import Store, damaged
from ablate.store.study_record import StudyRecord


class StudyResults:
    """The results of a study in its store."""

    def __init__(self, store: Store, record: StudyRecord) -> None:
        self._store, self._is_imported = store, bool(record.imported)
        self._folder = f"studies/{record.key}/results"

    def begin(self) -> None:
        """Note that the study is running."""
        self._write(StudyStatus.RUNNING, started=self.start)

    def save(self, table_markdown: str, artifacts: Mapping[str, bytes | str]) -> None:
        """Save the results, so that they can be exported later.

        Meanwhile no hashes are stored: after a kill, some files are older than others, not damaged.
        """
        self._write(StudyStatus.RUNNING, hashes={})
        hashes = {}
        for name, data in artifacts.items():
            content = data if isinstance(data, bytes) else data.encode()
            self._store.write_as_is(f"{self._folder}/files/{name}", content)
            hashes[name] = hashlib.sha256(content).hexdigest()
        details = {"table": table_markdown, "artifacts": list(artifacts), "hashes": hashes}
        self._write(StudyStatus.FINISHED, **details)

    def pause(self) -> None:
        """Note that the study was stopped, to be resumed."""
        self._write(StudyStatus.INTERRUPTED)

    @property
    def status(self) -> StudyStatus:
        """The study's status when no process runs it."""
        finished = self._is_imported or self._read().get("status") == StudyStatus.FINISHED
        return StudyStatus.FINISHED if finished else StudyStatus.INTERRUPTED

    @property
    def start(self) -> int:
        """When the study began, in milliseconds: now, if it has not."""
        return self._read().get("started") or round(1000 * time.time())

    @property
    def table(self) -> str:
        """The study's table in Markdown; empty if there is none yet."""
        return self._read().get("table", "")

    def files(self) -> dict[str, bytes]:
        """The files; older versions and killed drivers store no hashes of them."""
        state = self._read()
        stored = {name: self._file(name, state) for name in state.get("artifacts", [])}
        return {name: data for name, data in stored.items() if data is not None}

    def _file(self, name: str, state: Mapping[str, Any]) -> bytes | None:
        key = f"{self._folder}/files/{name}"
        data, expected = self._store.read_as_is(key), state.get("hashes", {}).get(name)
        if data is not None and expected not in (None, hashlib.sha256(data).hexdigest()):
            raise damaged(self._store, key, "its hash is not the one that was stored")
        return data

    def _read(self) -> dict[str, Any]:
        state = self._store.read_json(key := f"{self._folder}/state.json") or {}
        names, types = state.get("artifacts", []), {"started": int, "table": str, "hashes": dict}
        right = isinstance(names, list) and all(isinstance(name, str) for name in names)
        for name, kind in types.items():
            right = right and isinstance(state.get(name) or kind(), kind)
        if not right:
            raise damaged(self._store, key, "its fields have other types than those written")
        return state

    def _write(self, status: StudyStatus, **details: Any) -> None:
        state = {**self._read(), "status": status, **details}
        self._store.write_json(f"{self._folder}/state.json", state)
