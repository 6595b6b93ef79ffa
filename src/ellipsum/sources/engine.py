"""What an engine has to do, and what every engine's frame shares: docs/proofs/engines.md.

An engine needs one function, `EngineSource.fold`: hand each partition's record batches to `fold.map`, hand the results,
in any grouping and order, to `fold.merge` until one is left, and return it. It may also serve `grouped` (people with
many rows) and `each` (results per block, for projections).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any, Protocol

import numpy as np

from ..errors import DataError, Floats, UsageError
from ..kernels.accumulate import Partial, accumulate
from ..kernels.blocks import Block, floats
from ..numerics.wide_integers import Wide
from ..request.groups import Listed
from ..request.people import People
from ..row_maps.maps import RowMap
from ..version import VERSION
from .arrow import Layout, blocks, layout, pieces
from .group_codes import key_table
from .group_labels import label_kind
from .group_sums import GroupAdder, GroupSums
from .progress import Progress
from .protocol import BlockWork, Result
from .sealing import sealed
from .selection import EVERYTHING, Selection, pick

UNREADABLE = "A partition could not be read."
_ELSEWHERE = (
    "This needs the rows themselves, and data is a frame of an engine, which may be large. "
    "Write it to a file and pass that, or take a part of it."
)
NO_GROUPED_PEOPLE = (
    "by and privacy_id together are not served on a frame of this engine. Make one row of each person's rows in a "
    "group there first, or write the rows to Parquet and pass that."
)
NOT_GROUPED = (
    "privacy_id is not served on a frame of this engine. Make one row of each person's rows there first "
    "(a mean or a sum by that column), or write the frame to a file and pass that."
)
_INT64 = np.dtype("<i8")
_UINT64 = np.dtype("<u8")
_FLOAT64 = np.dtype("<f8")
_ROW_BITS = 40  # positions of rows within a partition; partitions take the other 24 bits of 64


class Fold(Protocol):
    """A result that each partition gives a part of; parts merge in any order and grouping. Instances are pickled."""

    @property
    def part_bytes(self) -> int:
        """No part is longer: where they are short, an engine may hand all of them to the caller to merge."""

    def map(self, index: int, batches: Iterable[Any]) -> bytes:
        """The part of one partition: its number (from zero, each once) and its Arrow record batches."""

    def merge(self, parts: Iterable[bytes]) -> bytes:
        """One part out of several (at least one)."""


def same_version(version: str) -> None:
    """An error, on a worker, unless its ellipsum is the caller's."""
    if version != VERSION:
        raise DataError(f"a worker has ellipsum {VERSION}, the driver {version}. Install the same one.")


@dataclass(frozen=True)
class SumFold:
    """[S5] The exact sum of a row map's integer rows, and the number of rows."""

    row_map: RowMap
    layout: Layout

    @property
    def part_bytes(self) -> int:
        return 8 * (2 * self.row_map.width + 1)

    def map(self, index: int, batches: Iterable[Any]) -> bytes:
        return self.pack(accumulate(self.row_map, blocks_of(batches, self.layout), threads=1))

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
            raise DataError("a worker returned a partial sum of another width.")
        return Partial(int(numbers[0]), Wide(numbers[1 : 1 + width], numbers[1 + width :]))


@dataclass(frozen=True)
class CountFold:
    """The number of rows."""

    part_bytes = 8

    def map(self, index: int, batches: Iterable[Any]) -> bytes:
        return self.pack(sum(batch.num_rows for batch in sealed(UNREADABLE, batches)))

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
    """[S6] The `size` rows of least key; a row's key is 128 public random bits of its place, so the subset is uniform.

    Rows whose key is above `limit` (a 64-bit number) are not even sent.
    """

    layout: Layout
    seed: bytes
    size: int
    limit: int

    @property
    def part_bytes(self) -> int:
        return self.size * (16 + 8 * self.layout.width)

    def map(self, index: int, batches: Iterable[Any]) -> bytes:
        from ..noise import public_words

        start, keys, rows = index << _ROW_BITS, [np.empty((0, 2), np.uint64)], [np.empty((0, self.layout.width))]
        for block in blocks_of(batches, self.layout):
            words = public_words(self.seed, start, len(block))
            near = np.flatnonzero(words[:, 0] <= np.uint64(self.limit))
            keys.append(words[near])
            rows.append(floats(block[near]))
            start += len(block)
        return self._least(np.concatenate(keys), np.concatenate(rows))

    def merge(self, parts: Iterable[bytes]) -> bytes:
        keys, rows = zip(*map(self._unpack, parts), strict=True)
        return self._least(np.concatenate(keys), np.concatenate(rows))

    def _least(self, keys: Any, rows: Floats) -> bytes:
        order = np.lexsort((keys[:, 1], keys[:, 0]))[: self.size]
        return bytes(keys[order].astype(_UINT64).tobytes() + rows[order].astype(_FLOAT64).tobytes())

    def _unpack(self, part: bytes) -> tuple[Any, Floats]:
        count = len(part) // (16 + 8 * self.layout.width)
        keys = np.frombuffer(part, _UINT64, 2 * count).astype(np.uint64).reshape(count, 2)
        rows = np.frombuffer(part, _FLOAT64, offset=16 * count).astype(np.float64)
        return keys, rows.reshape(count, self.layout.width)

    def rows(self, part: bytes) -> Floats:
        return self._unpack(part)[1]


def blocks_of(batches: Iterable[Any], plan: Layout) -> Iterator[Block]:
    """The rows of a partition's record batches, which hold the columns of the layout in its order."""
    places = range(len(plan.names))
    for batch in sealed(UNREADABLE, batches):
        yield from sealed(UNREADABLE, blocks(batch, places, plan))


class EngineSource(ABC):
    """Chosen columns of an engine's frame; an engine supplies `fold`, the rest follows.

    names: every column of the frame. arrow_type: the Arrow type in which the engine hands over the column at a place;
    it may raise a UsageError for one that holds no numbers, and is asked about chosen columns only. key: the column
    that names the person a row belongs to, which is none of those; its place is `key_place`. label_type: the Arrow type
    of a column that names groups; their columns come behind the others, in the order of `by_places`.
    """

    reopenable = True
    ordered = False  # [T9]
    local = False

    def __init__(
        self,
        names: Sequence[str],
        arrow_type: Callable[[int], Any],
        selection: Selection = EVERYTHING,
        label_type: Callable[[int], Any] | None = None,
    ) -> None:
        import pyarrow as pa

        self.available = tuple(map(str, names))
        chosen = pick(self.available, selection, "data")
        self.places, self.key_place, self.chosen = chosen.places, chosen.key, chosen.chosen
        schema = pa.schema([pa.field(self.available[i], arrow_type(i)) for i in self.places])
        plan = layout(schema, range(len(self.places)), "data", chosen.size)
        self.by_places = chosen.by
        types = label_type or arrow_type
        self.by = tuple(label_kind(types(i), self.available[i], "data") for i in chosen.by)
        self.layout = replace(plan, by=self.by)
        self.columns = self.layout.columns
        self.width = self.layout.width
        self.gaps = self.layout.gaps
        self._rows: int | None = None

    @abstractmethod
    def fold(self, fold: Fold, progress: Progress | None = None) -> bytes | None:
        """Map every partition's batches (the chosen columns, in `places` order), merge all; None if there are none.

        Each partition must enter once, whatever was tried twice. Foreign errors must not pass: `sealing.attempt`.
        """

    def count(self) -> int:
        """Counted by the engine, once."""
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
        """A uniform subset of the rows, in random order, and how many there are [S6]."""
        subset = self._subset(SubsetFold(self.layout, seed, size, self._limit(size)))
        if len(subset) < min(size, self.count()):  # too few keys fell below the limit: take all into account
            subset = self._subset(SubsetFold(self.layout, seed, size, (1 << 64) - 1))
        return subset, self.count()

    def _subset(self, fold: SubsetFold) -> Floats:
        merged = self.fold(fold)
        return np.empty((0, self.width)) if merged is None else fold.rows(merged)

    def _limit(self, size: int) -> int:
        """Ten standard deviations above the share that is wanted."""
        share = min(1.0, (size + 10 * math.sqrt(size) + 100) / max(self.count(), 1))
        return min(int(share * 2.0**64), (1 << 64) - 1)

    def every(self) -> Floats:
        """The rows do not come here."""
        raise UsageError(_ELSEWHERE)

    def each(self, work: BlockWork[Result], most_rows: int, progress: Progress | None = None) -> Iterator[Result]:
        """work(block), which is pickled, for blocks that hold every row once, in no order; an engine may serve it."""
        raise UsageError(_ELSEWHERE)

    def grouped(self, people: People) -> EngineSource:
        """One row for each person, made by the engine [S7]; an engine may serve it."""
        raise UsageError(NOT_GROUPED)

    def grouped_by(self, people: People, most: int, listed: Listed | None) -> EngineSource:
        raise UsageError(NO_GROUPED_PEOPLE)

    def total_by(
        self, row_map: RowMap, listed: Listed | None, threads: int | None = None, progress: Progress | None = None
    ) -> GroupSums:
        """The exact sums of each group, the same as a local pass gives [G5]."""
        fold = GroupFold(row_map, self.layout, listed)
        merged = self.fold(fold, progress)
        return fold.total([] if merged is None else [merged])

    def close(self) -> None:  # noqa: B027 (an engine that keeps nothing has nothing to do)
        """Give back what the engine keeps for this table; usually nothing."""


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
        for batch in sealed(UNREADABLE, batches):
            for keys, block in sealed(UNREADABLE, pieces(batch, places, self.layout)):
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
