"""The base of results: they can be printed, drawn and reported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..suggestions import NamesOfToday
from .document import Background, Document

if TYPE_CHECKING:
    from ..ledger import DatasetAccount
    from .plots.strips import Sheet


class Printed(NamesOfToday):
    """Base of printed objects. Their text and HTML are made from `document`."""

    def document(self, most: int | None = None) -> Document:
        """The document of this object. most: the number of table lines; default: as many as fit on a screen."""
        raise NotImplementedError

    def __repr__(self) -> str:
        from .document import text

        return text(self.document())

    def _repr_html_(self) -> str:
        from .html import fragment

        return fragment(self.document())


class Shown(Printed):
    """Base of results. Each kind defines `background` and `sheet`."""

    def background(self) -> Background:
        """Facts that a report adds to the document."""
        raise NotImplementedError

    def sheet(self, order: str = "given", columns: Sequence[str] | None = None) -> Sheet:
        """The contents of a figure of the values."""
        raise UsageError("This result has no values to draw.")

    def plot(
        self, path: str | Path | None = None, *, order: str = "given", columns: Sequence[str] | None = None
    ) -> Any:
        """A matplotlib figure of the values with their 95% intervals, written to a file if `path` is given.

        path: file to write, .svg, .png or .pdf (with pages for many columns). order: "given", or "value" with the
        largest first. columns: those to show; default: all, up to 1000.
        """
        from .plots.drawing import check_format
        from .plots.strips import sheet_plot

        if path is not None:
            check_format(path)
        return sheet_plot(self.sheet(order, columns), path)

    def report(self, path: str | Path, *, ledger: DatasetAccount | None = None) -> None:
        """Write a report to a file, atomically: one page of HTML without external files, to read or to print.

        ledger: the account that was charged, `Ledger(address).dataset(name)`; the report states its balance.
        """
        from .html import write_report

        write_report(self, path, ledger=ledger)
