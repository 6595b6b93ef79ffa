"""What every published result can do: be drawn, and be reported on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError

if TYPE_CHECKING:
    from .plots.strips import Sheet
    from .subject import Subject


class Shown:
    """Base of results; `subject` and `sheet` are their own."""

    def subject(self) -> Subject:
        """The facts that a report states."""
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
