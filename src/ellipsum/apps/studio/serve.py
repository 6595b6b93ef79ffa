"""Run the studio: listen at a port, print the address, and open a browser."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from html import escape
from ipaddress import ip_address
from pathlib import Path

import uvicorn

from ... import DataError, UsageError
from ...sources.people import Scratch
from .app import make_app
from .security import Guard
from .workspace import Studio

PORT = 8642
_TRIES = 20
_NAMES = ("127.0.0.1", "localhost", "[::1]")
_REMOTE = (
    "the network is not encrypted, so others could read the token. Leave --host out, or add --allow-network to accept "
    "this."
)


def run(
    path: str | None, host: str, port: int | None, network: bool, browser: bool, say: Callable[[str], None]
) -> None:
    """Serve until the process is ended. say: prints a line."""
    if not is_loopback(host) and not network:
        raise UsageError(f"--host {host} is refused: {_REMOTE}")
    if host == "localhost":  # A browser could resolve it to ::1, where another user may listen.
        host = "127.0.0.1"
    listener = _listener(host, port)
    bound = listener.getsockname()[1]
    name = f"[{host}]" if ":" in host else host
    guard = Guard({*_NAMES, name}, bound)
    studio = Studio()
    try:
        if path is not None:
            studio.first = studio.open_path(path).number
        _serve(studio, guard, listener, f"http://{name}:{bound}/#{guard.token}", browser, say)
    finally:
        studio.close()
        listener.close()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _serve(
    studio: Studio, guard: Guard, listener: socket.socket, address: str, browser: bool, say: Callable[[str], None]
) -> None:
    config = uvicorn.Config(
        make_app(studio, guard),  # type: ignore[arg-type]
        access_log=False,
        log_config=None,
        log_level="critical",
        server_header=False,
        date_header=False,
        lifespan="off",
        timeout_graceful_shutdown=2,
    )
    threading.Thread(target=studio.workers.warm, daemon=True).start()
    say(address)
    page = _open(address) if browser else None
    try:
        uvicorn.Server(config).run([listener])
    finally:
        if page is not None:
            page.close()


def _listener(host: str, port: int | None) -> socket.socket:
    """A socket at the requested port, or at the first free port."""
    if port is not None and not 0 <= port <= 65_535:
        raise UsageError(f"--port must be between 0 and 65535, got {port}.")
    ports = range(PORT, PORT + _TRIES) if port is None else [port]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in ports:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, number))
            listener.listen()  # A browser may connect before the server runs, and then waits.
        except (OSError, OverflowError):
            listener.close()
            continue
        return listener
    raise DataError(f"port {ports[0]} of {host} cannot be used: it is in use, or not allowed. Use another --port.")


def _open(address: str) -> Scratch:
    """Open the address in the browser through a private file, since others can see the arguments of a command."""
    import webbrowser

    folder = Scratch()
    page = Path(folder.path) / "studio.html"
    page.write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(address)}"><title>studio</title>'
    )
    page.chmod(0o600)
    threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
    return folder
