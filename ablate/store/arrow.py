"""Arrow: arrays as columns without a copy, and columns as files of a store, with a checksum."""

from __future__ import annotations

import io
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from ablate.store import checksum
from ablate.store.store import Store, damaged


def as_arrow(array: np.ndarray, type_: pa.DataType) -> pa.Array:
    """The array's memory as an Arrow column; `pa.array` would import pandas."""
    return pa.Array.from_buffers(type_, len(array), [None, pa.py_buffer(array)])


def write_columns(store: Store, key: str, columns: Mapping[str, pa.Array]) -> None:
    """Write columns of one length; `pa.table` would import pandas."""
    batch = pa.record_batch(dict(columns), metadata={checksum.FIELD: checksum.BLANK})
    buffer = io.BytesIO()
    with pa.ipc.new_file(buffer, batch.schema) as writer:
        writer.write_batch(batch)
    store.write(key, buffer.getvalue())


def read_column(store: Store, key: str, name: str, type_: pa.DataType) -> pa.Array | None:
    """Read one column of such a file, or None if there is no file."""
    data = store.read(key)
    if data is None:
        return None
    try:
        with pa.ipc.open_file(pa.BufferReader(data)) as reader:
            batch = reader.get_batch(0)
        batch.validate(full=True)
        column = batch.column(name)
        if column.type != type_ or column.null_count:
            raise ValueError(f"its column {name} is not of the type {type_}")
    except (pa.ArrowException, ValueError, LookupError, TypeError, OSError) as error:
        raise damaged(store, key, str(error)) from error
    return column
