"""The pages of the studio, from templates that escape everything; nothing but schema, plans and releases goes in."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ...display.document import Document
from ...display.html import html
from ...errors import shown
from ...releases.description import STATED, Description
from ...releases.group_release import GroupRelease
from ...version import VERSION
from .asks import command_line, command_words, python_text, typed
from .combined import can_combine, combine, combines
from .forms import Filled, sentence
from .jobs import Job
from .pictures import panels
from .security import ROOT
from .workspace import Desk, Released, Studio

_MOST_LINES = 2000
_MOST_LEADS = 4
_LABELS = {
    "epsilon": "Epsilon",
    "delta": "Delta",
    "error": "Wanted error",
    "radius": "Radius",
    "center": "Center",
    "magnitude": "Magnitude",
    "n": "Number of rows",
    "privacy_id": "Person",
    "max_rows": "Rows of a person",
    "by": "Groups",
    "keys": "List of groups",
    "max_groups": "Groups of a person",
    "groups": "Expected groups",
    "fill": "Missing entries",
    "ledger": "Ledger",
    "dataset": "Data set",
}


@cache
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader("ellipsum.apps.studio"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    made.globals.update(version=VERSION, shown=shown, typed=typed, sentence=sentence, root=ROOT.get)
    return made


def render(name: str, **context: Any) -> str:
    """A page."""
    text: str = _templates().get_template(name).render(**context)
    return text


def desk_page(
    desk: Desk, filled: Filled, csrf: str, form: str, errors: dict[str, str], notice: str = "", ledger: str = ""
) -> str:
    """The form of a table."""
    known = {"ledger": ledger} if "ledger" not in filled.values else {}
    filled = Filled({**filled.values, **known}, filled.used)
    context = {"desk": desk, "filled": filled, "csrf": csrf, "form": form, "errors": errors, "notice": notice}
    names = [(column.name, shown(column.name)) for column in desk.schema]
    return render("desk.html", **context, summary=_summary(errors, desk), names=names)


def _summary(errors: dict[str, str], desk: Desk) -> list[tuple[str, str]]:
    """Every error with the field that it links to, and the name of that field or column before it."""
    lines = []
    for name, text in errors.items():
        end, _, place = name.partition("-")
        column = shown(desk.schema[int(place)].name) if end in ("a", "b") and place.isdigit() else ""
        label = column or _LABELS.get(name, "")
        lines.append((name or "release", f"{label}: {text}" if label else text))
    return lines


def job_page(job: Job, desk: Desk | None, csrf: str) -> str:
    return render("job.html", job=job, desk=desk, csrf=csrf)


def release_page(studio: Studio, one: Released, csrf: str, form: str) -> str:
    """A release: its table, pictures, what it guarantees, how to make it again, and all of its kind combined."""
    release = one.release
    alike = studio.alike(one)
    several = [other.release for other in alike]
    document = release.document(_MOST_LINES)
    return render(
        "release.html",
        one=one,
        release=release,
        document=document,
        leads=_leads(document),
        panels=[(panel.title, Markup(panel.svg), panel.rest) for panel in panels(release)],  # drawn here, escaped there
        warnings=list(dict.fromkeys([*release.warnings, *one.job.warnings])),
        command=command_line(one.ask, one.job.data, one.job.accepted),
        python=python_text(one.ask, one.job.data),
        downloads=[(file, title) for file, (title, _, _) in DOWNLOADS.items()],
        combined=combine(several) if can_combine(several) else None,
        combines=combines(release),
        alike=alike,
        csrf=csrf,
        form=form,
    )


def _leads(document: Document) -> list[tuple[str, str, str]]:
    """The estimates that the page begins with, where there are few: column, estimate, interval."""
    table = document.tables[0]
    if len(table.lines) > _MOST_LEADS or not {"estimate", "95% CI"} <= set(table.heads):
        return []
    value, span = table.heads.index("estimate"), table.heads.index("95% CI")
    return [(line[0], line[value], line[span]) for line in table.lines]


# Downloads -------------------------------------------------------------------------------------------


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
