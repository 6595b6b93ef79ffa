"""What the command line prints: JSON alone on standard output, everything else for people.

Nothing here may show a number read from the data: only plans and releases come in.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from ...api import plan as make_plan
from ...display.texts import (
    HINT,
    INSECURE,
    covers,
    guarantee,
    missing_words,
    release_entries,
    rows_lines,
)
from ...errors import visible
from ...releases import group_texts
from ...releases.description import Description
from ...releases.description_texts import HEADINGS as DESCRIBED
from ...releases.description_texts import correlation_lines, described_columns, facts_of
from ...releases.group_release import GroupRelease
from ...releases.release import Release
from ...rows import Rows
from ...util.atomic_files import Kept, write_atomically
from ...util.interrupts import check_interrupted

_SHOWN = 50
_FEW = 12  # columns of a matrix
_WIDE = 200  # letters of a line where no terminal has a say
_EXTRA = ("rows", "note")
_HEADINGS = {
    "name": "column",
    "value": "value",
    "error": "error std",
    "interval": "95% interval",
    "rows": "rows with it",
    "note": "note",
}
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
        print(str(made).replace(HINT, "(--statistic mean plans a mean)"))


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


class Desk:
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

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def announce(self, rows: Rows, terms: str) -> None:
        """What is known before people's rows are brought together; the forecast needs their number."""
        lines = [
            f"private {self._what} of {visible(str(rows))}",
            f"  guarantee       {terms}",
            "  the forecast follows once people's rows are brought together",
        ]
        errors.print("\n".join(lines), markup=False, soft_wrap=True)

    def approve(self, made: Any) -> None:
        """The forecast, and a question before a budget is spent on noise; without a terminal the answer is no."""
        import typer

        self.plan = made
        self._stop()
        self._begin = self._told
        text = str(made).replace(f" {HINT}", "")
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


def release(made: Release | GroupRelease, as_json: bool, output: Path | None, magnitude: Any = None) -> None:
    """A release for whoever asked for it; magnitude: what was stated of Unknown rows."""
    if output is not None:
        made.save(output)
    if as_json:
        print(made.to_json(), flush=True)
    elif isinstance(made, Description):
        _print_description(made)
    elif isinstance(made, GroupRelease):
        _print_groups(made)
    else:
        _print_release(made, magnitude)
    say_if_stored(made)
    for text in made.warnings:
        errors.print(f"warning: {visible(text)}", markup=False, soft_wrap=True)


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


def _print_groups(made: GroupRelease) -> None:
    table = Table(title=f"private {group_texts.words_of(made.statistic)} of {len(made.keys)} groups")
    for place, heading in enumerate(group_texts.heads(made)):
        table.add_column(heading, justify="left" if place < len(made.by) else "right")
    for line in group_texts.lines(made):
        table.add_row(*line)
    console = _console()
    console.print(table)
    for fact in group_texts.facts(made):
        console.print(fact, soft_wrap=True)


def _console() -> Console:
    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else _WIDE)


def _print_release(made: Release, magnitude: Any) -> None:
    entries = release_entries(made, _SHOWN, magnitude)
    table = Table(title=f"private {made.statistic}")
    shown = ["name", "value", "error", "interval"] + [name for name in _EXTRA if any(getattr(e, name) for e in entries)]
    for name in shown:
        table.add_column(_HEADINGS[name], justify="left" if name in ("name", "note") else "right")
    for entry in entries:
        table.add_row(*(getattr(entry, name) for name in shown))
    _print_table(made, table, [*rows_lines(made), f"missing entries: {missing_words(made.plan)}", covers(made)])


def _print_description(made: Description) -> None:
    table = Table(title="private count, mean and std")
    for name in DESCRIBED:
        table.add_column(name, justify="left" if name == "column" else "right")
    for column in described_columns(made, _SHOWN):
        table.add_row(*astuple(column))
    _print_table(made, table, facts_of(made), correlation_lines(made, _FEW))


def _print_table(made: Release, table: Table, facts: Sequence[str], lines: Sequence[Sequence[str]] = ()) -> None:
    """A table of columns, perhaps one of lines, what holds for all of them, and the guarantee."""
    console = _console()
    console.print(table)
    if made.value.size > _SHOWN:
        console.print(f"... {made.value.size - _SHOWN} more columns: use --json or --output to see all")
    if lines:
        matrix = Table(*lines[0])
        for line in lines[1:]:
            matrix.add_row(*line)
        console.print(matrix)
    for fact in [*facts, guarantee(made.privacy, made.stated), *([] if made.secure else [INSECURE])]:
        console.print(fact, soft_wrap=True)
