"""Rows that this process reads itself: whatever a table can be made of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

import numpy as np

from ..errors import Floats, whole
from ..kernels.accumulate import Partial, accumulate, default_threads
from ..kernels.blocks import Block, floats
from ..noise import public_subset
from ..numerics.wide_integers import Ints
from ..request.people import People
from ..row_maps.maps import RowMap
from .progress import Progress
from .protocol import BlockWork, Part, Result, Table
from .read_ahead import map_ahead

if TYPE_CHECKING:
    from ..request.groups import Listed
    from .group_sums import GroupSums


class LocalSource:
    """A table, read and added up by threads of this process."""

    local = True

    def __init__(self, table: Table, close: Callable[[], None] = lambda: None, people: int | None = None) -> None:
        self._table = table
        self._people = people
        self.columns = table.columns
        self.width = table.width
        self.gaps = table.gaps
        self.by = table.by
        self.reopenable = table.reopenable
        self.ordered = table.ordered
        self.close = close

    def count(self) -> int:
        return self._table.rows() if self._people is None else self._people

    def total(self, row_map: RowMap, threads: int | None = None, progress: Progress | None = None) -> Partial:
        return accumulate_local(self._table, row_map, threads, progress)

    def each(self, work: BlockWork[Result], most_rows: int, progress: Progress | None = None) -> Iterator[Result]:
        return map_ahead(work, self._slices(most_rows, progress))

    def _slices(self, step: int, progress: Progress | None) -> Iterator[Block]:
        for block in self._table.batches(progress):
            for start in range(0, len(block), step):
                yield block[start : start + step]

    def sample(self, size: int, seed: bytes) -> tuple[Floats, int]:
        if not self.reopenable:  # its rows are known only after its single pass
            rows = self.every()
            return rows[public_subset(seed, len(rows), min(size, len(rows)))], len(rows)
        count = self.count()
        return self._read(public_subset(seed, count, size) if count > size else None), count

    def every(self) -> Floats:
        return self._read(None)

    def _read(self, chosen: Ints | None) -> Floats:
        """The chosen rows (increasing places), or all."""
        parts, begin = [np.empty((0, self.width))], 0
        for block in self._table.batches():
            if chosen is None:
                parts.append(floats(block, copy=True))
            else:
                here = chosen[np.searchsorted(chosen, begin) : np.searchsorted(chosen, begin + len(block))]
                parts.append(floats(block[here - begin]))
            begin += len(block)
        return np.concatenate(parts)

    def grouped(self, people: People) -> LocalSource:
        from .people import gather

        table = gather(self._table, people)
        return LocalSource(table, table.close, table.people)

    def grouped_by(self, people: People, most: int, listed: Listed | None) -> LocalSource:
        from .group_codes import key_table
        from .people_groups import gather_groups

        keys = None if listed is None else key_table(self.by, listed)
        table = gather_groups(self._table, people, most, keys)
        return LocalSource(table, table.close, table.people)

    def total_by(
        self, row_map: RowMap, listed: Listed | None, threads: int | None = None, progress: Progress | None = None
    ) -> GroupSums:
        from .group_codes import key_table
        from .group_sums import add_groups

        return add_groups(
            row_map, self._table.pieces(progress), key_table(self.by, listed), listed is not None, threads
        )


_POLL_SECONDS = 0.05


def accumulate_local(table: Table, row_map: RowMap, threads: int | None, progress: Progress | None) -> Partial:
    """The exact sum of a table's rows; where it can be read in parts, every thread reads and adds its own [S5]."""
    parts = table.parts()
    if not parts:
        return accumulate(row_map, table.batches(progress), threads)
    count = default_threads() if threads is None else whole("threads", threads)
    if count == 1 or len(parts) < count:
        return accumulate(row_map, table.batches(progress), threads)
    return _Threads(row_map, parts, table.rows(), progress).run(count)


class _Threads:
    """Threads that take the next part until none is left; an error or an interrupt stops them all."""

    def __init__(self, row_map: RowMap, parts: Sequence[Part], rows: int, progress: Progress | None) -> None:
        self._map, self._parts = row_map, iter(parts)
        self._rows, self._progress = max(rows, 1), progress
        self._lock, self._stop, self._done = threading.Lock(), threading.Event(), 0

    def run(self, threads: int) -> Partial:
        total = Partial.empty(self._map.width)
        self._tell()
        with ThreadPoolExecutor(threads, thread_name_prefix="ellipsum") as pool:
            running = [pool.submit(accumulate, self._map, self._blocks(), 1) for _ in range(threads)]
            try:
                while wait(running, _POLL_SECONDS).not_done:  # Ctrl-C is heard here
                    self._tell()
                for future in running:
                    total = total.merge(future.result())
            finally:
                self._stop.set()
        self._tell()
        return total

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(min(1.0, self._done / self._rows))

    def _blocks(self) -> Iterator[Block]:
        try:
            while (part := self._next()) is not None:
                for _, block in part():
                    yield block
                    with self._lock:
                        self._done += len(block)
                    if self._stop.is_set():
                        return
        except BaseException:
            self._stop.set()
            raise

    def _next(self) -> Part | None:
        with self._lock:
            return None if self._stop.is_set() else next(self._parts, None)
