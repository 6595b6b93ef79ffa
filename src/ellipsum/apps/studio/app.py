"""The web application: every address of the studio, and its function."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
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
from .security import ENTER_PATH, UPLOAD_PATH, WRONG_FORM, Csrf, Gate, Guard, Posted, TheStudio, is_encodable, to
from .workspace import Desk, Studio, short_name

_USED = "This form was used already. Check it, and press Release if you want another release."
_STALE = "This form is not from this run of the studio. Check it, and press Release."
_NOT_THERE = "There is nothing at this address. The studio forgets all tables and releases when it ends."
_NO_ROWS = "Type the number of rows."
_FAILED = "This could not be done."
_routes = APIRouter()
"""A function that answers POST takes `form` first, so that the token of the form is checked before anything else."""


def _find_desk(number: str, studio: TheStudio) -> Desk:
    if number not in studio.desks:
        raise HTTPException(404, _NOT_THERE)
    return studio.desks[number]


def _find_job(number: str, studio: TheStudio) -> Job:
    if number not in studio.jobs:
        raise HTTPException(404, _NOT_THERE)
    return studio.jobs[number]


def _find_release(number: str, studio: TheStudio) -> Job:
    job = _find_job(number, studio)
    if job.state != "released":
        raise HTTPException(404, _NOT_THERE)
    return job


TheDesk = Annotated[Desk, Depends(_find_desk)]
TheJob = Annotated[Job, Depends(_find_job)]
TheRelease = Annotated[Job, Depends(_find_release)]


# Coming in -----------------------------------------------------------------------------------------------


@_routes.post(ENTER_PATH)
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


@_routes.get("/")
def home(studio: TheStudio) -> Response:
    return to("/open" if studio.first is None else f"/desk/{studio.first}")


# Opening a table --------------------------------------------------------------------------------


@_routes.get("/open")
def open_page(csrf: Csrf) -> Response:
    return _open_page(csrf, Filled(), {})


def _open_page(csrf: str, form: Filled, errors: dict[str, str]) -> Response:
    page = pages.render("open.html", csrf=csrf, values=form.values, errors=errors)
    return HTMLResponse(page, 422 if errors else 200)


def _try_open(csrf: str, form: Filled, field: str, make: Callable[[], Desk]) -> Response:
    try:
        return to(f"/desk/{make().number}")
    except EllipsumError as error:
        return _open_page(csrf, form, {field: str(error)})


@_routes.post("/open/file")
def open_file(form: Posted, studio: TheStudio, csrf: Csrf) -> Response:
    if not form["path"]:
        return _open_page(csrf, form, {"path": "Type the path of a file."})
    return _try_open(csrf, form, "path", lambda: studio.open_path(form["path"], bool(form["header"])))


@_routes.post(UPLOAD_PATH)
def open_upload(form: Posted, studio: TheStudio, csrf: Csrf) -> Response:
    if form.file is None or not form.file.filename:
        return _open_page(csrf, form, {"file": "Choose a file."})
    name, content = form.file.filename, form.file.file
    return _try_open(csrf, form, "file", lambda: studio.open_upload(name, content, bool(form["header_upload"])))


@_routes.post("/open/database")
def open_database(form: Posted, studio: TheStudio, csrf: Csrf) -> Response:
    if not form["database"]:
        return _open_page(csrf, form, {"database": "Type the address of a database."})
    opener = lambda: studio.open_database(form["database"], form["query"], form["table"])  # noqa: E731
    return _try_open(csrf, form, "database", opener)


@_routes.post("/open/names")
def open_names(form: Posted, studio: TheStudio, csrf: Csrf) -> Response:
    names = [cell.strip() for line in form["names"].splitlines() for cell in cells(line)]
    return _try_open(csrf, form, "names", lambda: studio.open_names([name for name in names if name]))


@_routes.post("/open/demo")
def open_demo(form: Posted, studio: TheStudio) -> Response:
    return to(f"/desk/{studio.open_demo().number}")


# A table, its form and its forecast -----------------------------------------------------------------------


def _form_page(
    studio: Studio, csrf: str, desk: Desk, filled: Filled, errors: dict[str, str], notice: str = ""
) -> Response:
    ledger = os.environ.get(LEDGER, "")
    page = pages.desk_page(desk, filled, csrf, studio.new_form(), errors, notice, ledger)
    return HTMLResponse(page, 422 if errors or notice else 200)


@_routes.get("/desk/{number}")
def desk_page(desk: TheDesk, studio: TheStudio, csrf: Csrf) -> Response:
    return _form_page(studio, csrf, desk, desk.start, {})


@_routes.post("/desk/{number}/forecast")
def forecast(form: Posted, desk: TheDesk, studio: TheStudio) -> Response:
    """The forecast of an unfinished form, or a line that names the missing field."""
    reader = Reader(form, desk.schema)
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
        answer = panels.forecast(plan, _place(form))
        return JSONResponse({**answer, "n": n, "picture": f"/forecast/{studio.keep_plan(plan)}"})
    except EllipsumError as error:
        field, text = about(error)
        return JSONResponse({"hint": text, "field": field})


def _place(form: Filled) -> int:
    """The position of the ticked column whose error is shown; by default the first."""
    ticked, text = sorted(form.used), form["error_of"]
    return ticked.index(int(text)) if text.isdigit() and int(text) in form.used else 0


@_routes.get("/forecast/{name}")
def forecast_picture(name: str, studio: TheStudio) -> Response:
    """Draw the error against epsilon."""
    return _picture(error_picture(studio.plans[name]) if name in studio.plans else None)


def _picture(drawn: bytes | None) -> Response:
    if drawn is None:
        raise HTTPException(404, _NOT_THERE)
    return Response(drawn, media_type="image/svg+xml")


@_routes.post("/desk/{number}/plan")
def plan(form: Posted, desk: TheDesk, studio: TheStudio, csrf: Csrf) -> Response:
    """Send the plan as a file: every public number, and no data."""
    reader = Reader(form, desk.schema)
    request = reader.request()
    if request is None:
        return _form_page(studio, csrf, desk, form, reader.errors)
    try:
        text = panels.plan_of(request, desk.public_rows(request, reader.guess())).to_json()
    except EllipsumError as error:
        return _form_page(studio, csrf, desk, form, dict([about(error)]))
    return _attachment("plan.json", "application/json", text + "\n")


def _attachment(name: str, kind: str, text: str) -> Response:
    return Response(text, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'})


# Releasing --------------------------------------------------------------------------------------------------


@_routes.post("/desk/{number}/release")
def release(form: Posted, desk: TheDesk, studio: TheStudio, csrf: Csrf) -> Response:
    """Start a release, once for each form."""
    if desk.plans_only:
        raise HTTPException(404, _NOT_THERE)
    reader = Reader(form, desk.schema)
    request, (ledger, dataset) = reader.request(), reader.account()
    if request is None or reader.errors:
        return _form_page(studio, csrf, desk, form, reader.errors)
    order = Order(request, desk.data, ledger, dataset, bool(form["accepted"]))
    return _begun(studio, csrf, desk, form, Job(short_name(), desk.number, order, form))


def _begun(studio: Studio, csrf: str, desk: Desk, form: Filled, job: Job) -> Response:
    is_known = studio.knows(form["form"])
    try:
        begun = studio.begin(form["form"], job)
    except UsageError as error:
        return _form_page(studio, csrf, desk, job.fields, {"": str(error)})
    if begun is None:
        return _form_page(studio, csrf, desk, job.fields, {}, _USED if is_known else _STALE)
    return to(f"/job/{begun.number}")


@_routes.get("/job/{number}")
def job_page(job: TheJob, studio: TheStudio, csrf: Csrf) -> Response:
    if job.state == "released":
        return to(f"/release/{job.number}")
    return HTMLResponse(pages.job_page(job, studio.desks.get(job.desk), csrf))


@_routes.get("/job/{number}/state")
def job_state(job: TheJob) -> Response:
    return JSONResponse({"state": job.state, "part": job.part})


@_routes.post("/job/{number}/cancel")
def cancel(form: Posted, job: TheJob, studio: TheStudio) -> Response:
    studio.workers.cancel(job)
    return to(f"/job/{job.number}")


@_routes.get("/job/{number}/edit")
def edit(job: TheJob, studio: TheStudio, csrf: Csrf) -> Response:
    """Show the form of an earlier request again."""
    desk = _find_desk(job.desk, studio)
    errors = dict([about(UsageError(job.text))]) if job.kind == "usage" else {}
    errors |= {"accepted": job.text} if job.kind == "doubt" else {}
    return _form_page(studio, csrf, desk, job.fields, errors)


@_routes.get("/release/{number}")
def release_page(job: TheRelease, studio: TheStudio, csrf: Csrf) -> Response:
    return HTMLResponse(pages.release_page(job, csrf, studio.new_form()))


@_routes.post("/release/{number}/again")
def again(form: Posted, job: TheRelease, studio: TheStudio, csrf: Csrf) -> Response:
    """Release the same request again, which is charged again."""
    desk = _find_desk(job.desk, studio)
    return _begun(studio, csrf, desk, form, Job(short_name(), desk.number, job.order, job.fields))


@_routes.get("/release/{number}/picture/{place}")
def release_picture(job: TheRelease, place: int) -> Response:
    """Draw the values with their intervals."""
    has_place = 0 <= place < pages.count_pictures(job.release)
    return _picture(pages.draw(job.release, place) if has_place else None)


@_routes.get("/release/{number}/{file}")
def download(job: TheRelease, file: str) -> Response:
    if file not in DOWNLOADS:
        raise HTTPException(404, _NOT_THERE)
    _, kind, write = DOWNLOADS[file]
    return _attachment(file, kind, write(job))


@_routes.get("/history")
def history(studio: TheStudio) -> Response:
    return HTMLResponse(pages.render("history.html", releases=studio.history(), desks=studio.desks))


# The ledger -------------------------------------------------------------------------------------------------


@_routes.post("/ledger/balance")
def ledger_balance(form: Posted) -> Response:
    try:
        if not form["dataset"]:
            return JSONResponse({"datasets": panels.data_sets(form["ledger"])})
        return JSONResponse(panels.balance(form["ledger"], form["dataset"]))
    except EllipsumError as error:
        return JSONResponse({"problem": sentence(str(error))})


@_routes.post("/ledger/open")
def ledger_open(form: Posted) -> Response:
    try:
        whole = form["whole_epsilon"], form["whole_delta"]
        return JSONResponse(panels.open_budget(form["ledger"], form["dataset"], *whole))
    except EllipsumError as error:
        return JSONResponse({"problem": sentence(str(error))})


# All together -----------------------------------------------------------------------------------------------


def _problem(_: Request, error: Exception) -> Response:
    """Show a fixed text, since the text of an error may quote data."""
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
    app.include_router(_routes)
    app.mount("/static", StaticFiles(packages=[("ellipsum.apps.studio", "static")]))
    return Gate(app, guard, lambda: pages.render("enter.html", wrong=False))
