"""The pages of the studio. Templates escape everything, and get only schemas, plans and releases."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from ... import Description, DescriptionWithQuantiles, HistogramRelease, QuantileRelease, Release
from ...display.document import Document
from ...display.html import html
from ...display.plots.drawing import content, label
from ...display.plots.strips import ROWS, Sheet, Strip, sheet_figure
from ...errors import Floats, shown
from ...releases.base import StatisticRelease
from ...releases.documents import known_bounds
from ...releases.group_release import Tabular
from ...releases.pictures import own_scale
from ...version import VERSION
from .forms import Filled, sentence
from .jobs import Job
from .security import ROOT
from .workspace import Desk

_MOST_LINES = 2000
_MOST_LEADS = 4
_MOST_AXES, _MOST_PICTURES = 12, 4
_MARGIN = 1.5  # The margin beside an interval, in widths of the interval.
_LABELS = {
    "epsilon": "Epsilon",
    "delta": "Delta",
    "error": "Target error",
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
    "fill": "Missing values",
    "bins": "Number of bins",
    "ledger": "Ledger",
    "dataset": "Data set",
}


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("ellipsum.apps.studio"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.globals.update(version=VERSION, shown=shown, number="{:.12g}".format, sentence=sentence, root=ROOT.get)
    return environment


def render(name: str, **context: object) -> str:
    """A page."""
    text: str = _templates().get_template(name).render(**context)
    return text


def desk_page(
    desk: Desk, filled: Filled, csrf: str, form: str, errors: dict[str, str], notice: str = "", ledger: str = ""
) -> str:
    """The form of a table."""
    default = {"ledger": ledger} if "ledger" not in filled.values else {}
    filled = Filled({**filled.values, **default}, filled.used)
    context = {"desk": desk, "filled": filled, "csrf": csrf, "form": form, "errors": errors, "notice": notice}
    names = [(column.name, shown(column.name)) for column in desk.schema]
    return render("desk.html", **context, summary=_summary(errors, desk), names=names)


def _summary(errors: dict[str, str], desk: Desk) -> list[tuple[str, str]]:
    """Each error after the name of its field or column, with the field for a link."""
    lines = []
    for name, text in errors.items():
        end, _, place = name.partition("-")
        column = shown(desk.schema[int(place)].name) if end in ("a", "b", "c") and place.isdigit() else ""
        label = column or _LABELS.get(name, "")
        lines.append((name or "release", f"{label}: {text}" if label else text))
    return lines


def job_page(job: Job, desk: Desk | None, csrf: str) -> str:
    return render("job.html", job=job, desk=desk, csrf=csrf)


def release_page(job: Job, csrf: str, form: str) -> str:
    """The page of a release: estimates, pictures, table, downloads, and how to make it again."""
    document = job.release.document(_MOST_LINES)
    return render(
        "release.html",
        job=job,
        document=document,
        leads=_leads(document),
        pictures=range(count_pictures(job.release)) if document.tables[0].lines else (),
        warnings=list(dict.fromkeys([*job.release.warnings, *job.warnings])),
        recipe=job.order.recipe,
        downloads=[(file, title) for file, (title, _, _) in DOWNLOADS.items()],
        csrf=csrf,
        form=form,
    )


def _leads(document: Document) -> list[tuple[str, str, str]]:
    """The estimates at the top of the page, if there are few: column, estimate, interval."""
    table = document.tables[0]
    if len(table.lines) > _MOST_LEADS or not {"estimate", "95% CI"} <= set(table.heads):
        return []
    value, span = table.heads.index("estimate"), table.heads.index("95% CI")
    return [(line[0], line[value], line[span]) for line in table.lines]


# Pictures -----------------------------------------------------------------------------------------------


def count_pictures(release: StatisticRelease) -> int:
    """The number of pictures on a page."""
    return len(_parts(release))


def draw(release: StatisticRelease, place: int) -> bytes:
    """Draw a picture of a release as an SVG file, with the first rows only if there are many."""
    part, columns = _parts(release)[place]
    if isinstance(part, QuantileRelease):
        return content(part.plot(columns=columns), "svg")
    few = len(part.names()) <= _MOST_AXES
    if isinstance(part, Release) and few and own_scale(part) is not None:
        return content(sheet_figure(_zoomed_sheet(part)), "svg")
    sheet = part.sheet(columns=columns)
    strips = [strip.rows(slice(ROWS)) for strip in sheet.strips[:_MOST_PICTURES]]
    strips = [replace(strip, texts=[""] * len(strip.texts)) for strip in strips]  # The table has the numbers.
    labels = sheet.labels[:ROWS]
    if columns is not None:  # The title of each strip names the column, so labels do not repeat it.
        strips = [replace(strip, title=label(columns[0])) for strip in strips]
        labels = [text.removeprefix(f"{columns[0]}, ") for text in labels]
    sheet = replace(sheet, title="", notes=(), across=1, labels=labels, strips=strips)
    return content(sheet_figure(sheet), "svg")


def _parts(release: StatisticRelease) -> list[tuple[StatisticRelease, list[str] | None]]:
    """The pictures of a release: for histograms and quantiles one for each of the first columns."""
    if isinstance(release, DescriptionWithQuantiles):
        return [(release.moments, None), *_parts(release.quantile_release)]
    if isinstance(release, (HistogramRelease, QuantileRelease)):
        return [(release, [name]) for name in release.names()[:_MOST_PICTURES]]
    return [(release, None)]


def _zoomed_sheet(release: Release) -> Sheet:
    """A sheet with an axis for each column, which is narrow enough to show the interval."""
    parts = {"": (release.value, release.confidence_interval())}
    if isinstance(release, Description):
        parts = {"mean": parts[""], "std": (release.std, release.confidence_interval(0.95, "std"))}
    least, most = known_bounds(release)
    strips = []
    for j, name in enumerate(release.names()):
        for what, (values, spans) in parts.items():
            ends = (least[j], most[j]) if what != "std" else (0.0, np.inf)
            strips.append(_axis(f"{label(name)} {what}".strip(), float(values[j]), spans[j], *ends))
    return Sheet("", (), [""], strips, across=1)


def _axis(title: str, value: float, span: Floats, least: float, most: float) -> Strip:
    low, high = float(span[0]), float(span[1])
    margin = _MARGIN * (high - low) or 1.0
    limits = max(low - margin, least), min(high + margin, most)
    return Strip(title, "", np.array([value]), np.array([low]), np.array([high]), [""], limits)


# Downloads -------------------------------------------------------------------------------------------


_NO_COMMAND = "This request has no command: use the Python text."
_SPENDS = "Running this makes a new release, which spends the budget again."


def _write_csv(job: Job) -> str:
    """The release as CSV: a line for each column, bin, quantile or group, with every digit."""
    release = job.release
    if isinstance(release, Tabular):
        return release.to_csv()
    heads, lines = _csv_lines(release)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    insecure = [] if release.secure else ["false"]
    writer.writerow([*heads, *(["secure"] if insecure else [])])
    for line in lines:
        cells = [repr(float(cell)) if isinstance(cell, float) else cell for cell in line]
        writer.writerow([*cells, *insecure])
    return text.getvalue()


def _csv_lines(release: StatisticRelease) -> tuple[list[str], Iterable[Sequence[object]]]:
    """The heads and lines of the CSV file."""
    if isinstance(release, HistogramRelease):
        groups = release.plan.request.groups
        by = [] if groups is None else list(map(str, groups.by))
        heads = [*by, "column", "bin", "count", "lower", "upper", "share", "share_lower", "share_upper"]
        return heads, ([*key, name, bin_, *map(float, numbers)] for key, name, bin_, numbers in release.lines())
    names = release.names()
    if isinstance(release, QuantileRelease):
        heads = [*release.by, "column", "q", "value", "lower", "upper"]
        lines = release.lines()
        return heads, (
            [*key, names[j], q, value, *((None, None) if span is None else span)] for key, j, q, value, span in lines
        )
    low, high = release.confidence_interval().T
    table = {"value": release.value, "noise_std": release.noise_std, "lower": low, "upper": high}
    columns = [column.tolist() for column in table.values()]
    return ["column", *table], zip(names, *columns, strict=True)


def _write_report(job: Job) -> str:
    order = job.order
    command = shlex.split(order.recipe.command) or None
    return html(job.release, ledger=order.ledger, dataset=order.dataset, command=command)


DOWNLOADS: dict[str, tuple[str, str, Callable[[Job], str]]] = {
    "release.json": ("JSON", "application/json", lambda job: f"{job.text}\n"),
    "release.csv": ("CSV", "text/csv", _write_csv),
    "report.html": ("Report", "text/html", _write_report),
    "release.sh": (
        "Command line",
        "text/x-shellscript",
        lambda job: f"# {_SPENDS}\n{job.order.recipe.command or _NO_COMMAND}\n",
    ),
    "release.py": ("Python", "text/x-python", lambda job: f"# {_SPENDS}\n{job.order.recipe.python}"),
}
"""For each file: its title on the page, its media type, and the function that writes it."""
