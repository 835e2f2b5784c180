"""Files that a trial's code left in `run.folder`, stored when the trial completes.

trials/<id>/files.arrow   their names, relative to the folder, and their contents
"""

from __future__ import annotations

from collections.abc import Mapping

from ablate.store.store import Store, damaged

NAME, CONTENTS = "name", "contents"
LONGEST = 200  # characters of a name, with its folders


def write(store: Store, trial_id: str, files: Mapping[str, bytes]) -> None:
    """Store a trial's files, by name."""
    import pyarrow as pa

    from ablate.store.arrow import write_columns

    columns = {
        NAME: pa.array([*files], pa.large_string()),
        CONTENTS: pa.array([*files.values()], pa.large_binary()),
    }
    write_columns(store, _key(trial_id), columns)


def read(store: Store, trial_id: str) -> dict[str, bytes]:
    """A trial's files by name; none if it left none."""
    if not store.exists(_key(trial_id)):
        return {}
    import pyarrow as pa

    from ablate.store.arrow import read_column

    names, contents = (
        read_column(store, _key(trial_id), name, kind)
        for name, kind in ((NAME, pa.large_string()), (CONTENTS, pa.large_binary()))
    )
    if names is None or contents is None:
        return {}  # it was deleted meanwhile
    files = dict(zip(names.to_pylist(), contents.to_pylist(), strict=True))
    wrong = next((name for name in files if not is_name(name)), None)
    if wrong is not None:
        raise damaged(store, _key(trial_id), f"not the name of a file in a folder: {wrong!r}")
    return files


def is_name(name: str) -> bool:
    """Return whether a name stays in its folder, and is one that people and other hosts can read.

    A hidden file is the business of the program that wrote it.
    """
    parts = name.split("/")
    usual = all(part and not part.startswith(".") for part in parts)
    return usual and name.isprintable() and "\\" not in name and len(name) <= LONGEST


def _key(trial_id: str) -> str:
    return f"trials/{trial_id}/files.arrow"
