"""Work on blocks of rows that may be done elsewhere."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")
_Made = TypeVar("_Made", covariant=True)


class BlockWork(Protocol[_Made]):
    """Work on a block of rows: it is pickled, and its results travel as bytes."""

    def __call__(self, block: Any) -> _Made: ...
    def packed(self, block: Any) -> bytes:
        """The result, for a journey."""

    def unpack(self, numbers: bytes) -> _Made:
        """Inverse of `packed`."""
