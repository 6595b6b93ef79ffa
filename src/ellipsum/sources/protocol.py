"""What can be asked of a source of rows, and the rules that every reader keeps.

[T4] Progress does not depend on the rows. [T5] Errors of other libraries are replaced, because they may quote cells.
[T8] A file is checked for changes before and after each pass, and memory that may change is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..errors import DataError, EllipsumError, Floats
from ..kernels.accumulate import Partial
from ..kernels.blocks import Block
from ..row_maps.maps import RowMap

if TYPE_CHECKING:
    from ..request.groups import Listed
    from .group_sums import GroupSums

T = TypeVar("T")
Result = TypeVar("Result")
_Output = TypeVar("_Output", covariant=True)
Progress = Callable[[float], None]
_STEPS = 100


class BlockWork(Protocol[_Output]):
    """Work on a block of rows. The work is pickled, and its results travel as bytes."""

    def __call__(self, block: Block) -> _Output: ...
    def packed(self, block: Block) -> bytes:
        """The result as bytes."""

    def unpack(self, numbers: bytes) -> _Output:
        """The inverse of `packed`."""


class Source(Protocol):
    """Rows of numbers, wherever they are. A missing value is a NaN.

    columns: the name of each column, or None if the columns have no names. width: the number of columns.
    nullable: for each column, whether its type allows missing values. by: the kinds of the columns that identify
    groups. reopenable: False if the rows can be read only once. local: whether this process can reach the rows.
    ordered: whether the order of the rows is public. Only then may the position of a row have an effect [T9].
    """

    @property
    def columns(self) -> tuple[str, ...] | None: ...
    @property
    def width(self) -> int: ...
    @property
    def nullable(self) -> tuple[bool, ...]: ...
    @property
    def by(self) -> tuple[str, ...]: ...
    @property
    def reopenable(self) -> bool: ...
    @property
    def ordered(self) -> bool: ...
    @property
    def local(self) -> bool: ...

    def count(self) -> int:
        """The exact number of rows, or of people if rows were grouped by person. Public only under "replace"."""

    def total(self, row_map: RowMap, threads: int | None = None, progress: Progress | None = None) -> Partial:
        """The exact sum of a row map's integer rows [S5]."""

    def total_by(
        self, row_map: RowMap, listed: Listed | None, threads: int | None = None, progress: Progress | None = None
    ) -> GroupSums:
        """The exact sums of a row map's integer rows in each listed group, or in each group that occurs [G5]."""

    def each(self, work: BlockWork[Result], most_rows: int, progress: Progress | None = None) -> Iterator[Result]:
        """work(block) for blocks that contain every row once, in order if the source is ordered."""

    def sample(self, size: int, seed: bytes) -> tuple[Floats, int]:
        """A uniform sample of `size` rows (all rows if there are fewer), and the number of rows [F7][S6]."""

    def every(self) -> Floats:
        """All rows, in order if the source is ordered."""

    def close(self) -> None:
        """Remove what is kept for this source: temporary files, or an engine's caches."""


@contextmanager
def report_steps(progress: Progress | None, public: bool) -> Iterator[Progress | None]:
    """A function that takes any fractions of bytes, rows or tasks, while the caller gets 0, 0.01, ..., 1.

    The fractions decide when a step is reported, never which steps. The number of rows may be private (under
    "add_remove", or if people have several rows). Then only 0 and 1 are reported, at the beginning and the end [T4].
    """
    if progress is None:
        yield None
        return
    report, done = progress, 0

    def reach(fraction: float) -> None:
        nonlocal done
        while done < min(int(fraction * _STEPS), _STEPS):
            done += 1
            report(done / _STEPS)

    report(0.0)
    yield reach if public else None
    if public:
        reach(1.0)
    else:
        report(1.0)


def scale_progress(progress: Progress | None, begin: float, end: float) -> Progress | None:
    """The progress of one part, as progress of the whole."""
    if progress is None:
        return None
    report = progress
    return lambda fraction: report((1 - fraction) * begin + fraction * end)


def attempt(message: str, call: Callable[..., T], *arguments: Any) -> T:
    """call(*arguments), with every foreign exception replaced by DataError(message) [T5].

    The new error is raised after the handler has ended, so it does not keep the old one as its cause or context.
    """
    try:
        return call(*arguments)
    except EllipsumError:
        raise
    except Exception:  # its text may quote a cell
        pass
    raise DataError(message)


def seal(message: str, items: Iterable[T]) -> Iterator[T]:
    """The items, with every foreign exception raised between them replaced as in `attempt` [T5]."""
    end = object()
    iterator = attempt(message, iter, items)
    item: Any
    while (item := attempt(message, next, iterator, end)) is not end:
        yield item


class Watch:
    """Checks that a file does not change while it is in use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._first_stamp = self._stamp()

    def _stamp(self) -> tuple[int, int, int]:
        status = attempt(f"{self._path} could not be read.", self._path.stat)
        return status.st_size, status.st_mtime_ns, status.st_ino

    def check(self) -> None:
        """Raise a data error if the file was removed, replaced or changed since it was opened."""
        if self._stamp() != self._first_stamp:
            raise DataError(f"{self._path} changed while it was being read. Nothing was published: try again.")
