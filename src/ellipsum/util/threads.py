"""Work that threads do ahead of a consumer: in order, in bounded memory, stopped when the generator is closed."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_POLL_SECONDS = 0.05
QUEUED = 1
"""Items that wait in the queue of each thread, beside the one that it is about to add."""


def count_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def workers() -> int:
    """Threads that read ahead: one for each core, at most eight."""
    return min(8, count_cores())


def map_ahead(work: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None) -> Generator[Result]:
    """work(item) for each item, in order. At most two for each of `threads` (default `workers()`) are in progress."""
    count = threads or workers()
    pool = ThreadPoolExecutor(count, thread_name_prefix="ellipsum-read")
    running: deque[Future[Result]] = deque()
    try:
        for item in items:
            running.append(pool.submit(work, item))
            if len(running) >= 2 * count:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:  # after an error or an interrupt, items that were not begun are dropped
        pool.shutdown(wait=True, cancel_futures=True)


class _Lane(Generic[Item]):
    """One thread that reads every n-th source and passes its items on through a bounded queue."""

    def __init__(self, sources: Sequence[Callable[[], Iterator[Item]]], stop: threading.Event) -> None:
        self._sources = sources
        self._stop = stop
        self._queue: queue.Queue[Item | BaseException | None] = queue.Queue(QUEUED)
        self.thread = threading.Thread(target=self._run, name="ellipsum-read", daemon=True)
        self.thread.start()

    def _put(self, item: Item | BaseException | None) -> bool:
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False

    def _run(self) -> None:
        try:
            for source in self._sources:
                for item in source():
                    if not self._put(item):
                        return
                if not self._put(None):
                    return
        except BaseException as error:  # the consumer raises it
            self._put(error)

    def next_source(self) -> Iterator[Item]:
        """The items of this lane's next source."""
        while (item := self._queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item


def chain_ahead(sources: Sequence[Callable[[], Iterator[Item]]]) -> Generator[Item]:
    """The items of every source, in order. The sources are read side by side in threads.

    For each thread at most QUEUED + 1 items exist, beside the one that the consumer has.
    """
    if not sources:
        return
    count = min(workers(), len(sources))
    stop = threading.Event()
    lanes = [_Lane(sources[k::count], stop) for k in range(count)]
    try:
        for index in range(len(sources)):
            yield from lanes[index % count].next_source()
    finally:
        stop.set()
        for lane in lanes:
            lane.thread.join()
