"""The web application: every address of the studio, and what answers there."""

from __future__ import annotations

import os
from collections.abc import Callable

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException as PlainHTTPException

from ... import EllipsumError, UsageError
from ...plans.pictures import error_picture
from ...request.documentation import LEDGER
from . import pages, panels
from .forms import Filled, Reader, about, cells, sentence
from .jobs import Job
from .orders import Order
from .pages import DOWNLOADS
from .security import ENTER_PATH, UPLOAD_PATH, WRONG_FORM, Csrf, Form, Gate, Guard, Posted, TheStudio, is_encodable, to
from .workspace import Desk, Released, Studio, short_name

_USED = "This form was used already. Check it, and press Release again if you want another one."
_STALE = "This form is not from this run of the studio. Check it, and press Release again."
_NOT_THERE = "There is nothing at this address. The studio forgets what it had when it ends."
_NO_ROWS = "Type the number of rows."
_FAILED = "This could not be done."


def _desk(studio: Studio, number: str) -> Desk:
    if number not in studio.desks:
        raise HTTPException(404, _NOT_THERE)
    return studio.desks[number]


def _job(studio: Studio, number: str) -> Job:
    if number not in studio.jobs:
        raise HTTPException(404, _NOT_THERE)
    return studio.jobs[number]


def _find_release(studio: Studio, number: str) -> Released:
    released = studio.result(studio.jobs[number]) if number in studio.jobs else None
    if released is None:
        raise HTTPException(404, _NOT_THERE)
    return released


# Coming in -----------------------------------------------------------------------------------------------


async def enter(request: Request) -> Response:
    """Exchange the start-up token for a cookie."""
    guard: Guard = request.app.state.guard
    fields = await request.form(max_files=0, max_fields=2)
    token = str(fields.get("token", ""))
    if not is_encodable(token):
        raise HTTPException(400, WRONG_FORM)
    session = guard.enter(token)
    if session is None:
        return HTMLResponse(pages.render("enter.html", wrong=True), 403)
    answer = to("/")
    answer.set_cookie(guard.cookie, session, httponly=True, samesite="strict", path=f"{guard.root}/")
    return answer


def home(studio: TheStudio) -> Response:
    return to("/open" if studio.first is None else f"/desk/{studio.first}")


# Opening a table --------------------------------------------------------------------------------


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
    name, content = form.file.filename, form.file.file
    return _try_open(csrf, form, "file", lambda: studio.open_upload(name, content, bool(form["header_upload"])))


def open_database(studio: TheStudio, csrf: Csrf, form: Posted) -> Response:
    if not form["database"]:
        return _open_page(csrf, form, {"database": "Type the address of a database."})
    opener = lambda: studio.open_database(form["database"], form["query"], form["table"])  # noqa: E731
    return _try_open(csrf, form, "database", opener)


def open_names(studio: TheStudio, csrf: Csrf, form: Posted) -> Response:
    names = [cell.strip() for line in form["names"].splitlines() for cell in cells(line)]
    return _try_open(csrf, form, "names", lambda: studio.open_names([name for name in names if name]))


def open_demo(studio: TheStudio, form: Posted) -> Response:
    return to(f"/desk/{studio.open_demo().number}")


# A table, its form and its forecast -----------------------------------------------------------------------


def _form_page(
    studio: Studio, csrf: str, desk: Desk, filled: Filled, errors: dict[str, str], notice: str = ""
) -> Response:
    ledger = os.environ.get(LEDGER, "")
    page = pages.desk_page(desk, filled, csrf, studio.new_form(), errors, notice, ledger)
    return HTMLResponse(page, 422 if errors or notice else 200)


def desk_page(number: str, studio: TheStudio, csrf: Csrf) -> Response:
    desk = _desk(studio, number)
    return _form_page(studio, csrf, desk, desk.start, {})


def forecast(number: str, studio: TheStudio, form: Posted) -> Response:
    """The forecast of the form as it stands, or one line about what is missing."""
    desk = _desk(studio, number)
    reader = Reader(form.filled, desk.schema)
    request = reader.request(needs_budget=False)
    guess, delta, target = reader.guess(), reader.number("delta"), reader.number("error")
    if request is None or reader.errors:
        return JSONResponse({"hint": next(iter(reader.errors.values()))})
    if delta is None:
        return JSONResponse({"hint": "Type delta to see the forecast."})
    try:
        n = desk.public_rows(request, guess)
        if n is None and request.neighbors == "replace":
            counting = not desk.plans_only and request.people is None
            return JSONResponse({"hint": "Counting the rows ..." if counting else _NO_ROWS, "again": counting})
        if form["goal"] == "error" and target is not None:
            plan = panels.plan_for_error(request, n, delta, target, _place(form))
        elif request.budget is not None:
            plan = panels.plan_of(request, n)
        else:
            return JSONResponse({"n": n})
        found = panels.forecast(plan, _place(form))
        return JSONResponse({**found, "n": n, "picture": f"/forecast/{studio.keep_plan(plan)}"})
    except EllipsumError as error:
        field, text = about(error)
        return JSONResponse({"hint": text, "field": field})


def _place(form: Form) -> int:
    """Position of the ticked column whose error is shown; by default the first."""
    ticked, text = sorted(form.used), form["error_of"]
    return ticked.index(int(text)) if text.isdigit() and int(text) in form.used else 0


def forecast_picture(name: str, studio: TheStudio) -> Response:
    """The error against epsilon."""
    return _picture(error_picture(studio.plans[name]) if name in studio.plans else None)


def _picture(drawn: bytes | None) -> Response:
    if drawn is None:
        raise HTTPException(404, _NOT_THERE)
    return Response(drawn, media_type="image/svg+xml")


def plan(number: str, studio: TheStudio, csrf: Csrf, form: Posted) -> Response:
    """The plan as a file: every public number, and no data."""
    desk = _desk(studio, number)
    reader = Reader(form.filled, desk.schema)
    request = reader.request()
    if request is None:
        return _form_page(studio, csrf, desk, form.filled, reader.errors)
    try:
        text = panels.plan_of(request, desk.public_rows(request, reader.guess())).to_json()
    except EllipsumError as error:
        return _form_page(studio, csrf, desk, form.filled, dict([about(error)]))
    return _attachment("plan.json", "application/json", text + "\n")


def _attachment(name: str, kind: str, text: str) -> Response:
    return Response(text, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'})


# Releasing --------------------------------------------------------------------------------------------------


def release(number: str, studio: TheStudio, csrf: Csrf, form: Posted) -> Response:
    """Start a release, once for each form."""
    desk = _desk(studio, number)
    if desk.plans_only:
        raise HTTPException(404, _NOT_THERE)
    reader = Reader(form.filled, desk.schema)
    request, (ledger, dataset) = reader.request(), reader.account()
    if request is None or reader.errors:
        return _form_page(studio, csrf, desk, form.filled, reader.errors)
    order = Order(request, desk.data, ledger, dataset, bool(form["accepted"]))
    return _begun(studio, csrf, desk, form, Job(short_name(), desk.number, order, form.filled))


def _begun(studio: Studio, csrf: str, desk: Desk, form: Form, job: Job) -> Response:
    is_known = studio.knows(form["form"])
    try:
        begun = studio.begin(form["form"], job)
    except UsageError as error:
        return _form_page(studio, csrf, desk, job.fields, {"": str(error)})
    if begun is None:
        return _form_page(studio, csrf, desk, job.fields, {}, _USED if is_known else _STALE)
    return to(f"/job/{begun.number}")


def job_page(number: str, studio: TheStudio, csrf: Csrf) -> Response:
    job = _job(studio, number)
    if job.state == "released":
        return to(f"/release/{number}")
    return HTMLResponse(pages.job_page(job, studio.desks.get(job.desk), csrf))


def job_state(number: str, studio: TheStudio) -> Response:
    job = _job(studio, number)
    return JSONResponse({"state": job.state, "part": job.part})


def cancel(number: str, studio: TheStudio, form: Posted) -> Response:
    job = _job(studio, number)
    studio.workers.cancel(job)
    return to(f"/job/{number}")


def edit(number: str, studio: TheStudio, csrf: Csrf) -> Response:
    """The form of an earlier request, to be changed."""
    job = _job(studio, number)
    desk = _desk(studio, job.desk)
    errors = dict([about(UsageError(job.text))]) if job.kind == "usage" else {}
    errors |= {"accepted": job.text} if job.kind == "doubt" else {}
    return _form_page(studio, csrf, desk, job.fields, errors)


def release_page(number: str, studio: TheStudio, csrf: Csrf) -> Response:
    one = _find_release(studio, number)
    return HTMLResponse(pages.release_page(one, csrf, studio.new_form()))


def again(number: str, studio: TheStudio, csrf: Csrf, form: Posted) -> Response:
    """The same request once more, which is charged once more."""
    one = _find_release(studio, number)
    desk = _desk(studio, one.job.desk)
    return _begun(studio, csrf, desk, form, Job(short_name(), desk.number, one.order, one.job.fields))


def release_picture(number: str, place: int, studio: TheStudio) -> Response:
    """The values with their intervals."""
    release = _find_release(studio, number).release
    return _picture(pages.draw(release, place) if 0 <= place < pages.count_pictures(release) else None)


def download(number: str, file: str, studio: TheStudio) -> Response:
    one = _find_release(studio, number)
    if file not in DOWNLOADS:
        raise HTTPException(404, _NOT_THERE)
    _, kind, write = DOWNLOADS[file]
    return _attachment(file, kind, write(one))


def history(studio: TheStudio) -> Response:
    return HTMLResponse(pages.render("history.html", releases=studio.history(), desks=studio.desks))


# The ledger -------------------------------------------------------------------------------------------------


def ledger_balance(form: Posted) -> Response:
    try:
        if not form["dataset"]:
            return JSONResponse({"datasets": panels.data_sets(form["ledger"])})
        return JSONResponse(panels.balance(form["ledger"], form["dataset"]))
    except EllipsumError as error:
        return JSONResponse({"problem": sentence(str(error))})


def ledger_open(form: Posted) -> Response:
    try:
        whole = form["whole_epsilon"], form["whole_delta"]
        return JSONResponse(panels.open_budget(form["ledger"], form["dataset"], *whole))
    except EllipsumError as error:
        return JSONResponse({"problem": sentence(str(error))})


# All together -----------------------------------------------------------------------------------------------

_GET: dict[str, Callable[..., object]] = {
    "/": home,
    "/open": open_page,
    "/desk/{number}": desk_page,
    "/job/{number}": job_page,
    "/job/{number}/state": job_state,
    "/job/{number}/edit": edit,
    "/forecast/{name}": forecast_picture,
    "/release/{number}": release_page,
    "/release/{number}/picture/{place}": release_picture,
    "/release/{number}/{file}": download,
    "/history": history,
}
_POST: dict[str, Callable[..., object]] = {
    ENTER_PATH: enter,
    "/open/file": open_file,
    UPLOAD_PATH: open_upload,
    "/open/database": open_database,
    "/open/names": open_names,
    "/open/demo": open_demo,
    "/desk/{number}/forecast": forecast,
    "/desk/{number}/plan": plan,
    "/desk/{number}/release": release,
    "/job/{number}/cancel": cancel,
    "/release/{number}/again": again,
    "/ledger/balance": ledger_balance,
    "/ledger/open": ledger_open,
}


def _problem(_: Request, error: Exception) -> Response:
    """A page with a fixed text: the text of an error is never passed on."""
    status = error.status_code if isinstance(error, PlainHTTPException) else 500
    text = str(error.detail) if isinstance(error, HTTPException) else _NOT_THERE if status == 404 else _FAILED
    return HTMLResponse(pages.render("problem.html", text=text), status)


def make_app(studio: Studio, guard: Guard) -> Gate:
    """The application behind its gate."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    for kind in (PlainHTTPException, Exception):
        app.add_exception_handler(kind, _problem)
    app.state.studio = studio
    app.state.guard = guard
    for methods, table in ((["GET"], _GET), (["POST"], _POST)):
        for path, answer in table.items():
            app.add_api_route(path, answer, methods=methods, response_model=None)
    app.mount("/static", StaticFiles(packages=[("ellipsum.apps.studio", "static")]))
    return Gate(app, guard, lambda: pages.render("enter.html", wrong=False).encode())
