"""People with several rows: the rows of each person become one row of an ordinary table.

[T6] One person more, less or different changes one row of that table. [T7] That row is a function of the person's own
rows alone. In groups a person has one row in each of a limited number of groups [G4].
"""

from __future__ import annotations

import itertools
import os
import queue
import shutil
import stat
import tempfile
import threading
import weakref
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import DataError, Floats, UsageError
from ..numerics.wide_integers import Ints
from ..request.groups import Listed
from ..request.people import People
from ..util.interrupts import held, read_ahead
from ..util.threads import map_ahead
from .arrays import ArrayTable
from .group_codes import KeyTable, key_table, sort_codes
from .group_labels import join_cells
from .identities import storage
from .local import Piece, RowReader, Table, block_rows
from .person_rows import (
    NARROW,
    PersonCounter,
    PersonSort,
    canonical_rows,
    count_pairs,
    hash_cells,
    pack,
    packed_type,
    reduce_people,
)
from .protocol import Progress, attempt, seal
from .sql_backends import connect_duckdb

if TYPE_CHECKING:
    import duckdb

try:
    import fcntl
except ImportError:  # pragma: no cover - without locks, nothing is removed after a process was killed
    fcntl = None  # type: ignore[assignment]

FAILED = (
    "The rows could not be grouped by person. This needs free space in the folder for temporary files "
    "(TMPDIR), and memory: DuckDB may use a quarter of this machine's."
)
MEMORY = "25%"  # of the machine's, for DuckDB's sort; the rest is for this process and others
_POLL_SECONDS = 0.05
Number = TypeVar("Number", bound=np.generic)


class PeopleTable(ArrayTable):
    """One row for each person, or several, in memory or in a temporary file without a name, which ends with `close`.

    The order of the rows is not public [T9].
    """

    ordered = False

    def __init__(self, rows: Floats, source: Table, people: int) -> None:
        super().__init__(rows)
        self.columns = self.available = self.chosen = source.columns
        self.nullable = source.nullable
        self._people = people
        self._closed = False

    def count(self) -> int:
        return self._people

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        if self._closed:
            raise UsageError("This table of people was closed. Open the data again.")
        return super().pieces(progress)

    def close(self) -> None:
        """Release the file, which is removed with the last block that was read of it."""
        self._data, self._closed = np.empty((0, self.width)), True


def unnamed_file() -> BinaryIO:
    """Open a file for this user alone (mode 600) in no folder. It ends with its last handle, even after a kill."""
    return cast(BinaryIO, tempfile.TemporaryFile(prefix=_PREFIX))


def memory_map(file: BinaryIO, dtype: type[Number], shape: tuple[int, ...]) -> NDArray[Number]:
    """Map the numbers in a file into memory. They stay readable after its handle is closed."""
    return np.memmap(file, dtype, "c", shape=shape) if shape[0] else np.empty(shape, dtype)  # an empty file has no map


class GroupedPeople(PeopleTable):
    """One row for each person and group, and the code of its group, in temporary files."""

    def __init__(self, rows: Floats, codes: Ints, keys: KeyTable, source: Table, people: int) -> None:
        super().__init__(rows, source, people)
        self.by = source.by
        self._labels, self._codes = keys.labels(), codes

    def _read(self, progress: Progress | None) -> Iterator[Piece]:
        step = block_rows(self.width)
        for _, rows in super()._read(progress):
            for start in range(0, len(rows), step):
                codes = pa.array(self._codes[start : start + step])
                yield join_cells([cells.take(codes) for cells in self._labels], None), rows[start : start + step]


def gather(table: Table, people: People, most: int | None = None, listed: Listed | None = None) -> PeopleTable:
    """Make the table of people from a table that was opened with `key=people.privacy_id`.

    DuckDB sorts the rows by person (and group), on disk if memory is short, and exact sums go to a file. A table in
    memory needs no sort if all rows of a person count and there are no groups.

    most: the number of groups of a person that count, with one row in each; None without groups. listed: the public
    groups. A row of another group has no effect, but its person is counted.

    Guarantee [T6]: the result for each person is a function of that person's rows, and their order has no effect. Rows
    without an identity are left out.
    """
    if table.key is None:
        raise UsageError("This table was opened without privacy_id. Open it again with privacy_id=.")
    read = table.row_reader() if most is None and people.max_rows is None else None
    if read is not None:
        _remove_left_behind()
        return attempt(FAILED, _gather_in_memory, table, people, read)
    keys = None if most is None else key_table(table.by, listed)
    sort = PersonSort(table.key, table.by, keys is not None, people.max_rows is not None)
    counter, size = PersonCounter(), 0
    with attempt(FAILED, unnamed_file) as file, attempt(FAILED, unnamed_file) as code_file:
        with (
            closing(attempt(FAILED, Scratch)) as scratch,
            closing(_connect(scratch.path)) as connection,
            closing(_sorted_batches(table, sort, connection, keys if listed is not None else None)) as ordered,
        ):
            batches = counter.count(ordered)
            if keys is not None:
                batches = _write_codes(batches, most or 1, keys, code_file)
            for rows in reduce_people(batches, table.width, people):
                size += len(rows)
                attempt(FAILED, file.write, rows.tobytes())
            attempt(FAILED, file.flush)
            attempt(FAILED, code_file.flush)
        rows = attempt(FAILED, memory_map, file, np.float64, (size, table.width))
        if keys is None:
            return PeopleTable(rows, table, counter.people)
        codes = attempt(FAILED, memory_map, code_file, np.int64, (size,))
        return GroupedPeople(rows, codes, keys, table, counter.people)


_KINDS = {pa.large_binary(): "text", pa.uint64(): "uint64", pa.float64(): "real"}
_Split = tuple[pa.Array, Ints, Ints]
"""Identities and the positions of their rows in the order of parts, and the limits of the parts."""


def _gather_in_memory(table: Table, people: People, read: RowReader) -> PeopleTable:
    """Do as `gather` without a sort of the rows. A hash of the identity assigns each row to a part.

    Threads group the parts side by side. At the end the people are sorted by identity, as by `_Sort`.
    """
    # The identities of a part should fit into a cache. To read a part takes time for each column.
    count = 64 if table.width <= NARROW else 8
    pieces = list(map_ahead(lambda piece: _split(piece, count), _positions(table)))
    parts = map_ahead(lambda part: _reduce_part(_join_part(pieces, part), table.width, people, read), range(count))
    identities, rows = zip(*parts, strict=True)
    order = pc.sort_indices(pa.concat_arrays(identities))
    return PeopleTable(np.concatenate(rows).take(order, axis=0), table, len(order))


def _positions(table: Table) -> Iterator[tuple[pa.Array, Ints]]:
    """Yield identities and the positions of their rows. Rows without an identity are left out."""
    assert table.key is not None
    yield pa.array([], storage(table.key)), np.empty(0, np.int64)  # there may be no piece
    start = 0
    for cells, block in table.pieces():
        assert cells is not None
        who = cells.field(len(table.by)) if table.by else cells
        yield who.drop_null(), start + np.flatnonzero(who.is_valid())
        start += len(block)


def _split(piece: tuple[pa.Array, Ints], count: int) -> _Split:
    """Bring the rows of each part together."""
    who, positions = piece
    parts = hash_cells([who]) % count
    order = sort_codes(parts, count)
    return who.take(pa.array(order)), positions[order], np.searchsorted(parts[order], np.arange(count + 1))


def _join_part(pieces: Sequence[_Split], part: int) -> tuple[pa.Array, Ints]:
    """Join one part of all pieces: its identities, and the positions of their rows."""
    cuts = [(who, positions, slice(*ends[part : part + 2])) for who, positions, ends in pieces]
    joined = pa.concat_arrays([who[cut] for who, _, cut in cuts])
    return joined, np.concatenate([positions[cut] for _, positions, cut in cuts])


def _reduce_part(part: tuple[pa.Array, Ints], width: int, people: People, read: RowReader) -> tuple[pa.Array, Floats]:
    """Group one part: the identities of its people, and their rows."""
    who, positions = part
    keys = KeyTable((_KINDS.get(who.type, "integer"),))
    codes = keys.codes([who])
    order, step = sort_codes(codes, keys.size), block_rows(width)

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(order), step):
            these = order[start : start + step]
            arrays = [pa.array(codes[these]), pack(canonical_rows(read(positions[these])))]
            yield pa.record_batch(arrays, names=["who", "row"])

    rows = np.concatenate([np.empty((0, width)), *reduce_people(batches(), width, people)])
    return keys.labels()[0], rows


def _connect(folder: Path) -> duckdb.DuckDBPyConnection:
    config = {
        "memory_limit": MEMORY,
        "temp_directory": str(folder),
        "preserve_insertion_order": False,
        "arrow_large_buffer_size": True,
    }
    return attempt(FAILED, lambda: connect_duckdb("privacy_id", ":memory:", config=config))


def _sorted_batches(
    table: Table, sort: PersonSort, connection: duckdb.DuckDBPyConnection, listed: KeyTable | None
) -> Generator[pa.RecordBatch]:
    """Yield batches in which the rows of each person are together."""
    step, types = block_rows(table.width), sort.types(packed_type(table.width))

    def source() -> Iterator[pa.RecordBatch]:
        for cells, block in table.pieces():
            assert cells is not None
            for start in range(0, len(block), step):
                columns, rows = sort.columns(cells.slice(start, step), block[start : start + step], listed)
                columns["row"] = pack(rows)
                yield pa.record_batch([columns[name] for name in types], names=list(types))

    query = f"select {', '.join(sort.output)} from source order by {', '.join(sort.order)}"
    ordered = _Sort(connection, query, pa.schema(list(types.items())), step).run(source())
    with closing(read_ahead(ordered, connection.interrupt)) as batches:
        yield from seal(FAILED, batches)


def _write_codes(
    batches: Iterator[pa.RecordBatch], most: int, keys: KeyTable, file: BinaryIO
) -> Iterator[pa.RecordBatch]:
    """Yield batches (pair, row) of the pairs of person and group that count. Write the codes of groups to a file."""
    for labels, pairs in count_pairs(batches, most):
        attempt(FAILED, file.write, keys.codes(labels).tobytes())
        yield pairs


class _Sort:
    """A sort by DuckDB in its own thread. The source is read in the caller's thread, where its errors are raised."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, query: str, schema: pa.Schema, batch_rows: int) -> None:
        self._connection, self._query = connection, query
        self._schema, self._batch_rows = schema, batch_rows
        self._queue: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue(3)
        self._done = threading.Event()
        self._result: Iterator[pa.RecordBatch] | None = None

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read all batches, then return the sorted ones."""
        thread = threading.Thread(target=self._work, name="ellipsum-sort", daemon=True)
        thread.start()
        try:
            with closing(batches):  # type: ignore[type-var]  # a generator
                for batch in batches:
                    if not self._put(batch):
                        break
            self._put(None)
            while not self._done.wait(_POLL_SECONDS):
                pass  # Ctrl-C interrupts the wait
        except BaseException as error:
            while not self._done.wait(_POLL_SECONDS):
                with suppress(queue.Full):
                    self._queue.put(error, block=False)
                self._connection.interrupt()
            raise
        finally:
            thread.join()
        if self._result is None:
            raise DataError(FAILED)
        return self._result

    def _put(self, batch: pa.RecordBatch | None) -> bool:
        while not self._done.is_set():
            with suppress(queue.Full):
                self._queue.put(batch, timeout=_POLL_SECONDS)
                return True
        return False

    def _batches(self) -> Iterator[pa.RecordBatch]:
        while (item := self._queue.get()) is not None:
            if isinstance(item, BaseException):
                raise RuntimeError
            yield item

    def _work(self) -> None:
        try:
            reader = pa.RecordBatchReader.from_batches(self._schema, self._batches())
            self._connection.register("source", reader)
            ordered = self._connection.sql(self._query).to_arrow_reader(self._batch_rows)
            first = next(ordered, None)  # now the sort has read every row
            self._result = iter(()) if first is None else itertools.chain([first], ordered)
        except Exception:  # its text may quote a cell; without a result the caller raises an error
            pass
        finally:
            self._done.set()


_PREFIX = "ellipsum-people-"
_LOCK = "in-use"


class Scratch:
    """A temporary folder for this user alone. It is removed by `close` or when this object is deleted.

    A file in it is locked while the process lives. The system releases the lock even if the process is killed. So a
    process that can take the lock knows that the folder was left behind.
    """

    def __init__(self) -> None:
        _remove_left_behind()
        locks: list[int] = []
        with held():
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))  # mode 700
            self._close = weakref.finalize(self, _remove, self.path, locks, os.getpid())
        if fcntl is not None:
            # Locked under another name first: a file of the right name was always locked by its process.
            locks.append(os.open(self.path / "new", os.O_CREAT | os.O_RDWR, 0o600))
            fcntl.flock(locks[0], fcntl.LOCK_EX)
            os.rename(self.path / "new", self.path / _LOCK)

    def close(self) -> None:
        """Remove the folder."""
        self._close()


def _remove(path: Path, locks: list[int], owner: int) -> None:
    with held():
        if os.getpid() == owner:  # a forked process must not remove its parent's folder
            with suppress(OSError):
                path.rmdir()  # an empty folder can be removed even if no file can be opened
            shutil.rmtree(path, ignore_errors=True)
    for lock in locks:
        os.close(lock)


def _remove_left_behind() -> None:
    """Remove the folders of this user's processes that were killed."""
    if fcntl is None:
        return
    for folder in _users_folders():
        with suppress(OSError):  # not locked yet, or in use
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _users_folders() -> Iterator[Path]:
    """Find the folders of this kind that belong to this user. Links and other users' folders are left alone."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if not entry.name.startswith(_PREFIX):
                continue
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid():
                    yield Path(entry.path)
