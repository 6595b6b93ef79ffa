"""What the command line prints: JSON alone on standard output, everything else for people.

Nothing here may show a number read from the data: only plans and releases come in.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ...api import plan as make_plan
from ...display.document import Document
from ...errors import visible
from ...releases.group_release import GroupRelease
from ...releases.release import Release
from ...rows import Rows
from ...util.atomic_files import Kept, write_atomically
from ...util.interrupts import check_interrupted

_SHOWN = 50
_WIDE = 200  # letters of a line where no terminal has a say
_NOBODY_TO_ASK = (
    "the forecast above speaks against this release, and there is no terminal to ask whether to go on. "
    "Nothing was spent; --yes goes on."
)
_STORED = "This is the release that the ledger stored under this key. Nothing was spent."
errors = Console(stderr=True, highlight=False, emoji=False)


def plan(made: Any, as_json: bool) -> None:
    if as_json:
        print(made.to_json())
    else:
        print(made)


def compare_shapes(rows: Rows, terms: Mapping[str, Any]) -> None:
    """Every shape and radius rule for normal rows, side by side: root mean square errors."""
    table = Table(title="root mean square error of all coordinates together")
    for heading in ("shape", "clip", "radius", "noise", "clipping", "total"):
        table.add_column(heading, justify="left" if heading in ("shape", "clip") else "right")
    for shape in ("ball", "closed_form", "optimal"):
        for clip in ("quantile", "optimal"):
            made: Any = make_plan(rows, shape=shape, clip=clip, **terms)
            errors_squared = (made.noise_error, made.clipping_error, made.expected_squared_error)
            cells = ["?" if e is None else f"{np.sqrt(e):.5g}" for e in errors_squared]
            table.add_row(shape, clip, f"{made.clip_radius:.4g}", *cells)
    Console(highlight=False).print(table)


def write_plan(made: Any, path: Path | None) -> None:
    if path is not None:
        write_atomically(path, made.to_json() + "\n")


class ProgressConsole:
    """Where a person sits: shown the plan before any value is read, asked where it is doubtful, told how far it is."""

    def __init__(self, what: str, yes: bool) -> None:
        self._what = what
        self._yes = yes
        self._bar: Any = None
        self._told = 0.0
        self._begin = 0.0
        """What was done, as a fraction of everything, when the plan was approved."""
        self.plan: Any = None
        """The plan that was approved."""

    def __enter__(self) -> ProgressConsole:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def announce(self, rows: Rows, terms: str) -> None:
        """What is known before people's rows are brought together; the forecast needs their number."""
        lines = [
            f"private {self._what} of {visible(str(rows))}",
            f"  Privacy  {terms}",
            "  the forecast follows once people's rows are brought together",
        ]
        errors.print("\n".join(lines), markup=False, soft_wrap=True)

    def approve(self, made: Any) -> None:
        """The forecast, and a question before a budget is spent on noise; without a terminal the answer is no."""
        import typer

        self.plan = made
        self._stop()
        self._begin = self._told
        text = str(made)
        errors.print(text, markup=False, soft_wrap=True)
        doubt = made.doubt
        if doubt and doubt not in text:
            errors.print(f"warning: {doubt}", markup=False, soft_wrap=True)
        if doubt is None or self._yes:
            return
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            errors.print(f"error: {_NOBODY_TO_ASK}", markup=False, soft_wrap=True)
            raise typer.Exit(1)
        if not typer.confirm("Spend the budget all the same?", err=True):
            errors.print("Nothing was spent.")
            raise typer.Exit(1)

    def progress(self, fraction: float) -> None:
        """A bar with the time left on a terminal, one that only swings while nothing may be told; silence elsewhere."""
        check_interrupted()
        self._told = fraction
        if not errors.is_terminal:
            return
        if self._bar is None:
            self._bar, self._task = _bar(f"private {self._what}")
        done = self.done(fraction)
        if done > 0:
            self._bar.update(self._task, total=1.0, completed=done)

    def done(self, fraction: float) -> float:
        """The part of the work since the plan was approved."""
        return min(max((fraction - self._begin) / (1 - self._begin), 0.0), 1.0) if self._begin < 1 else 1.0

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _bar(what: str) -> tuple[Any, Any]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=errors, transient=True)
    bar.start()
    return bar, bar.add_task(what, total=None)


@contextmanager
def stages() -> Iterator[Callable[[str, float], None]]:
    """A bar for each named stage on a terminal, silence elsewhere."""
    if not errors.is_terminal:
        yield lambda name, fraction: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=errors) as bar:
        tasks: dict[str, Any] = {}

        def advance(name: str, fraction: float) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=1.0)
            bar.update(tasks[name], completed=fraction)

        yield advance


def release(made: Release | GroupRelease, as_json: bool, output: Path | None) -> None:
    """A release for whoever asked for it."""
    if output is not None:
        made.save(output)
    if as_json:
        print(made.to_json(), flush=True)
    else:
        print_document(made.document(_SHOWN))
    say_if_stored(made)
    for text in made.warnings:
        errors.print(f"warning: {visible(text)}", markup=False, soft_wrap=True)


def print_document(document: Document) -> None:
    """A document with tables as a terminal draws them; warnings are for standard error."""
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
    for name, words in document.facts:
        console.print(f"{name}: {words}" if name else words, soft_wrap=True)


def say_if_stored(made: Kept) -> None:
    if made.stored:
        errors.print(_STORED, soft_wrap=True)


def pictures(made: Any, given: Mapping[str, Any]) -> None:
    """The picture and the report of what was printed already, where they are asked for."""
    if given["plot"] is not None:
        made.plot(given["plot"])
    if given.get("report") is not None:
        from ...display.html import write_report

        charged = {name: given[name] for name in ("ledger", "dataset")}
        write_report(made, given["report"], command=["ellipsum", *sys.argv[1:]], **charged)
