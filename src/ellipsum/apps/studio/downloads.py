"""What can be taken home of a release: its JSON, a table, a report, a notebook, the command and the Python text."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

from ...display.html import html
from ...releases.description import STATED, Description
from ...releases.group_release import GroupRelease
from ...version import VERSION
from .asks import command_line, command_words, python_text
from .workspace import Released

_SPENDS = "Running this makes a new release, which spends the budget again."


def as_json(one: Released) -> str:
    return one.job.text + "\n"


def as_csv(one: Released) -> str:
    """A line for each column, or each group, with every digit."""
    release = one.release
    if isinstance(release, GroupRelease):
        return release.to_csv()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = _described(release) if isinstance(release, Description) else _valued(release)
    secure = {} if release.secure else {"secure": ["false"] * len(release.names())}
    table = {"column": release.names(), **columns, **secure}
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return text.getvalue()


def _valued(release: Any) -> dict[str, Any]:
    low, high = release.confidence_interval().T
    return _texts({"value": release.value, "noise_std": release.noise_std, "lower": low, "upper": high})


def _described(release: Description) -> dict[str, Any]:
    values = {"count": release.count, "mean": release.value, "std": release.std}
    table: dict[str, Any] = {}
    for name in STATED:
        low, high = release.confidence_interval(0.95, name).T
        table |= {name: values[name], f"{name}_lower": low, f"{name}_upper": high}
    return _texts(table)


def _texts(table: dict[str, Any]) -> dict[str, Any]:
    return {name: [repr(float(value)) for value in values] for name, values in table.items()}


def as_report(one: Released) -> str:
    """One page that stands by itself."""
    command = command_words(one.ask, one.job.data, one.job.accepted)
    return html(one.release, ledger=one.ask.ledger, dataset=one.ask.dataset, command=command)


def as_python(one: Released) -> str:
    return f"# {_SPENDS}\n{python_text(one.ask, one.job.data)}"


def as_command(one: Released) -> str:
    return f"# {_SPENDS}\n{command_line(one.ask, one.job.data, one.job.accepted)}\n"


def as_notebook(one: Released) -> str:
    """The release as it came, to be looked at, and the request that made it."""
    load = f"import ellipsum as es\n\nrelease = es.from_json({one.job.text!r})\nrelease"
    cells = [
        _cell("markdown", f"# Private {one.ask.statistic}\n\nThe release as it was published, by ellipsum {VERSION}."),
        _cell("code", load),
        _cell("code", "release.confidence_interval(0.95)"),
        _cell("markdown", f"The request that made it. {_SPENDS}"),
        _cell("raw", python_text(one.ask, one.job.data)),
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    for place, cell in enumerate(cells):
        cell["id"] = f"cell-{place}"
    return json.dumps(notebook, indent=1) + "\n"


def _cell(kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True)}
    return cell | ({"outputs": [], "execution_count": None} if kind == "code" else {})


DOWNLOADS: dict[str, tuple[str, str, Callable[[Released], str]]] = {
    "release.json": ("JSON", "application/json", as_json),
    "release.csv": ("CSV", "text/csv", as_csv),
    "report.html": ("Report", "text/html", as_report),
    "release.ipynb": ("Notebook", "application/x-ipynb+json", as_notebook),
    "release.sh": ("Command line", "text/x-shellscript", as_command),
    "release.py": ("Python", "text/x-python", as_python),
}
"""For each file: what it is called on the page, its type, and what writes it."""
