"""The studio on loopback: its first page, a forecast at 200 columns, and what its packages add to an install.

    python -m benchmarks studio

The page and the forecast are timed over a real socket; beside each, the work that it is made of, in the same run.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn

import ellipsum as es
from ellipsum.apps.studio.app import make_app
from ellipsum.apps.studio.security import Guard
from ellipsum.apps.studio.workspace import Studio

COLUMNS, ROWS, TRIES = 200, 10_000, 15


class Client:
    """A studio in this process, and one session with it."""

    def __init__(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        guard = Guard(("127.0.0.1",), self.port)
        self.studio = Studio()
        config = uvicorn.Config(make_app(self.studio, guard), log_config=None, lifespan="off")  # type: ignore[arg-type]
        threading.Thread(target=uvicorn.Server(config).run, args=([listener],), daemon=True).start()
        self.cookie = self.root = ""
        answer, _ = self.send("POST", "/enter", urlencode({"token": guard.token}), "application/x-www-form-urlencoded")
        self.cookie = str(answer.getheader("set-cookie")).partition(";")[0]
        self.root = guard.root
        self.csrf = re.findall(r'name="csrf" value="(\w+)"', self.send("GET", "/open")[1])[0]

    def send(self, method: str, path: str, body: str = "", kind: str = "application/json") -> tuple[Any, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        headers = {"origin": f"http://127.0.0.1:{self.port}", "content-type": kind, "cookie": self.cookie}
        connection.request(method, f"{self.root}{path}", body or None, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer, text


def milliseconds(work: Callable[[int], object]) -> str:
    times = []
    for i in range(TRIES):
        begin = time.perf_counter()
        work(i)
        times.append(1000 * (time.perf_counter() - begin))
    return f"{statistics.median(times):6.1f} ms at the median, {min(times):6.1f} at least"


def first_page(client: Client) -> None:
    print(f"first page             {milliseconds(lambda _: client.send('GET', '/open'))}")


def forecasts(client: Client) -> None:
    """Every epsilon is a new one: plans are remembered."""
    names = [f"c{i}" for i in range(COLUMNS)]
    desk = client.studio.open_names(names).number
    print(f"page of {COLUMNS} columns    {milliseconds(lambda _: client.send('GET', f'/desk/{desk}'))}")
    ends = {f"{end}-{i}": str(k * (i + 1)) for i in range(COLUMNS) for k, end in enumerate("ab")}
    words = {"csrf": client.csrf, "use": list(range(COLUMNS)), "n": str(ROWS), "delta": "1e-6", **ends}
    kinds: dict[str, dict[str, str]] = {
        "bounds": {},
        "Gaussian noise": {"noise": "gaussian"},
        "describe": {"statistic": "describe"},
        "normal rows": {"kind": "normal"},
    }

    def ask(i: int, more: dict[str, str]) -> None:
        body = json.dumps({**words, **more, "epsilon": str(0.5 + 0.01 * i)})
        _, text = client.send("POST", f"/desk/{desk}/forecast", body)
        assert "error" in json.loads(text), text

    for name, more in kinds.items():
        ask(99, more)
        print(f"forecast, {name:<12} {milliseconds(lambda i, more=more: ask(i, more))}")
    box = es.Box({name: (0, i + 1) for i, name in enumerate(names)})
    alone = milliseconds(lambda i: es.plan("mean", box, n=ROWS, epsilon=0.7 + 0.01 * i, delta=1e-6, count_clipped=True))
    print(f"es.plan alone          {alone}")


def install_size() -> None:
    """What `ellipsum[studio]` brings that `ellipsum` does not, compiled files included."""
    root = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory() as folder:
        sizes = {}
        for extra in ("", "[studio]"):
            place = Path(folder) / (extra or "plain")
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(place), f"{root}{extra}"]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
            sizes[extra] = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        added = (sizes["[studio]"] - sizes[""]) / 1e6
        print(f"install                {sizes[''] / 1e6:.0f} MB, with the studio's packages {added:.1f} MB more")


def main() -> None:
    client = Client()
    first_page(client)
    forecasts(client)
    if "--no-install" not in sys.argv:
        install_size()


if __name__ == "__main__":
    main()
