"""The rows of people who have several: the columns they are sorted by, and the row that each person gets.

[T7] The row of a person is a function of that person's rows alone. So is the choice of the groups that count [G4].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import Floats
from ..kernels.blocks import Block, floats
from ..numerics.wide_integers import Ints
from ..request.people import COUNTS, People
from .group_labels import label_type, to_bits
from .identities import storage

if TYPE_CHECKING:  # these modules compile
    from .group_codes import KeyTable

Flags = NDArray[np.bool_]
NARROW = 16  # columns: DuckDB sorts structs of this many numbers in three quarters of the time of bytes


@dataclass(frozen=True)
class PersonSort:
    """The columns that rows are sorted by, so that the rows of each person are together [T6][G4].

    key: the kind of identities. by: the kinds of the columns that identify groups. in_groups: whether groups are
    asked for. is_capped: whether only some rows of a person count: the first ones by a hash of their contents.
    """

    key: str
    by: tuple[str, ...]
    in_groups: bool
    is_capped: bool

    @property
    def _groups(self) -> list[str]:
        return [f"g{i}" for i in range(len(self.by))] if self.in_groups else []

    def types(self, row_type: pa.DataType) -> dict[str, pa.DataType]:
        """Names and types of all columns. who: the person. nowhere: whether the row belongs to no group. pick: a number
        for person and group. g0, g1, ...: the cells that identify the group."""
        columns = {"who": storage(self.key), "row": row_type}
        if self.in_groups:
            columns |= {"nowhere": pa.bool_(), "pick": pa.int64()}
            columns |= dict(zip(self._groups, map(label_type, self.by), strict=True))
        return columns | ({"hash": pa.int64()} if self.is_capped else {})

    @property
    def order(self) -> list[str]:
        """The columns to sort by. With a cap, the rows that count come first [T7]."""
        groups = ["nowhere", "pick", *self._groups] if self.in_groups else []
        return ["who", *groups, *(["hash", "row"] if self.is_capped else [])]

    @property
    def output(self) -> list[str]:
        """The columns that are needed after the sort."""
        return ["who", "row", *(["nowhere", *self._groups] if self.in_groups else [])]

    def columns(self, cells: pa.Array, block: Block, listed: KeyTable | None) -> tuple[dict[str, pa.Array], Floats]:
        """The columns that some rows are sorted by, and the rows. They are functions of each row alone.

        Rows without an identity are left out. listed: the public groups. Rows of other groups belong to no group.
        """
        from .exact_sums import content_hashes

        who = cells.field(len(self.by)) if self.by else cells
        labels = [cells.field(i) for i in range(len(self.by))] if self.in_groups else []
        rows = canonical_rows(block)
        if who.null_count:
            has_identity = who.is_valid()
            rows = rows[has_identity.to_numpy(zero_copy_only=False)]
            who, labels = who.filter(has_identity), [column.filter(has_identity) for column in labels]
        columns = {"who": who}
        if labels:
            columns |= {"nowhere": pa.array(_in_no_group(labels, listed)), "pick": pa.array(hash_cells([*labels, who]))}
            columns |= dict(zip(self._groups, labels, strict=True))
        if self.is_capped:
            columns["hash"] = pa.array(content_hashes(rows.view(np.int64)))
        return columns, rows


def canonical_rows(block: Block) -> Floats:
    """Copy rows so that equal numbers, and all missing values, have one bit pattern [T7], in the order for `pack`."""
    from .exact_sums import canonical_bits

    rows = floats(block, copy=True, order="F" if block.shape[1] <= NARROW else "C")
    canonical_bits(rows, rows.view(np.int64))
    return rows


def _in_no_group(labels: Sequence[pa.Array], listed: KeyTable | None) -> Flags:
    """Whether each row belongs to no group."""
    if listed is not None:
        return listed.codes(list(labels)) < 0
    missing: Flags = np.logical_or.reduce([cells.is_null().to_numpy(zero_copy_only=False) for cells in labels])
    return missing


def hash_cells(columns: Sequence[pa.Array]) -> Ints:
    """A fixed hash of the cells of each row: of its person, or of its person and group [G4]."""
    from .group_codes import CellTexts, mix_numbers, mix_texts

    out = np.zeros(len(columns[0]), np.int64)
    for cells in columns:
        if pa.types.is_large_binary(cells.type):
            mix_texts(CellTexts.of(cells), out)
        else:
            mix_numbers(*to_bits(cells), out)
    return out


class PersonCounter:
    """Counts the people of batches (who, ...) that are sorted by person, while they are read."""

    def __init__(self) -> None:
        self.people = 0

    def count(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch, first in _mark_starts(batches):
            self.people += int(first.sum())
            yield batch


def _mark_starts(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, Flags]]:
    """Each batch that has rows, and whether each of its rows is the first of a person."""
    last = None
    for batch in batches:
        keys = batch.column(0)
        if len(keys):
            yield batch, find_starts(keys, last)
            last = keys.slice(len(keys) - 1)


def count_pairs(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[tuple[list[pa.Array], pa.RecordBatch]]:
    """For each sorted batch (who, row, nowhere, g0, ...): the cells of the groups that begin in it, and their rows.

    The rows are batches (pair, row), numbered by person and group. The first `most` groups of a person count [G4].
    """
    last, pairs, rank = None, 0, 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        cells = [batch.column(i) for i in (0, *range(3, batch.num_columns))]
        changes = [find_starts(now, then) for now, then in zip(cells, last or [None] * len(cells), strict=True)]
        person, pair = changes[0], np.logical_or.reduce(changes)
        last = [now.slice(len(now) - 1, 1) for now in cells]
        ranks = _ranks(person, pair, rank)
        rank = int(ranks[-1])
        counts = (ranks < most) & ~batch.column(2).to_numpy(zero_copy_only=False)
        numbers = pairs + np.cumsum(pair)
        pairs = int(numbers[-1])
        first_rows, rows = pa.array(counts & pair), pa.array(counts)
        arrays = [pa.array(numbers).filter(rows), batch.column(1).filter(rows)]
        yield [now.filter(first_rows) for now in cells[1:]], pa.record_batch(arrays, names=["who", "row"])


def _ranks(person: Flags, pair: Flags, rank: int) -> Ints:
    """For each row, the number of groups of its person before; rank: this number for the row before the first."""
    steps = np.cumsum(pair & ~person) + rank
    base = np.maximum.accumulate(np.where(person, steps, -1))
    return np.where(base >= 0, steps - base, steps)


def reduce_people(batches: Iterator[pa.RecordBatch], width: int, people: People) -> Iterator[Floats]:
    """Make the row or rows of each person [T7] from batches (who, row) that are sorted by person."""
    if people.per_person in ("rows", COUNTS):
        yield from _count_or_keep(batches, width, people)
        return
    from .exact_sums import OpenPerson, finish, fold

    most, is_mean = people.max_rows or 0, people.per_person == "mean"
    person = OpenPerson.new(width)
    for batch, first in _mark_starts(batches):
        out = np.empty((int(first.sum()) + 1, width))
        done = fold(row_bits(batch.column(1), width), first, most, is_mean, person, out)
        yield out[:done]
    if person.rows[0] >= 0:
        out = np.empty((1, width))
        finish(person, is_mean, out[0])
        yield out


def _count_or_keep(batches: Iterator[pa.RecordBatch], width: int, people: People) -> Iterator[Floats]:
    """Yield the first max_rows rows of each person or, in every column, the number of rows of each person."""
    before = 0
    for batch, first in _mark_starts(batches):
        places = np.arange(batch.num_rows)
        ranks = places - np.maximum.accumulate(np.where(first, places, -before))
        if people.per_person == COUNTS:
            complete = np.append(before, ranks + 1)[np.flatnonzero(first)]  # of the person before each first row
            yield np.repeat(complete[complete > 0].astype(float)[:, None], width, axis=1)
        else:
            yield row_bits(batch.column(1), width).view(np.float64)[ranks < (people.max_rows or 0)]
        before = int(ranks[-1]) + 1
    if people.per_person == COUNTS and before:
        yield np.full((1, width), float(before))


def pack(rows: Floats) -> pa.Array:
    """Pack rows into cells that DuckDB sorts: narrow rows as structs of whole numbers, wide rows as bytes."""
    kind = packed_type(rows.shape[1])
    if not pa.types.is_struct(kind):
        return pa.Array.from_buffers(kind, len(rows), [None, pa.py_buffer(np.ascontiguousarray(rows))])
    return pa.StructArray.from_arrays([pa.array(bits) for bits in rows.view(np.int64).T], fields=list(kind))


def packed_type(width: int) -> pa.DataType:
    return pa.struct([(f"x{j}", pa.int64()) for j in range(width)]) if width <= NARROW else pa.binary(8 * width)


def row_bits(cells: pa.Array, width: int) -> Ints:
    """Unpack rows to a matrix of 64-bit patterns."""
    if pa.types.is_struct(cells.type):
        return np.column_stack([np.from_dlpack(bits) for bits in cells.flatten()])
    if pa.types.is_fixed_size_binary(cells.type):
        return np.frombuffer(cells.buffers()[1], np.int64)[cells.offset * width :].reshape(-1, width)[: len(cells)]
    _, offsets, letters = cells.buffers()
    kind = np.int64 if pa.types.is_large_binary(cells.type) else np.int32
    start = int(np.frombuffer(offsets, kind)[cells.offset]) if len(cells) else 0
    return np.frombuffer(letters, np.int64, len(cells) * width, start).reshape(len(cells), width)


def find_starts(cells: pa.Array, last: pa.Array | None) -> Flags:
    """Whether each row belongs to another person or group than the row before. Missing cells are equal [G4]."""
    starts = np.ones(len(cells), np.bool_)
    if last is not None:
        starts[:1] = _differ(cells.slice(0, 1), last.cast(cells.type))
    starts[1:] = _differ(cells.slice(1), cells.slice(0, len(cells) - 1))
    return starts


def _differ(cells: pa.Array, before: pa.Array) -> Flags:
    different = pc.not_equal(cells, before)
    if cells.null_count or before.null_count:
        different = pc.if_else(different.is_valid(), different, pc.xor(cells.is_null(), before.is_null()))
    flags: Flags = different.to_numpy(zero_copy_only=False)
    return flags
