"""The base of the frames of every engine: docs/proofs/engines.md.

An engine implements one function, `EngineSource.fold`. It passes the record batches of each partition to `fold.map`. It
passes the results, in any grouping and order, to `fold.merge` until one is left, and returns that. An engine may also
support `grouped` (people with several rows) and `each` (results for each block, for projections).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import DataError, Floats, UsageError
from ..kernels.accumulate import GroupKernel, Partial, accumulate
from ..kernels.blocks import Block, floats
from ..numerics.wide_integers import Wide
from ..request.groups import Listed
from ..request.people import People
from ..row_maps.maps import RowMap
from ..version import VERSION
from .arrow import Layout, cut_pieces, value_layout
from .coded import Coder, join_names
from .group_codes import key_table
from .group_labels import label_kind
from .group_sums import GroupAdder, GroupSums
from .local import Piece
from .protocol import BlockWork, Progress, Result, seal
from .selection import EVERYTHING, Selection, pick

UNREADABLE = "A partition could not be read."
_ELSEWHERE = (
    "This needs the rows themselves, but data is a frame of an engine, which may be large. "
    "Write it to a file and pass that, or pass a part of it."
)
NO_GROUPED_PEOPLE = (
    "by and privacy_id together are not supported on a frame of this engine. Make one row for each person and group "
    "there first, or write the rows to Parquet and pass that."
)
NOT_GROUPED = (
    "privacy_id is not supported on a frame of this engine. Make one row for each person there first "
    "(a mean or a sum by that column), or write the frame to a file and pass that."
)
_INT64 = np.dtype("<i8")
_UINT64 = np.dtype("<u8")
_FLOAT64 = np.dtype("<f8")
_ROW_BITS = 40  # of the position of a row within its partition; the other 24 bits of 64 are the partition's number
Batches = Iterable[pa.RecordBatch]
_Keys = NDArray[np.uint64]


class Fold(Protocol):
    """A result to which each partition contributes a part. Parts merge in any order and grouping. It is pickled."""

    @property
    def part_bytes(self) -> int:
        """The largest length of a part. The calling process may merge short parts itself."""

    def map(self, index: int, batches: Batches) -> bytes:
        """Make the part of one partition. index: its number, from zero. batches: its Arrow record batches."""

    def merge(self, parts: Iterable[bytes]) -> bytes:
        """Merge one or more parts into one."""


def check_version(version: str) -> None:
    """Raise an error on a worker that has another version of ellipsum than the caller."""
    if version != VERSION:
        raise DataError(f"A worker has ellipsum {VERSION}, the driver {version}. Install the same version.")


@dataclass(frozen=True)
class SumFold:
    """[S5] The exact sum of a row map's integer rows, and the number of rows."""

    row_map: RowMap
    layout: Layout

    @property
    def part_bytes(self) -> int:
        return 8 * (2 * self.row_map.width + 1)

    def map(self, index: int, batches: Batches) -> bytes:
        return self.pack(accumulate(self.row_map, read_blocks(batches, self.layout), threads=1))

    def merge(self, parts: Iterable[bytes]) -> bytes:
        total = Partial.empty(self.row_map.width)
        for part in parts:
            total = total.merge(self.unpack(part))
        return self.pack(total)

    @staticmethod
    def pack(partial: Partial) -> bytes:
        return np.concatenate([[partial.rows], partial.sums.high, partial.sums.low]).astype(_INT64).tobytes()

    def unpack(self, part: bytes) -> Partial:
        numbers = np.frombuffer(part, _INT64).astype(np.int64)
        width = self.row_map.width
        if len(part) != self.part_bytes:
            raise DataError("A worker returned a partial sum of another width.")
        return Partial(int(numbers[0]), Wide(numbers[1 : 1 + width], numbers[1 + width :]))


@dataclass(frozen=True)
class CountFold:
    """The number of rows."""

    part_bytes = 8

    def map(self, index: int, batches: Batches) -> bytes:
        return self.pack(sum(batch.num_rows for batch in seal(UNREADABLE, batches)))

    def merge(self, parts: Iterable[bytes]) -> bytes:
        return self.pack(sum(map(self.unpack, parts)))

    @staticmethod
    def pack(rows: int) -> bytes:
        return rows.to_bytes(8, "little")

    @staticmethod
    def unpack(part: bytes) -> int:
        return int.from_bytes(part, "little")


@dataclass(frozen=True)
class SubsetFold:
    """[S6] The `size` rows with the smallest keys. This is a uniform sample, since a key is 128 public random bits.

    The bits depend on the position of the row. Rows with a key above `limit` (a 64-bit number) are not sent.
    """

    layout: Layout
    seed: bytes
    size: int
    limit: int

    @property
    def part_bytes(self) -> int:
        return self.size * (16 + 8 * self.layout.width)

    def map(self, index: int, batches: Batches) -> bytes:
        from ..noise import public_words

        start, keys, rows = index << _ROW_BITS, [np.empty((0, 2), np.uint64)], [np.empty((0, self.layout.width))]
        for block in read_blocks(batches, self.layout):
            words = public_words(self.seed, start, len(block))
            near = np.flatnonzero(words[:, 0] <= np.uint64(self.limit))
            keys.append(words[near])
            rows.append(floats(block[near]))
            start += len(block)
        return self._least(np.concatenate(keys), np.concatenate(rows))

    def merge(self, parts: Iterable[bytes]) -> bytes:
        keys, rows = zip(*map(self._unpack, parts), strict=True)
        return self._least(np.concatenate(keys), np.concatenate(rows))

    def _least(self, keys: _Keys, rows: Floats) -> bytes:
        order = np.lexsort((keys[:, 1], keys[:, 0]))[: self.size]
        return bytes(keys[order].astype(_UINT64).tobytes() + rows[order].astype(_FLOAT64).tobytes())

    def _unpack(self, part: bytes) -> tuple[_Keys, Floats]:
        count = len(part) // (16 + 8 * self.layout.width)
        keys = np.frombuffer(part, _UINT64, 2 * count).astype(np.uint64).reshape(count, 2)
        rows = np.frombuffer(part, _FLOAT64, offset=16 * count).astype(np.float64)
        return keys, rows.reshape(count, self.layout.width)

    def rows(self, part: bytes) -> Floats:
        return self._unpack(part)[1]


def read_pieces(batches: Batches, plan: Layout) -> Iterator[Piece]:
    """Read the record batches of a partition. They have the columns of the layout in its order."""
    for batch in seal(UNREADABLE, batches):
        yield from seal(UNREADABLE, cut_pieces(batch, range(plan.arrays), plan))


def read_blocks(batches: Batches, plan: Layout) -> Iterator[Block]:
    """Read as `read_pieces`, without the cells beside the rows."""
    return (block for _, block in read_pieces(batches, plan.without_cells()))


class EngineSource(ABC):
    """Chosen columns of an engine's frame. An engine has to implement `fold` alone.

    names: every column of the frame. arrow_type: the Arrow type in which the engine delivers the column at a position;
    it may raise a UsageError for a column without numbers, and is called for chosen columns only. The column of
    identities is not one of these; its position is `key_place`. label_type: the Arrow type of a column that identifies
    groups; these columns follow the others, in the order of `by_places`. The row order is not public [T9].
    """

    reopenable = True
    ordered = False
    local = False

    def __init__(
        self,
        names: Sequence[str],
        arrow_type: Callable[[int], pa.DataType],
        selection: Selection = EVERYTHING,
        label_type: Callable[[int], pa.DataType] | None = None,
    ) -> None:
        self.available, self.coded = tuple(map(str, names)), selection.coded
        coded = [name for name, _ in selection.coded or ()]
        chosen = pick(self.available, replace(selection, by=(*coded, *selection.by)), "data")
        self.places, self.key_place, self.chosen = chosen.places, chosen.key, chosen.chosen
        schema = pa.schema([pa.field(self.available[i], arrow_type(i)) for i in self.places])
        plan = value_layout(schema, range(len(self.places)), "data", chosen.size)
        self.by_places = chosen.by
        types = label_type or arrow_type
        kinds = tuple(label_kind(types(i), self.available[i], "data") for i in chosen.by)
        if selection.coded is None:
            self.layout = replace(plan, by=kinds)
        else:
            coder = Coder([cells for _, cells in selection.coded], kinds, len(selection.by))
            coder.tables  # noqa: B018 (a usage error if a list does not fit its column)
            columns, nullable = join_names(plan.columns, coded) or ("",), coder.nullable(plan.nullable)
            self.layout = replace(plan, columns=columns, by=coder.by, coder=coder, nullable=nullable)
        self.by = self.layout.by
        self.columns = self.layout.columns if any(self.layout.columns) else None
        self.width = self.layout.width
        self.nullable = self.layout.nullable
        self._rows: int | None = None

    @abstractmethod
    def fold(self, fold: Fold, progress: Progress | None = None) -> bytes | None:
        """Map the batches of every partition (the chosen columns, in the order of `places`) and merge the parts.

        Return None if there is no partition. Each partition must count once, even if it is evaluated twice. Foreign
        errors must be replaced as in `protocol.attempt`.
        """

    def count(self) -> int:
        """Let the engine count the rows once."""
        if self._rows is None:
            merged = self.fold(CountFold())
            self._rows = 0 if merged is None else CountFold.unpack(merged)
        return self._rows

    def total(self, row_map: RowMap, threads: int | None = None, progress: Progress | None = None) -> Partial:
        """The exact integer sum of all rows, the same as a local pass gives [S5]."""
        fold = SumFold(row_map, self.layout)
        merged = self.fold(fold, progress)
        return Partial.empty(row_map.width) if merged is None else fold.unpack(merged)

    def sample(self, size: int, seed: bytes) -> tuple[Floats, int]:
        """A uniform subset of the rows in random order, and the number of all rows [S6]."""
        subset = self._subset(SubsetFold(self.layout, seed, size, self._limit(size)))
        if len(subset) < min(size, self.count()):  # Too few keys are below the limit, so all are used.
            subset = self._subset(SubsetFold(self.layout, seed, size, (1 << 64) - 1))
        return subset, self.count()

    def _subset(self, fold: SubsetFold) -> Floats:
        merged = self.fold(fold)
        return np.empty((0, self.width)) if merged is None else fold.rows(merged)

    def _limit(self, size: int) -> int:
        """A limit of keys that is ten standard deviations above the limit for `size` rows."""
        share = min(1.0, (size + 10 * math.sqrt(size) + 100) / max(self.count(), 1))
        return min(int(share * 2.0**64), (1 << 64) - 1)

    def every(self) -> Floats:
        """Not supported: the rows stay in the engine."""
        raise UsageError(_ELSEWHERE)

    def each(self, work: BlockWork[Result], most_rows: int, progress: Progress | None = None) -> Iterator[Result]:
        """work(block) for blocks that contain every row once, in any order. `work` is pickled. Support is optional."""
        raise UsageError(_ELSEWHERE)

    def grouped(self, people: People, most: int | None = None, listed: Listed | None = None) -> EngineSource:
        """One row for each person, or person and group, made by the engine [S7]. Support is optional."""
        raise UsageError(NOT_GROUPED if most is None else NO_GROUPED_PEOPLE)

    def total_by(
        self, row_map: RowMap, listed: Listed | None, threads: int | None = None, progress: Progress | None = None
    ) -> GroupSums:
        """The exact sums of each group, the same as a local pass gives [G5]."""
        fold = GroupFold(row_map, self.layout, listed)
        merged = self.fold(fold, progress)
        return fold.total([] if merged is None else [merged])

    def close(self) -> None:  # noqa: B027 (most engines keep nothing)
        """Release what the engine keeps for this table."""


@dataclass(frozen=True)
class GroupFold:
    """The exact sums of a row map in each listed group, or in each group that occurs."""

    row_map: RowMap
    layout: Layout
    listed: Listed | None

    part_bytes = 1 << 62  # parts grow with the number of groups, so they are merged in the cluster

    def map(self, index: int, batches: Batches) -> bytes:
        from ..kernels.grouped import grouped_kernel

        adder = self._adder(grouped_kernel(self.row_map))
        for cells, block in read_pieces(batches, self.layout):
            assert cells is not None
            adder.add([cells.field(i) for i in range(len(self.layout.by))], block)
        return _pack_groups(adder.sums())

    def merge(self, parts: Iterable[bytes]) -> bytes:
        return _pack_groups(self.total(parts))

    def total(self, parts: Iterable[bytes]) -> GroupSums:
        """The sums of all parts."""
        adder = self._adder(None)
        for part in parts:
            adder.take(_unpack_groups(part, self.layout.by, self.row_map.width))
        return adder.sums()

    def _adder(self, kernel: GroupKernel | None) -> GroupAdder:
        return GroupAdder(kernel, self.row_map.width, key_table(self.layout.by, self.listed))


def _pack_groups(sums: GroupSums) -> bytes:
    width = sums.sums.high.shape[1]
    parts = sums.sums.high, sums.sums.low
    limbs = [pa.FixedSizeListArray.from_arrays(pa.array(limb.ravel()), width) for limb in parts]
    columns = [*sums.labels, pa.array(sums.rows), *limbs]
    batch = pa.record_batch(columns, names=[str(i) for i in range(len(columns))])
    sink = BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _unpack_groups(part: bytes, kinds: tuple[str, ...], width: int) -> GroupSums:
    table = pa.ipc.open_stream(part).read_all().combine_chunks()
    *labels, rows, high, low = [column.combine_chunks() for column in table.columns]
    limbs = [np.asarray(limb.flatten()).reshape(-1, width) for limb in (high, low)]
    if len(labels) != len(kinds) or len(limbs[0]) != table.num_rows:
        raise DataError("A worker returned sums of other groups.")
    return GroupSums(labels, kinds, np.asarray(rows), Wide(*limbs))
