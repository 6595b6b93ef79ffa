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

from ..api import plan as make_plan
from ..errors import shown
from ..files import write_atomically
from ..interrupts import check_interrupted
from ..release import Release
from ..rows import Rows
from ..texts import INSECURE, guarantee, number

_SHOWN = 50
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
            made = make_plan(rows, shape=shape, clip=clip, **terms)
            errors_squared = (made.noise_error, made.clipping_error, made.expected_squared_error)
            cells = ["?" if e is None else f"{np.sqrt(e):.5g}" for e in errors_squared]
            table.add_row(shape, clip, f"{made.clip_radius:.4g}", *cells)
    Console(highlight=False).print(table)


def write_plan(made: Any, path: Path | None) -> None:
    if path is not None:
        write_atomically(path, made.to_json() + "\n")


class Desk:
    """Where a person sits: shown the plan before any value is read, asked where it is doubtful, told how far it is."""

    def __init__(self, what: str, yes: bool) -> None:
        self._what = what
        self._yes = yes
        self._bar: Any = None
        self.plan: Any = None
        """The plan that was approved."""

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def approve(self, made: Any) -> None:
        """The forecast, and a question on a terminal before a budget is spent on noise."""
        import typer

        self.plan = made
        self._stop()
        errors.print(str(made), markup=False, soft_wrap=True)
        doubt = made.doubt
        if doubt and doubt not in str(made):
            errors.print(f"warning: {doubt}", markup=False, soft_wrap=True)
        if doubt is None or self._yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
            return
        if not typer.confirm("Spend the budget all the same?", err=True):
            raise typer.Exit(0)

    def progress(self, fraction: float) -> None:
        """A bar with the time left on a terminal, one that only swings while nothing may be told; silence elsewhere."""
        check_interrupted()
        if not errors.is_terminal:
            return
        if self._bar is None:
            self._bar, self._task = _bar(f"private {self._what}")
        if fraction > 0:
            self._bar.update(self._task, total=1.0, completed=fraction)

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


def release(made: Release, as_json: bool, output: Path | None) -> None:
    if output is not None:
        made.save(output)
    if as_json:
        print(made.to_json())
        return
    table = Table(title=f"private {made.statistic}")
    for heading in ("column", "value", "noise std", "95% interval of the noise"):
        table.add_column(heading, justify="left" if heading == "column" else "right")
    intervals = made.confidence_interval(0.95)
    stds = made.noise_std
    for j, name in list(enumerate(made.names()))[:_SHOWN]:
        low, high = intervals[j]
        table.add_row(shown(name), number(made.value[j], stds[j]), f"{stds[j]:.3g}", _span(low, high, stds[j]))
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(table)
    if made.value.size > _SHOWN:
        console.print(f"... {made.value.size - _SHOWN} more columns: use --json or --output to see all")
    if made.count is not None:
        console.print(f"noisy count: {made.count:.6g}")
    console.print(guarantee(made.privacy, made.stated), soft_wrap=True)
    if not made.secure:
        console.print(INSECURE)


def _span(low: float, high: float, std: float) -> str:
    return f"{number(low, std)} to {number(high, std)}"
