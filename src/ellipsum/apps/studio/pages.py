"""The pages of the studio, from templates that escape everything; nothing but schema, plans and releases goes in."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ...errors import shown
from ...version import VERSION
from .asks import command_line, python_text, typed
from .combined import can_combine, combine, combines
from .downloads import DOWNLOADS
from .forms import Filled, sentence
from .jobs import Job
from .pictures import panels
from .security import ROOT
from .workspace import Desk, Released, Studio

_MOST_LINES = 2000
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
    return render(
        "release.html",
        one=one,
        release=release,
        document=release.document(_MOST_LINES),
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
