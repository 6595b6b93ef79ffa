"""Access control of the studio: every request passes one gate before any page is made.

The gate looks at the Host and Origin headers, at the cookie that the start-up token was exchanged for, and at the size
of what is sent; it puts the same strict headers on every answer. Forms carry a token of their own session besides.

A browser sends a cookie of 127.0.0.1 to every port of that address, so a server of another user of this machine could
read it. All pages therefore stand below a secret path, and the cookie is scoped to that path: a server on another port
does not know the path, so it never receives the cookie, and the path alone opens nothing.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Request
from fastapi.responses import RedirectResponse, Response
from starlette.datastructures import UploadFile

from ...noise import secret_name
from .forms import Filled
from .workspace import Studio

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

ROOT: ContextVar[str] = ContextVar("ROOT", default="")
"""The secret path that the pages of the present request stand below; empty on the entry page."""
FORM_BYTES = 4 << 20
UPLOAD_BYTES = 512 << 20
UPLOAD_PATH = "/open/upload"
ENTER_PATH = "/enter"
_OPEN = (ENTER_PATH,)
_STATIC = "/static/"
_MOST_SESSIONS = 100
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with no-referrer browsers hide the origin of our own forms from us too
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}
_WRONG_HOST = "This studio answers at the address that it printed, and at no other."
_WRONG_ORIGIN = "This request came from another site, and was refused."
_NO_LENGTH = "The size of a form must be stated."
_TOO_LARGE = "What was sent is too large. Type the path of a large file instead of uploading it."
_NO_METHOD = "Only GET and POST are understood."


class Guard:
    """The start-up token, the sessions that were opened with it, and the names that the studio goes by."""

    def __init__(self, hosts: Iterable[str], port: int) -> None:
        self.token = secret_name()
        self.cookie = f"ellipsum_studio_{port}"
        self.root = f"/{secret_name()}"
        self.hosts = {f"{host}:{port}" for host in hosts}
        self.origins = {f"http://{host}" for host in self.hosts}
        self._sessions: dict[str, str] = {}

    def enter(self, token: str) -> str | None:
        """Open a session for a caller who has the token; None for a wrong token."""
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            return None
        while len(self._sessions) >= _MOST_SESSIONS:
            self._sessions.pop(next(iter(self._sessions)))
        session = secret_name()
        self._sessions[session] = secret_name()
        return session

    def csrf_of(self, session: str | None) -> str | None:
        """The token that the forms of a session carry."""
        return None if session is None else self._sessions.get(session)

    def session_of(self, scope: Scope) -> str | None:
        """The session that a request belongs to; cookies of the same name may come from servers on other ports."""
        pairs = (part.strip().partition("=") for part in _header(scope, b"cookie").split(";"))
        return next((value for name, _, value in pairs if name == self.cookie and value in self._sessions), None)

    def is_own(self, scope: Scope, sent: str) -> bool:
        """Whether the token of a form is that of its session."""
        own = self.csrf_of(self.session_of(scope))
        return own is not None and hmac.compare_digest(sent.encode(), own.encode())


class Gate:
    """The application behind the checks that every request must pass."""

    def __init__(self, app: App, guard: Guard, entry: Callable[[], bytes]) -> None:
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
        refusal = self._refusal(scope, inside)
        if refusal is not None:
            await _answer(send, *refusal)
        else:
            await self._app(scope, receive, _with_headers(send, root))

    def _refusal(self, scope: Scope, inside: bool) -> tuple[int, bytes, str] | None:
        """Why a request is not let in: status, text and type; None where it is. inside: below the secret path."""
        guard, path, method = self._guard, scope["path"], scope["method"]
        if _header(scope, b"host") not in guard.hosts:
            return _plain(400, _WRONG_HOST)
        if method not in ("GET", "HEAD", "POST"):
            return _plain(405, _NO_METHOD)
        origin = _header(scope, b"origin")
        if (origin or method == "POST") and origin not in guard.origins:
            return _plain(403, _WRONG_ORIGIN)
        if method == "POST":
            too_much = _refuse_size(scope)
            if too_much is not None:
                return too_much
        if path in _OPEN or path.startswith(_STATIC) or (inside and guard.session_of(scope) is not None):
            return None
        return 401, self._entry(), "text/html; charset=utf-8"


def _refuse_size(scope: Scope) -> tuple[int, bytes, str] | None:
    """A refusal of bodies without a stated size, or of more than fits."""
    length = _header(scope, b"content-length")
    if not (length.isascii() and length.isdigit()):
        return _plain(411, _NO_LENGTH)
    most = UPLOAD_BYTES if scope["path"] == UPLOAD_PATH else FORM_BYTES
    return _plain(413, _TOO_LARGE) if int(length) > most else None


def _plain(status: int, text: str) -> tuple[int, bytes, str]:
    return status, text.encode(), "text/plain; charset=utf-8"


def _header(scope: Scope, name: bytes) -> str:
    values = [value for key, value in scope["headers"] if key == name]
    return values[0].decode("latin-1") if len(values) == 1 else ""


def _with_headers(send: Send, root: str = "") -> Send:
    """Send with the strict headers; addresses of redirects get the secret path."""

    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            others = [pair for pair in message["headers"] if pair[0].decode("latin-1").lower() not in HEADERS]
            others = [(name, root.encode() + value if name == b"location" else value) for name, value in others]
            own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message = {**message, "headers": [*others, *own]}
        await send(message)

    return sending


async def _answer(send: Send, status: int, body: bytes, kind: str) -> None:
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
    sending = _with_headers(send)
    await sending({"type": "http.response.start", "status": status, "headers": headers})
    await sending({"type": "http.response.body", "body": body})


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    from ipaddress import ip_address

    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


# What each address asks of a request -----------------------------------------------------------------


_MOST_FIELDS = 20_000
WRONG_FORM = "The form could not be read."
_NOT_OURS = "This form did not come from this studio, and was refused."


@dataclass(frozen=True)
class Form:
    """What was posted: texts by name, the columns that are ticked, and perhaps a file."""

    values: dict[str, str]
    used: frozenset[int] = frozenset()
    file: UploadFile | None = None

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
    studio: Studio = request.app.state.studio
    return studio


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
    """Redirect, so that a reload of the page posts nothing."""
    return RedirectResponse(address, 303)
