"""A studio at a real port, and a visitor with a browser's manners: it keeps its cookie and says where it comes from."""

import http.client
import json
import re
import socket
import threading
import time
from dataclasses import dataclass
from urllib.parse import urlencode

import uvicorn

from ellipsum.apps.studio.app import make_app
from ellipsum.apps.studio.security import Guard
from ellipsum.apps.studio.workspace import Studio

BOUNDS = {"use": ["0", "1"], "a-0": "0", "b-0": "120", "a-1": "0", "b-1": "200000"}
BUDGET = {"epsilon": "1", "delta": "1e-6"}
_BOUNDARY = "3141592653"


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes
    root: str
    """The secret path that addresses of pages begin with."""

    @property
    def text(self):
        return self.body.decode()

    @property
    def place(self):
        return self.headers["location"].removeprefix(self.root)


class Visitor:
    def __init__(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.base = f"http://127.0.0.1:{self.port}"
        self.studio = Studio()
        self.guard = Guard(("127.0.0.1", "localhost"), self.port)
        config = uvicorn.Config(make_app(self.studio, self.guard), log_config=None, lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([listener],), daemon=True)
        self._thread.start()
        self.cookie = ""
        self.csrf = ""

    def close(self):
        self._server.should_exit = True
        self._thread.join(20)
        self.studio.close()

    def request(self, method, path, body=None, **headers):
        """One request as it stands; None leaves a header out."""
        inside = self.cookie and not path.startswith(("/static", self.guard.root))
        path = f"{self.guard.root}{path}" if inside else path
        usual = {"host": f"127.0.0.1:{self.port}", "cookie": self.cookie or None}
        usual |= {"origin": self.base} if method == "POST" else {}
        named = {name.replace("_", "-"): value for name, value in {**usual, **headers}.items() if value is not None}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            if method == "POST" and "content-length" not in named and "transfer-encoding" not in named:
                named["content-length"] = str(len(body or b""))
            for name, value in named.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read(), self.guard.root)
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.request("GET", path, **headers)

    def post(self, path, fields=None, **headers):
        body = urlencode({"csrf": self.csrf, **(fields or {})}, doseq=True).encode()
        return self.request("POST", path, body, **{"content-type": "application/x-www-form-urlencoded", **headers})

    def send(self, path, fields):
        """What a script of a page sends."""
        body = json.dumps({"csrf": self.csrf, **fields}).encode()
        return self.request("POST", path, body, **{"content-type": "application/json"})

    def ask(self, path, fields):
        answer = self.send(path, fields)
        assert answer.status == 200, answer.text
        return json.loads(answer.body)

    def upload(self, name, content):
        parts = [
            f'--{_BOUNDARY}\r\ncontent-disposition: form-data; name="csrf"\r\n\r\n{self.csrf}\r\n'.encode(),
            f'--{_BOUNDARY}\r\ncontent-disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode(),
            content,
            f"\r\n--{_BOUNDARY}--\r\n".encode(),
        ]
        return self.request(
            "POST", "/open/upload", b"".join(parts), content_type=f"multipart/form-data; boundary={_BOUNDARY}"
        )

    def enter(self):
        answer = self.post("/enter", {"token": self.guard.token})
        assert answer.status == 303, answer.text
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        self.csrf = re.search(r'name="csrf" value="(\w+)"', self.get("/open").text)[1]
        return self

    def opened(self, path):
        """The address of a file's desk."""
        answer = self.post("/open/file", {"path": str(path)})
        assert answer.status == 303, answer.text
        return answer.place

    def form(self, desk):
        """The token of a new form."""
        return re.search(r'name="form" value="(\w+)"', self.get(desk).text)[1]

    def release(self, desk, fields):
        """Release, and wait for the end: the address of the job."""
        answer = self.post(f"{desk}/release", {"form": self.form(desk), **fields})
        assert answer.status == 303, answer.text
        return self.ended(answer.place)

    def ended(self, job):
        for _ in range(600):
            if json.loads(self.get(f"{job}/state").body)["state"] != "running":
                return job
            time.sleep(0.1)
        raise AssertionError("the job does not end")
