"""People with many rows: each person's rows become one, out of core, and the rest of the library sees a plain table.

[T6] One person more, less or other changes one row of that table; [T7] that row is a function of the person's own
rows alone.
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
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, Floats, UsageError
from ..kernels.blocks import Block, floats
from ..request.people import COUNTS, People
from ..util.interrupts import held
from .arrays import ArrayTable
from .identities import storage
from .progress import Progress
from .protocol import Piece, Table, block_rows
from .sealing import attempt, interruptible
from .sql_backends import connected

try:
    import fcntl
except ImportError:  # pragma: no cover - where there are no locks, nothing is cleared up after a kill
    fcntl = None  # type: ignore[assignment]

FAILED = (
    "The rows of each person could not be brought together. This needs room in the folder for temporary files "
    "(TMPDIR), and memory: DuckDB may use a quarter of this machine's."
)
MEMORY = "25%"  # of the machine's, for DuckDB's sort; the rest is for this process and others
_POLL_SECONDS = 0.05
_END, _STOP = object(), object()


class PeopleTable(ArrayTable):
    """One row per person, or up to so many, in a temporary file without a name: gone with `close` or the process.

    people: how many there are.
    """

    ordered = False  # [T9]

    def __init__(self, rows: Floats, source: Table, people: int) -> None:
        super().__init__(rows)
        self.columns = self.available = self.chosen = source.columns
        self.gaps = source.gaps
        self.people = people
        self._closed = False

    def pieces(self, progress: Progress | None = None) -> Iterator[Piece]:
        if self._closed:
            raise UsageError("This table of people was closed. Open the data again.")
        return super().pieces(progress)

    def close(self) -> None:
        """Let go of the file, which is gone with the last block that was read of it."""
        self._data, self._closed = np.empty((0, self.width)), True


def unnamed() -> BinaryIO:
    """A file for the user alone (mode 600) that no folder lists: it is gone with its last handle, even after a kill."""
    return cast(BinaryIO, tempfile.TemporaryFile(prefix=_PREFIX))


def memory_map(file: BinaryIO, dtype: type[np.generic], shape: tuple[int, ...]) -> NDArray[Any]:
    """The numbers in a file that nobody else can reach; they outlast its handle."""
    return np.memmap(file, dtype, "c", shape=shape) if shape[0] else np.empty(shape, dtype)  # an empty file has no map


def gather(table: Table, people: People) -> PeopleTable:
    """The table of people, from a table that was opened with `key=people.privacy_id`; reads it once.

    Guarantee [T6]: its rows are, one for each person and in no order that matters, a function of that person's rows;
    a row that names nobody is left out.
    """
    if table.key is None:
        raise UsageError("privacy_id was not named when this table was opened. Open it with its key.")
    with attempt(FAILED, unnamed) as file:
        with closing(attempt(FAILED, Scratch)) as scratch:
            rows, heads = Gathering(table, people, scratch.path, file).run()
        return PeopleTable(attempt(FAILED, memory_map, file, np.float64, (rows, table.width)), table, heads)


class Gathering:
    """Source -> DuckDB's sort by person, which spills to the folder -> exact sums -> a file of one row per person."""

    def __init__(self, source: Table, people: People, folder: Path, file: BinaryIO) -> None:
        self._source, self._people = source, people
        self._folder, self._file = folder, file
        self._width, self._capped = source.width, people.max_rows is not None

    def run(self) -> tuple[int, int]:
        """Write the file; the number of its rows, and of people."""
        config = {
            "memory_limit": MEMORY,
            "temp_directory": str(self._folder),
            "preserve_insertion_order": False,
            "arrow_large_buffer_size": True,
        }
        connection = attempt(FAILED, lambda: connected("privacy_id", ":memory:", config=config))
        try:
            return self._write(self._sorted(connection))
        finally:
            connection.close()

    def _read(self) -> Iterator[Any]:
        """Record batches (who, row, hash) of the source."""
        step = block_rows(self._width)
        for keys, block in self._source.pieces():
            for start in range(0, len(block), step):
                yield self._batch(keys.slice(start, step), block[start : start + step])

    def _owners(self, keys: Any) -> Any:
        """Whose each row is; behind the cells that name its group, where there are any."""
        return keys.field(len(self._source.by)) if self._source.by else keys

    def _batch(self, keys: Any, block: Block) -> Any:
        import pyarrow as pa

        from .exact_sums import content_hashes

        who, rows = of_somebody(self._owners(keys), block)
        buffers = [None, pa.py_buffer(rows)]
        columns = {"who": who, "row": pa.Array.from_buffers(pa.binary(8 * self._width), len(rows), buffers)}
        if self._capped:
            columns["hash"] = pa.array(content_hashes(rows.view(np.int64)))
        return pa.record_batch(columns)

    def _sorted(self, connection: Any) -> Iterator[Any]:
        """Table in which each person's rows are together; under a cap, those that count come first [T7]."""
        import pyarrow as pa

        sort = _Sort(connection, self._query(), pa.schema(self._fields()), block_rows(self._width))
        ordered = sort.run(self._read())
        end = object()
        while (batch := attempt(FAILED, interruptible, lambda: next(ordered, end))) is not end:
            yield batch

    def _fields(self) -> list[tuple[str, Any]]:
        """Names and types of what is sorted."""
        import pyarrow as pa

        assert self._source.key is not None
        fields = [("who", storage(self._source.key)), ("row", pa.binary(8 * self._width))]
        return fields + ([("hash", pa.int64())] if self._capped else [])

    def _query(self) -> str:
        order = "who, hash, row" if self._capped else "who"
        return f"select who, row from source order by {order}"

    def _write(self, batches: Iterator[Any]) -> tuple[int, int]:
        total, heads = 0, Heads()
        for rows in reduced(heads.counted(batches), self._width, self._people):
            total += len(rows)
            attempt(FAILED, self._file.write, rows.tobytes())
        attempt(FAILED, self._file.flush)
        return total, heads.people


class _Sort:
    """DuckDB sorts in a thread of its own; the source is read in the caller's, where its errors belong."""

    def __init__(self, connection: Any, query: str, schema: Any, rows: int) -> None:
        self._connection, self._query = connection, query
        self._schema, self._batch_rows = schema, rows
        self._feed: queue.Queue[Any] = queue.Queue(3)
        self._over = threading.Event()
        self._result: Iterator[Any] | None = None

    def run(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Sorted batches, once all have been handed over."""
        thread = threading.Thread(target=self._work, name="ellipsum-sort", daemon=True)
        thread.start()
        try:
            with closing(batches):  # type: ignore[type-var]  # a generator
                for batch in batches:
                    if not self._hand_over(batch):
                        break
            self._hand_over(_END)
            while not self._over.wait(_POLL_SECONDS):
                pass  # Ctrl-C is heard here
        except BaseException:
            while not self._over.wait(_POLL_SECONDS):
                self._hand_over(_STOP, patient=False)
                self._connection.interrupt()
            raise
        finally:
            thread.join()
        if self._result is None:
            raise DataError(FAILED)
        return self._result

    def _hand_over(self, item: Any, patient: bool = True) -> bool:
        while not self._over.is_set():
            try:
                self._feed.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                if patient:
                    continue
                return False
            return True
        return False

    def _batches(self) -> Iterator[Any]:
        while (item := self._feed.get()) is not _END:
            if item is _STOP:
                raise RuntimeError
            yield item

    def _work(self) -> None:
        import pyarrow as pa

        try:
            reader = pa.RecordBatchReader.from_batches(self._schema, self._batches())
            self._connection.register("source", reader)
            ordered = self._connection.sql(self._query).to_arrow_reader(self._batch_rows)
            first = next(ordered, None)  # by now the sort has seen every row
            self._result = iter(()) if first is None else itertools.chain([first], ordered)
        except Exception:  # whatever it says may quote a cell; the caller sees that there is no result
            pass
        finally:
            self._over.set()


def canonical_rows(block: Block) -> NDArray[np.float64]:
    """A copy of the rows in which every number, and "missing", has one bit pattern [T7]."""
    from .exact_sums import canonical_bits

    rows = floats(block, copy=True)
    canonical_bits(rows, rows.view(np.int64))
    return rows


def of_somebody(keys: Any, block: Block) -> tuple[Any, NDArray[np.float64]]:
    """Whose the rows are, and the rows, canonical; without those that name nobody [T6]."""
    rows = canonical_rows(block)
    if keys.null_count == 0:
        return keys, rows
    named = keys.is_valid()
    return keys.filter(named), rows[named.to_numpy(zero_copy_only=False)]


class Heads:
    """Counts the people of batches (who, ...) sorted by person, as they go by."""

    def __init__(self) -> None:
        self.people = 0

    def counted(self, batches: Iterator[Any]) -> Iterator[Any]:
        last = None
        for batch in batches:
            keys = batch.column(0)
            self.people += int(opens(keys, last).sum())
            last = keys.slice(len(keys) - 1, 1) if len(keys) else last
            yield batch


def reduced(batches: Iterator[Any], width: int, people: People) -> Iterator[NDArray[np.float64]]:
    """The rows of people, as they are complete, from batches (who, row) sorted by person [T7]."""
    if people.per_person in ("rows", COUNTS):
        yield from _by_rank(batches, width, people)
        return
    from .exact_sums import LIMBS, finish, fold

    most, mean = people.max_rows or 0, people.per_person == "mean"
    counts, limbs = np.zeros(width, np.int64), np.zeros((width, LIMBS), np.int64)
    spans = np.tile(np.array([LIMBS, 0], np.int64), (width, 1))
    taken = np.array([-1], np.int64)
    last = None
    for batch in batches:
        keys = batch.column(0)
        bits = row_bits(batch.column(1), width)
        first = opens(keys, last)
        last = keys.slice(len(keys) - 1, 1) if len(keys) else last
        out = np.empty((int(first.sum()) + 1, width))
        done = fold(bits, first, most, mean, counts, limbs, spans, taken, out)
        yield out[:done]
    if taken[0] >= 0:
        out = np.empty((1, width))
        finish(counts, limbs, spans, mean, out[0])
        yield out


def _by_rank(batches: Iterator[Any], width: int, people: People) -> Iterator[NDArray[np.float64]]:
    """The first max_rows rows of each person; or for each person the number of their rows, in every column."""
    last, before = None, 0
    for batch in batches:
        keys = batch.column(0)
        if len(keys) == 0:
            continue
        first = opens(keys, last)
        last = keys.slice(len(keys) - 1, 1)
        places = np.arange(len(keys))
        ranks = places - np.maximum.accumulate(np.where(first, places, -before))
        if people.per_person == COUNTS:
            complete = np.append(before, ranks + 1)[np.flatnonzero(first)]  # the person before each that opens
            yield np.repeat(complete[complete > 0].astype(float)[:, None], width, axis=1)
        else:
            yield row_bits(batch.column(1), width).view(np.float64)[ranks < (people.max_rows or 0)]
        before = int(ranks[-1]) + 1
    if people.per_person == COUNTS and before:
        yield np.full((1, width), float(before))


def row_bits(blobs: Any, width: int) -> NDArray[np.int64]:
    """Binary cells of 8 width bytes each as a matrix of 64-bit patterns."""
    _, offsets, letters = blobs.buffers()
    kind = np.int64 if "large" in str(blobs.type) else np.int32
    start = int(np.frombuffer(offsets, kind)[blobs.offset]) if len(blobs) else 0
    return np.frombuffer(letters, np.int64, len(blobs) * width, start).reshape(len(blobs), width)


def opens(keys: Any, last: Any) -> NDArray[np.bool_]:
    """Whether each row belongs to another person, or group, than the row before it; missing cells are alike [G4]."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(keys) == 0:
        return np.zeros(0, np.bool_)
    before = last if last is not None else pa.nulls(1, keys.type)
    earlier = pa.concat_arrays([before.cast(keys.type), keys.slice(0, len(keys) - 1)])
    same = pc.or_(pc.fill_null(pc.equal(keys, earlier), False), pc.and_(keys.is_null(), earlier.is_null()))
    opens: NDArray[np.bool_] = ~same.to_numpy(zero_copy_only=False)
    opens[0] |= last is None
    return opens


# The folder that DuckDB sorts in --------------------------------------------------------------------------------


_PREFIX = "ellipsum-people-"
_LOCK = "in-use"


class Scratch:
    """A folder among temporary files, for the user alone, until `close` or until this object is gone.

    A lock on a file in it is held for as long as the process lives: the system lets go of it even if the process is
    killed, and does not confuse processes. Whoever can take the lock knows that the folder was left behind.
    """

    def __init__(self) -> None:
        _remove_left_behind()
        locks: list[int] = []
        with held():
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))  # mode 700
            self._close = weakref.finalize(self, _remove, self.path, locks, os.getpid())
        if fcntl is not None:
            # Locked under another name first: a lock of the right name always belongs to a process, dead or alive.
            locks.append(os.open(self.path / "new", os.O_CREAT | os.O_RDWR, 0o600))
            fcntl.flock(locks[0], fcntl.LOCK_EX)
            os.rename(self.path / "new", self.path / _LOCK)

    def close(self) -> None:
        """Remove the folder."""
        self._close()


def _remove(path: Path, locks: list[int], owner: int) -> None:
    with held():
        if os.getpid() == owner:  # a process that was forked leaves its parent's folder alone
            with suppress(OSError):
                path.rmdir()  # an empty one goes even where no file can be opened any more
            shutil.rmtree(path, ignore_errors=True)
    for lock in locks:
        os.close(lock)


def _remove_left_behind() -> None:
    """Remove the folders of this user's processes that were killed."""
    if fcntl is None:
        return
    for folder in _users_folders():
        with suppress(OSError):  # no lock yet, or in use
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _users_folders() -> Iterator[Path]:
    """Folders of this kind that belong to this user; what others put there, and links, are left alone."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if not entry.name.startswith(_PREFIX):
                continue
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid():
                    yield Path(entry.path)
