"""This process as an engine: threads that each read a part of a table and add its rows while they are in the cache."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

from ..errors import whole
from ..kernels.accumulate import Partial, accumulate, default_threads
from ..row_maps.maps import RowMap
from .progress import Progress
from .tables import Block, Part, SourceTable

_POLL_SECONDS = 0.05


def accumulate_local(table: SourceTable, row_map: RowMap, threads: int | None, progress: Progress | None) -> Partial:
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
