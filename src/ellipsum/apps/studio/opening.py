"""Opening a table: a file, an upload, a database, names alone, or the demo."""

from __future__ import annotations

from collections.abc import Callable

from fastapi.responses import HTMLResponse, Response

from ...errors import EllipsumError
from . import pages
from .forms import cells
from .posting import Csrf, Form, Posted, TheStudio, to
from .workspace import Desk


def open_page(csrf: Csrf) -> Response:
    return _open_page(csrf, Form({}), {})


def _open_page(csrf: str, form: Form, errors: dict[str, str]) -> Response:
    page = pages.render("open.html", csrf=csrf, values=form.values, errors=errors)
    return HTMLResponse(page, 422 if errors else 200)


def _try_open(csrf: str, form: Form, field: str, make: Callable[[], Desk]) -> Response:
    try:
        return to(f"/desk/{make().number}")
    except EllipsumError as error:
        return _open_page(csrf, form, {field: str(error)})


def open_file(studio: TheStudio, csrf: Csrf, form: Posted) -> Response:
    if not form["path"]:
        return _open_page(csrf, form, {"path": "Type the path of a file."})
    return _try_open(csrf, form, "path", lambda: studio.open_path(form["path"], bool(form["header"])))


def open_upload(studio: TheStudio, csrf: Csrf, form: Posted) -> Response:
    if form.file is None or not form.file.filename:
        return _open_page(csrf, form, {"file": "Choose a file."})
    file = form.file
    return _try_open(
        csrf, form, "file", lambda: studio.open_upload(file.filename, file.file, bool(form["header_upload"]))
    )


def open_database(studio: TheStudio, csrf: Csrf, form: Posted) -> Response:
    if not form["database"]:
        return _open_page(csrf, form, {"database": "Type the address of a database."})
    made = lambda: studio.open_database(form["database"], form["query"], form["table"])  # noqa: E731
    return _try_open(csrf, form, "database", made)


def open_names(studio: TheStudio, csrf: Csrf, form: Posted) -> Response:
    names = [cell.strip() for line in form["names"].splitlines() for cell in cells(line)]
    return _try_open(csrf, form, "names", lambda: studio.open_names([name for name in names if name]))


def open_demo(studio: TheStudio, form: Posted) -> Response:
    return to(f"/desk/{studio.open_demo().number}")
