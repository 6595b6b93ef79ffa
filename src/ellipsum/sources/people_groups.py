"""People with rows in several groups: one row for each person and group, and at most so many groups of a person.

[G4] Which groups of a person are kept, and the row in each, is a function of that person's own rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..errors import Floats, UsageError
from ..kernels.blocks import Block
from ..numerics.wide_integers import Ints
from ..request.people import People
from .group_codes import KeyTable
from .group_labels import beside, bits_of, is_text
from .identities import storage
from .people import FAILED, Gathering, Heads, PeopleTable, Scratch, canonical_rows, memory_map, opens, reduced, unnamed
from .progress import Progress
from .protocol import Piece, Table, block_rows
from .sealing import attempt


class GroupedPeople(PeopleTable):
    """One row for each person and group, and the number of its group, in temporary files."""

    def __init__(self, rows: Floats, codes: Ints, keys: KeyTable, source: Table, people: int) -> None:
        super().__init__(rows, source, people)
        self.by = source.by
        self._labels = keys.labels()
        self._codes = codes

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        import pyarrow as pa

        step = block_rows(self.width)
        for _, rows in super().pieces(progress):
            for start in range(0, len(rows), step):
                codes = pa.array(self._codes[start : start + step])
                yield beside([cells.take(codes) for cells in self._labels], None), rows[start : start + step]


def gather_groups(table: Table, people: People, most: int, listed: KeyTable | None) -> GroupedPeople:
    """The table of people in groups, from a table that was opened with a key and groups; reads it once.

    most: so many groups of a person count. listed: the public groups, where they are listed; a row of another counts
    nowhere, and its person is counted all the same.
    """
    if table.key is None or not table.by:
        raise UsageError("by and privacy_id were not named when this table was opened. Open it with both.")
    with attempt(FAILED, unnamed) as file, attempt(FAILED, unnamed) as code_file:
        with closing(attempt(FAILED, Scratch)) as scratch:
            gathering = _GroupGathering(table, people, scratch.path, file)
            gathering.prepare(code_file, most, listed)
            count, heads = gathering.run()
        rows = attempt(FAILED, memory_map, file, np.float64, (count, table.width))
        codes = attempt(FAILED, memory_map, code_file, np.int64, (count,))
        return GroupedPeople(rows, codes, gathering.keys, table, heads)


class _GroupGathering(Gathering):
    """As for people alone, sorted by person and group; a person's groups come in an order that looks arbitrary."""

    def prepare(self, codes: BinaryIO, most: int, listed: KeyTable | None) -> None:
        self._codes, self._most, self._listed = codes, most, listed
        self.keys = KeyTable(self._source.by) if listed is None else listed  # which knows a missing cell that is listed

    @property
    def _names(self) -> list[str]:
        return [f"g{i}" for i in range(len(self._source.by))]

    def _batch(self, keys: Any, block: Block) -> Any:
        import pyarrow as pa

        columns, rows = marked(keys, block, len(self._source.by), self._listed, self._capped)
        buffers = [None, pa.py_buffer(rows)]
        columns["row"] = pa.Array.from_buffers(pa.binary(8 * self._width), len(rows), buffers)
        return pa.record_batch([columns[name] for name, _ in self._fields()], names=[n for n, _ in self._fields()])

    def _fields(self) -> list[tuple[str, Any]]:
        import pyarrow as pa

        groups = [(name, cell_type(kind)) for name, kind in zip(self._names, self._source.by, strict=True)]
        return [*super()._fields()[:2], ("nowhere", pa.bool_()), ("pick", pa.int64()), *groups, *super()._fields()[2:]]

    def _query(self) -> str:
        groups = ", ".join(self._names)
        last = ", hash, row" if self._capped else ""
        return f"select who, row, nowhere, {groups} from source order by who, nowhere, pick, {groups}{last}"

    def _write(self, batches: Iterator[Any]) -> tuple[int, int]:
        total, heads = 0, Heads()
        for rows in reduced(self._pairs(heads.counted(batches)), self._width, self._people):
            total += len(rows)
            attempt(FAILED, self._file.write, rows.tobytes())
        attempt(FAILED, self._file.flush)
        attempt(FAILED, self._codes.flush)
        return total, heads.people

    def _pairs(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Table (pair, row) of the pairs that count, whose groups' numbers are written."""
        for labels, pairs in kept_pairs(batches, self._most):
            attempt(FAILED, self._codes.write, self.keys.codes(labels).tobytes())
            yield pairs


def marked(
    keys: Any, block: Block, count: int, listed: KeyTable | None, capped: bool
) -> tuple[dict[str, Any], NDArray[np.float64]]:
    """What the rows of people are sorted by, and the rows: functions of each row alone [G4].

    who: the person; nowhere: whether the row belongs to no group; pick: a number for person and group; g0, g1, ...: the
    cells that name the group; hash, under a cap: of the row. Rows of nobody are left out.
    """
    import pyarrow as pa

    from .exact_sums import content_hashes

    who, labels = keys.field(count), [keys.field(i) for i in range(count)]
    rows = canonical_rows(block)
    if who.null_count:
        there = who.is_valid()
        rows = rows[there.to_numpy(zero_copy_only=False)]
        who, labels = who.filter(there), [cells.filter(there) for cells in labels]
    columns = {"who": who, "nowhere": pa.array(_nowhere(labels, listed)), "pick": pa.array(_picks([*labels, who]))}
    columns |= {f"g{i}": cells for i, cells in enumerate(labels)}
    if capped:
        columns["hash"] = pa.array(content_hashes(rows.view(np.int64)))
    return columns, rows


def _nowhere(labels: list[Any], listed: KeyTable | None) -> Any:
    """Whether each row belongs to no group."""
    if listed is not None:
        return listed.codes(labels) < 0
    lacking = [cells.is_null().to_numpy(zero_copy_only=False) for cells in labels]
    return np.logical_or.reduce(lacking)


def kept_pairs(batches: Iterator[Any], most: int) -> Iterator[tuple[list[Any], Any]]:
    """For each sorted batch (who, row, nowhere, g0, ...): cells of the groups that begin in it, and their rows.

    Rows are batches (pair, row), numbered by person and group; a person's first `most` groups count [G4].
    """
    import pyarrow as pa

    last, pairs, rank = None, 0, 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        cells = [batch.column(i) for i in (0, *range(3, batch.num_columns))]
        before = last or [None] * len(cells)
        changes = [opens(now, then) for now, then in zip(cells, before, strict=True)]
        person, pair = changes[0], np.logical_or.reduce(changes)
        last = [now.slice(len(now) - 1, 1) for now in cells]
        ranks = _ranks(person, pair, rank)
        rank = int(ranks[-1])
        kept = (ranks < most) & ~batch.column(2).to_numpy(zero_copy_only=False)
        numbers = pairs + np.cumsum(pair)
        pairs = int(numbers[-1])
        begins, chosen = pa.array(kept & pair), pa.array(kept)
        arrays = [pa.array(numbers).filter(chosen), batch.column(1).filter(chosen)]
        yield [now.filter(begins) for now in cells[1:]], pa.record_batch(arrays, names=["who", "row"])


def _ranks(person: NDArray[np.bool_], pair: NDArray[np.bool_], rank: int) -> Ints:
    """For each row, how many groups of its person came before; rank: that of the row before the first."""
    steps = np.cumsum(pair & ~person) + rank
    at_open = np.where(person, steps, -1)
    base = np.maximum.accumulate(at_open)
    return np.where(base >= 0, steps - base, steps)


def cell_type(kind: str) -> Any:
    import pyarrow as pa

    return pa.large_binary() if is_text(kind) else storage("boolean" if kind == "bool" else kind)


def _picks(columns: list[Any]) -> Ints:
    """A number for each row that depends on its person and group alone and looks arbitrary [G4]."""
    from .group_codes import stir_bytes, stir_numbers

    out = np.zeros(len(columns[0]), np.int64)
    for cells in columns:
        if str(cells.type) == "large_binary":
            _, offsets, letters = cells.buffers()
            starts = np.frombuffer(offsets, np.int64)[cells.offset : cells.offset + len(cells) + 1]
            text = np.empty(0, np.uint8) if letters is None else np.frombuffer(letters, np.uint8)
            stir_bytes(text, starts, cells.is_valid().to_numpy(zero_copy_only=False), out)
        else:
            stir_numbers(*bits_of(cells), out)
    return out
