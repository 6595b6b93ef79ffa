"""Keys of groups as they are published: Python values, sorted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..numerics.wide_integers import Ints


def keys_of(columns: list[Any]) -> NDArray[np.object_]:
    """Arrow arrays as Python values, (groups, columns)."""
    size = len(columns[0])
    keys = np.empty((size, len(columns)), object)
    for i, column in enumerate(columns):
        keys[:, i] = np.fromiter(column.to_pylist(), object, size)
    return keys


def order_of(columns: list[Any]) -> Ints:
    """The places of groups, sorted by key; a missing cell comes last."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = [str(i) for i in range(len(columns))]
    table = pa.table(columns, names=names)
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])
    places: Ints = order.to_numpy().astype(np.int64)
    return places
