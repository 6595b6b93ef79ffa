"""Access control of the studio: every request passes one gate before any page is made.

The gate checks the Host and Origin headers, the session cookie, and the size of the request. It puts the same strict
headers on every answer. A cookie is given in exchange for the start-up token. Forms also carry a token of the session.

A browser sends a cookie of 127.0.0.1 to every port of that address, so a server of another user of this machine could
read it. Therefore all pages are below a secret path, and the cookie is limited to that path. A server on another port
does not know the path, so it never receives the cookie. The path alone opens nothing.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from contextvars import ContextVar
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.datastructures import UploadFile

from ...noise import secret_name
from .forms import Filled
from .workspace import Studio

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

ROOT: ContextVar[str] = ContextVar("ROOT", default="")
"""The secret path above the pages of the current request; empty on the entry page."""
FORM_BYTES = 4 << 20
UPLOAD_BYTES = 512 << 20
UPLOAD_PATH, ENTER_PATH = "/open/upload", "/enter"
_STATIC = "/static/"
_MOST_SESSIONS = 100
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # With no-referrer, browsers would hide the origin of the studio's own forms.
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}
_WRONG_HOST = "This studio answers only at the address that it printed."
_WRONG_ORIGIN = "This request came from another site, and was refused."
_NO_LENGTH = "The request must have a Content-Length header."
_TOO_LARGE = "The upload is too large. Type the path of a large file instead of uploading it."
_NO_METHOD = "Only GET and POST are supported."


class Guard:
    """The start-up token, the sessions that were opened with it, and the host names of the studio."""

    def __init__(self, hosts: Iterable[str], port: int) -> None:
        self.token = secret_name()
        self.cookie = f"ellipsum_studio_{port}"
        self.root = f"/{secret_name()}"
        self.hosts = {f"{host}:{port}" for host in hosts}
        self.origins = {f"http://{host}" for host in self.hosts}
        self._sessions: dict[str, str] = {}

    def enter(self, token: str) -> str | None:
        """Open a session for the right token; None for a wrong token."""
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            return None
        while len(self._sessions) >= _MOST_SESSIONS:
            self._sessions.pop(next(iter(self._sessions)))
        session = secret_name()
        self._sessions[session] = secret_name()
        return session

    def csrf_of(self, session: str | None) -> str | None:
        """The token of the forms of a session."""
        return None if session is None else self._sessions.get(session)

    def session_of(self, scope: Scope) -> str | None:
        """The session of a request. Servers on other ports may have set cookies of the same name."""
        pairs = (part.strip().partition("=") for part in _header(scope, b"cookie").split(";"))
        return next((value for name, _, value in pairs if name == self.cookie and value in self._sessions), None)

    def is_own(self, scope: Scope, sent: str) -> bool:
        """Whether a form has the token of its session."""
        own = self.csrf_of(self.session_of(scope))
        return own is not None and hmac.compare_digest(sent.encode(), own.encode())


class Gate:
    """The application behind the checks that every request must pass."""

    def __init__(self, app: App, guard: Guard, entry: Callable[[], str]) -> None:
        self._app = app
        self._guard = guard
        self._entry = entry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # The studio has no web sockets.
            await send({"type": "websocket.close", "code": 1008})
            return
        root, path = self._guard.root, scope["path"]
        inside = path.startswith(f"{root}/")
        if inside:
            scope = {**scope, "path": path.removeprefix(root), "raw_path": path.removeprefix(root).encode()}
        ROOT.set(root if inside else "")
        answer = self._refusal(scope, inside) or self._app
        await answer(scope, receive, _with_headers(send, root))

    def _refusal(self, scope: Scope, inside: bool) -> Response | None:
        """The answer to a request that is refused; None for any other. inside: below the secret path."""
        guard, path, method = self._guard, scope["path"], scope["method"]
        if _header(scope, b"host") not in guard.hosts:
            return PlainTextResponse(_WRONG_HOST, 400)
        if method not in ("GET", "HEAD", "POST"):
            return PlainTextResponse(_NO_METHOD, 405)
        origin = _header(scope, b"origin")
        if (origin or method == "POST") and origin not in guard.origins:
            return PlainTextResponse(_WRONG_ORIGIN, 403)
        if method == "POST":
            length = _header(scope, b"content-length")
            if not (length.isascii() and length.isdigit()):
                return PlainTextResponse(_NO_LENGTH, 411)
            if int(length) > (UPLOAD_BYTES if path == UPLOAD_PATH else FORM_BYTES):
                return PlainTextResponse(_TOO_LARGE, 413)
        if path == ENTER_PATH or path.startswith(_STATIC) or (inside and guard.session_of(scope) is not None):
            return None
        return HTMLResponse(self._entry(), 401)


def _header(scope: Scope, name: bytes) -> str:
    values = [value for key, value in scope["headers"] if key == name]
    return values[0].decode("latin-1") if len(values) == 1 else ""


def _with_headers(send: Send, root: str) -> Send:
    """Send with the strict headers; addresses of redirects get the secret path."""

    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            others = [pair for pair in message["headers"] if pair[0].decode("latin-1").lower() not in HEADERS]
            others = [(name, root.encode() + value if name == b"location" else value) for name, value in others]
            own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message = {**message, "headers": [*others, *own]}
        await send(message)

    return sending


# The parts of a request that the functions of the addresses use -------------------------------------


_MOST_FIELDS = 20_000
WRONG_FORM = "The form could not be read."
_NOT_OURS = "This form did not come from this studio, and was refused."


def is_encodable(text: str) -> bool:
    """Whether a text is valid Unicode; JSON and forms can contain lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def studio_of(request: Request) -> Studio:
    studio: Studio = request.app.state.studio
    return studio


def csrf_of(request: Request) -> str:
    """The token for the forms of this session."""
    guard: Guard = request.app.state.guard
    return guard.csrf_of(guard.session_of(request.scope)) or ""


async def posted(request: Request) -> AsyncIterator[Filled]:
    """Read a form, or the request of a script, and check its token."""
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


async def _read(request: Request) -> Filled:
    if request.headers.get("content-type", "").startswith("application/json"):
        sent = json.loads(await request.body())
        texts = {str(name): text for name, text in sent.items() if isinstance(text, str)}
        return Filled(texts, frozenset(int(place) for place in sent.get("use", ())))
    fields = await request.form(max_files=1, max_fields=_MOST_FIELDS)
    pairs = fields.multi_items()
    texts = {name: text for name, text in pairs if isinstance(text, str)}
    used = frozenset(int(text) for name, text in pairs if name == "use" and isinstance(text, str) and text.isdigit())
    return Filled(texts, used, next((item for _, item in pairs if isinstance(item, UploadFile)), None))


TheStudio = Annotated[Studio, Depends(studio_of)]
Csrf = Annotated[str, Depends(csrf_of)]
Posted = Annotated[Filled, Depends(posted)]


def to(address: str) -> Response:
    """Redirect, so that a reload of the page posts nothing."""
    return RedirectResponse(address, 303)
