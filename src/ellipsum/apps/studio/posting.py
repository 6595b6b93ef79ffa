"""What every address asks of a request: the studio, the session's token, and the fields of a form."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Request
from fastapi.responses import RedirectResponse, Response
from starlette.datastructures import UploadFile

from .forms import Filled
from .security import Guard
from .workspace import Studio

_MOST_FIELDS = 20_000
WRONG_FORM = "The form could not be read."
_NOT_OURS = "This form did not come from this studio, and was refused."


@dataclass(frozen=True)
class Form:
    """What was posted: texts by name, the columns that are ticked, and perhaps a file."""

    values: dict[str, str]
    used: frozenset[int] = frozenset()
    file: Any = None

    def __getitem__(self, name: str) -> str:
        return self.values.get(name, "").strip()

    @property
    def filled(self) -> Filled:
        return Filled(self.values, self.used)


def is_encodable(text: str) -> bool:
    """Whether a text is valid Unicode: JSON and forms can carry lone surrogates, which no name or number holds."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def studio_of(request: Request) -> Studio:
    found: Studio = request.app.state.studio
    return found


def csrf_of(request: Request) -> str:
    """The token that this session's forms carry."""
    guard: Guard = request.app.state.guard
    return guard.csrf_of(guard.session_of(request.scope)) or ""


async def posted(request: Request) -> AsyncIterator[Form]:
    """The fields of a form, or of a script's request, once their token was found to be the session's own."""
    try:
        form = await _read(request)
    except Exception:
        raise HTTPException(400, WRONG_FORM) from None
    if not all(map(is_encodable, [*form.values, *form.values.values()])):
        raise HTTPException(400, WRONG_FORM)
    guard: Guard = request.app.state.guard
    try:
        if not guard.is_own(request.scope, form["csrf"]):
            raise HTTPException(403, _NOT_OURS)
        yield form
    finally:
        if form.file is not None:
            form.file.file.close()


async def _read(request: Request) -> Form:
    if request.headers.get("content-type", "").startswith("application/json"):
        sent = json.loads(await request.body())
        texts = {str(name): text for name, text in sent.items() if isinstance(text, str)}
        return Form(texts, frozenset(int(place) for place in sent.get("use", ())))
    fields = await request.form(max_files=1, max_fields=_MOST_FIELDS)
    pairs = fields.multi_items()
    texts = {name: text for name, text in pairs if isinstance(text, str)}
    used = frozenset(int(text) for name, text in pairs if name == "use" and isinstance(text, str) and text.isdigit())
    return Form(texts, used, next((item for _, item in pairs if isinstance(item, UploadFile)), None))


TheStudio = Annotated[Studio, Depends(studio_of)]
Csrf = Annotated[str, Depends(csrf_of)]
Posted = Annotated[Form, Depends(posted)]


def to(address: str) -> Response:
    """Go there next; a reload then posts nothing."""
    return RedirectResponse(address, 303)
