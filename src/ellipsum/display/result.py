"""The base of results, which can be printed, drawn and reported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..suggestions import NamesOfToday
from .document import Background, Document

if TYPE_CHECKING:
    from .plots.strips import Sheet


class Printed(NamesOfToday):
    """Base of printed objects. Text and HTML come from `document`."""

    def document(self, most: int | None = None) -> Document:
        """The document of this object; most: the number of table lines, by default a screenful."""
        raise NotImplementedError

    def __repr__(self) -> str:
        from .document import text

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
        """The contents of a picture of the values."""
        raise UsageError("This result has no values to draw.")

    def plot(
        self, path: str | Path | None = None, *, order: str = "given", columns: Sequence[str] | None = None
    ) -> Any:
        """A matplotlib figure of the values with their 95% intervals, written to a file where one is named.

        path: .svg, .png or .pdf (which has pages where there are many columns). order: "given", or by "value", the
        largest first. columns: those to show; else all, up to 1000.
        """
        from .plots.drawing import check_format
        from .plots.strips import sheet_plot

        if path is not None:
            check_format(path)
        return sheet_plot(self.sheet(order, columns), path)

    def report(self, path: str | Path, *, ledger: Any = None) -> None:
        """Write a report to a file, atomically: one page of HTML that needs nothing else, for readers and for paper.

        ledger: the account that was charged, `Ledger(address).dataset(name)`, to print its balance.
        """
        from .html import write_report

        write_report(self, path, ledger=ledger)
