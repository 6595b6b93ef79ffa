"""Sums of groups on an engine: each partition adds up its own, and the integers of equal keys are merged [S5][G5]."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np

from ..errors import DataError
from ..numerics.wide_integers import Wide
from ..request.groups import Listed
from ..row_maps.maps import RowMap
from .arrow import Layout, pieces
from .group_codes import key_table
from .group_sums import GroupAdder, GroupSums
from .tables import sealed

_UNREADABLE = "A partition could not be read."


@dataclass(frozen=True)
class GroupFold:
    """The exact sums of a row map in each group: those listed, or all that occur."""

    row_map: RowMap
    layout: Layout
    listed: Listed | None

    part_bytes = 1 << 62  # as long as there are groups: merged in the cluster

    def map(self, index: int, batches: Iterable[Any]) -> bytes:
        from ..kernels.grouped import GroupedKernel  # compiles

        adder = self._adder(GroupedKernel(self.row_map))  # type: ignore[arg-type]
        columns = len(self.layout.by)
        places = range(len(self.layout.names) + columns)
        for batch in sealed(_UNREADABLE, batches):
            for keys, block in sealed(_UNREADABLE, pieces(batch, places, self.layout)):
                adder.add([keys.field(i) for i in range(columns)], block)
        return _packed(adder.sums())

    def merge(self, parts: Iterable[bytes]) -> bytes:
        return _packed(self.total(parts))

    def total(self, parts: Iterable[bytes]) -> GroupSums:
        """The sums of all parts; none where there are no parts."""
        adder = self._adder(None)
        for part in parts:
            adder.take(_unpacked(part, self.layout.by, self.row_map.width))
        return adder.sums()

    def _adder(self, kernel: Any) -> GroupAdder:
        return GroupAdder(kernel, self.row_map.width, key_table(self.layout.by, self.listed))


def _packed(sums: GroupSums) -> bytes:
    import pyarrow as pa

    width = sums.sums.high.shape[1]
    parts = sums.sums.high, sums.sums.low
    limbs = [pa.FixedSizeListArray.from_arrays(pa.array(limb.ravel()), width) for limb in parts]
    columns = [*sums.labels, pa.array(sums.rows), *limbs]
    batch = pa.record_batch(columns, names=[str(i) for i in range(len(columns))])
    sink = BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _unpacked(part: bytes, kinds: tuple[str, ...], width: int) -> GroupSums:
    import pyarrow as pa

    table = pa.ipc.open_stream(part).read_all().combine_chunks()
    *labels, rows, high, low = [column.combine_chunks() for column in table.columns]
    limbs = [np.asarray(limb.flatten()).reshape(-1, width) for limb in (high, low)]
    if len(labels) != len(kinds) or len(limbs[0]) != table.num_rows:
        raise DataError("a worker returned sums of other groups.")
    return GroupSums(labels, kinds, np.asarray(rows), Wide(*limbs))
