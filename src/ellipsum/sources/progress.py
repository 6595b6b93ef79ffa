"""Progress that says nothing about the rows: in every pass the caller hears the same fractions. [T4]"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[float], None]
_STEPS = 100


@contextmanager
def steps(progress: Progress | None, public: bool) -> Iterator[Progress | None]:
    """What to tell of the work inside: any fractions, of bytes, rows or tasks. The caller hears 0, 0.01, ..., 1.

    Fractions decide only when a step is told, never which. Where not even that is `public` (the number of rows is
    private: "add_remove", or the rows of people) only 0 and 1 are told, at the beginning and at the end [T4].
    """
    if progress is None:
        yield None
        return
    tell, done = progress, 0

    def reach(fraction: float) -> None:
        nonlocal done
        while done < min(int(fraction * _STEPS), _STEPS):
            done += 1
            tell(done / _STEPS)

    tell(0.0)
    yield reach if public else None
    if public:
        reach(1.0)
    else:
        tell(1.0)


def share(progress: Progress | None, begin: float, end: float) -> Progress | None:
    """Progress of a part, as progress of the whole."""
    if progress is None:
        return None
    tell = progress
    return lambda fraction: tell((1 - fraction) * begin + fraction * end)
