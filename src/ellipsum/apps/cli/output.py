"""The output of the command line: results on standard output, everything else on standard error.

Nothing here may show a number from the data: the input is plans and releases only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ...display.document import Document
from ...display.result import Shown
from ...display.wording import describe_neighbors, describe_size, describe_statistic, format_error
from ...errors import named, visible
from ...util.atomic_files import Kept
from ...util.interrupts import check_interrupted
from .options import DataOptions, name_options

if TYPE_CHECKING:
    from ... import People
    from ...api import AnyPlan

_SHOWN = 50
_FORECAST = 4  # The number of columns in the forecast line.
_WIDE = 200  # The number of characters per line without a terminal.
_NOBODY_TO_ASK = (
    "The expected error is too large to be useful (see above). No budget was spent. Add --yes to release anyway."
)
_STORED = "This is the release that the ledger stored for this request id. No budget was spent."
errors = Console(stderr=True, highlight=False, markup=False, emoji=False)


def print_line(text: str) -> None:
    """Print a line on standard error."""
    errors.print(visible(text), soft_wrap=True)


def print_warning(text: str) -> None:
    """Print a warning on standard error."""
    print_line(f"warning: {name_options(text)}")


class Result(Protocol):
    """A plan or a release."""

    def document(self, most: int | None = None) -> Document: ...
    def to_json(self) -> str: ...
    def plot(self, path: Path, /) -> object: ...


class Forecasted(Protocol):
    """A plan, or the forecast of a projection."""

    @property
    def warning(self) -> str | None: ...


class ReleaseConsole:
    """The dialog of a release: the forecast, a question if the expected error is large, and progress."""

    def __init__(self, statistic: str, options: DataOptions) -> None:
        self._label = "private bounds" if statistic == "learn" else f"private {statistic}"
        self._options = options
        self._bar: Progress | None = None
        self._done = self._begin = 0.0
        """The finished fraction of the work: now, and when the plan was approved."""

    def __enter__(self) -> ReleaseConsole:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def approve(self, plan: Forecasted, line: str | None = None) -> None:
        """Show the forecast, and ask before a budget is spent on a poor release; without a terminal the answer is no.

        line: the forecast in one line, which is shown instead of the plan unless --verbose is given.
        """
        self._stop()
        self._begin = self._done
        text = name_options(str(plan)) if line is None or self._options.verbose else line
        errors.print(text, soft_wrap=True)
        if plan.warning is None:
            return
        if plan.warning not in text:
            print_warning(plan.warning)
        if self._options.yes:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            print_line(f"error: {_NOBODY_TO_ASK}")
            raise typer.Exit(1)
        if not typer.confirm("Spend the budget anyway?", err=True):
            print_line("No budget was spent.")
            raise typer.Exit(1)

    def progress(self, fraction: float) -> None:
        """Draw a progress bar on a terminal, without a percentage while the share must stay private."""
        check_interrupted()
        self._done = fraction
        if not errors.is_terminal:
            return
        if self._bar is None:
            percent = TextColumn("{task.percentage:>3.0f}%")
            columns = TextColumn("{task.description}"), BarColumn(), percent, TimeRemainingColumn()
            self._bar = Progress(*columns, console=errors, transient=True)
            self._bar.start()
            self._task = self._bar.add_task(self._label, total=None)
        if (share := self.share(fraction)) > 0:
            self._bar.update(self._task, total=1.0, completed=share)

    def share(self, fraction: float) -> float:
        """The finished share of the work since the plan was approved."""
        return min(max((fraction - self._begin) / (1 - self._begin), 0.0), 1.0) if self._begin < 1 else 1.0

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def print_people(people: People | None, neighbors: str, requested: Mapping[str, float]) -> None:
    """Print the request before rows are grouped by person, since the forecast needs the number of people."""
    from ... import Privacy

    if people is None:
        return
    relation = describe_neighbors(Privacy(0.0, 0.0, neighbors, "person"))
    budget = _describe_budget(requested)
    print_line(f"Grouping rows by {named(people.privacy_id)}; the forecast follows. Requested: {budget}; {relation}.")


def forecast_line(plan: AnyPlan) -> str:
    """The expected error and the requested budget in one line; nothing has been charged yet."""
    groups = " in each group" if plan.request.groups is not None else ""
    head = f"{describe_statistic(plan)}, {describe_size(plan)}"
    return f"{head}: {describe_error(plan)}{groups}. Requested: {_describe_budget(plan.stated)}."


def _describe_budget(requested: Mapping[str, float]) -> str:
    return ", ".join(f"{name} = {value:g}" for name, value in requested.items())


def describe_error(plan: AnyPlan) -> str:
    """The expected error of the first columns."""
    from ... import QuantilePlan
    from ...learning.plan import LearningPlan

    if isinstance(plan, LearningPlan):
        error = plan.relative_error
        error_text = "" if error is None else f", expected error {error:.2g} standard deviations"
        return f"bounds are estimated first{error_text}"
    if plan.expected_error is None:
        return "no forecast without a guess of the number of rows"
    if isinstance(plan, QuantilePlan):
        return f"expected rank error {format_error(float(plan.expected_error.max()))} rows"
    names = plan.columns or tuple(f"x{j + 1}" for j in range(plan.d))
    pairs = zip(names[:_FORECAST], plan.expected_error.tolist(), strict=False)
    texts = [f"{visible(str(name))} {format_error(error)}" for name, error in pairs]
    return f"expected error {', '.join(texts)}{', ...' if len(names) > _FORECAST else ''}"


def print_result(result: Result, options: DataOptions) -> None:
    """Print a result on standard output, as JSON or as a document, and its warnings on standard error."""
    document = result.document(_SHOWN)
    if options.as_json:
        print(result.to_json(), flush=True)
    else:
        print_document(document)
    if isinstance(result, Kept) and result.stored:
        print_line(_STORED)
    for text in getattr(result, "warnings", document.warnings):  # The warnings of the plan were printed before.
        print_warning(text)


def print_document(document: Document) -> None:
    """Print a document with tables for a terminal, without its warnings."""
    width = None if sys.stdout.isatty() else _WIDE
    console = Console(highlight=False, markup=False, emoji=False, width=width)
    console.print(document.title, soft_wrap=True)
    for part in document.tables:
        table = Table(title=part.title or None)
        for place, head in enumerate(part.heads):
            table.add_column(head, justify="left" if place < part.names else "right")
        for line in part.lines:
            table.add_row(*line)
        console.print(table)
        if part.rest:
            console.print(f"{part.rest}: use --json or --output to see all", soft_wrap=True)
    for name, text in document.facts:
        console.print(name_options(f"{name}: {text}" if name else text), soft_wrap=True)


def draw(result: Result, options: DataOptions) -> None:
    """Write the picture and the report of a printed result, where the options name files for them."""
    if options.plot is not None:
        result.plot(options.plot)
    if options.report is not None and isinstance(result, Shown):
        from ...display.html import write_report

        command = ["ellipsum", *sys.argv[1:]]
        write_report(result, options.report, ledger=options.ledger, dataset=options.dataset, command=command)


@contextmanager
def stages() -> Iterator[Callable[[str, float], None]]:
    """Show a progress bar for each stage, on a terminal only."""
    if not errors.is_terminal:
        yield lambda name, fraction: None
        return
    with Progress(TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=errors) as bar:
        tasks: dict[str, object] = {}

        def advance(name: str, fraction: float) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=1.0)
            bar.update(tasks[name], completed=fraction)  # type: ignore[arg-type]

        yield advance
