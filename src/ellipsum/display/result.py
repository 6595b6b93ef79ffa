"""What every result can do: be printed, be drawn, and be reported on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import UsageError
from .document import Background, Document

if TYPE_CHECKING:
    from .plots.strips import Sheet


class Result(Protocol):
    """What can be shown, saved and kept by a ledger."""

    def document(self, most: int | None = None) -> Document: ...
    def to_json(self) -> str: ...


class Printed:
    """Base of what is printed: its text and its HTML are those of its document."""

    def document(self, most: int | None = None) -> Document:
        """Its document; most: lines of a table, or a screenful."""
        raise NotImplementedError

    def __repr__(self) -> str:
        from .text import text

        return text(self.document())

    def _repr_html_(self) -> str:
        from .html import fragment

        return fragment(self.document())


class Shown(Printed):
    """Base of results; `background` and `sheet` are their own."""

    def background(self) -> Background:
        """What a report says beside the document."""
        raise NotImplementedError

    def sheet(self, order: str = "given", columns: Sequence[str] | None = None) -> Sheet:
        """What a picture of the values shows."""
        raise UsageError("this result has no values to draw.")

    def plot(
        self, path: str | Path | None = None, *, order: str = "given", columns: Sequence[str] | None = None
    ) -> Any:
        """A matplotlib figure of the values with their 95% intervals, written to a file where one is named.

        path: .svg, .png or .pdf (which has pages where there are many columns). order: "given", or by "value", the
        largest first. columns: those to show; else all, up to 1000.
        """
        from .plots.rendering import check_format
        from .plots.strips import sheet_plot

        if path is not None:
            check_format(path)
        return sheet_plot(self.sheet(order, columns), path)

    def report(self, path: str | Path, *, ledger: Any = None, dataset: str | None = None) -> None:
        """Write a report to a file, atomically: one page of HTML that needs nothing else, for readers and for paper.

        ledger, dataset: where the release was charged, to state the balance.
        """
        from .html import write_report

        write_report(self, path, ledger=ledger, dataset=dataset)
