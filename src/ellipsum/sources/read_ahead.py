"""Work done ahead of the consumer in threads: in order, in bounded memory, closed with the generator."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_POLL_SECONDS = 0.05
_QUEUED = 3


def workers() -> int:
    """Threads that read ahead: one for each core that this process may use, eight at most."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(8, cores))


def map_ahead(work: Callable[[Item], Result], items: Iterable[Item]) -> Generator[Result]:
    """work(item) for each item, in order, with a few items under way while the consumer is busy."""
    count = workers()
    pool = ThreadPoolExecutor(count, thread_name_prefix="ellipsum-read")
    under_way: deque[Future[Result]] = deque()
    try:
        for item in items:
            under_way.append(pool.submit(work, item))
            if len(under_way) > count:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class _Lane:
    """One thread that runs its share of the sources and hands their items over through a bounded queue."""

    def __init__(self, sources: Sequence[Callable[[], Iterator[Any]]], stop: threading.Event) -> None:
        self._sources = sources
        self._stop = stop
        self._ready: queue.Queue[tuple[str, Any]] = queue.Queue(_QUEUED)
        self.thread = threading.Thread(target=self._run, name="ellipsum-read", daemon=True)
        self.thread.start()

    def _put(self, kind: str, value: Any = None) -> bool:
        while not self._stop.is_set():
            try:
                self._ready.put((kind, value), timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False

    def _run(self) -> None:
        try:
            for source in self._sources:
                for item in source():
                    if not self._put("item", item):
                        return
                if not self._put("end"):
                    return
        except BaseException as error:  # handed to the consumer, which raises it
            self._put("error", error)

    def take(self) -> Iterator[Any]:
        """The items of this lane's next source."""
        while True:
            kind, value = self._ready.get()
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value


def chain_ahead(sources: Sequence[Callable[[], Iterator[Item]]]) -> Generator[Item]:
    """The items of every source, in order, where the sources are run side by side in threads."""
    if not sources:
        return
    count = min(workers(), len(sources))
    stop = threading.Event()
    lanes = [_Lane(sources[k::count], stop) for k in range(count)]
    try:
        for index in range(len(sources)):
            yield from lanes[index % count].take()
    finally:
        stop.set()
        for lane in lanes:
            lane.thread.join()
