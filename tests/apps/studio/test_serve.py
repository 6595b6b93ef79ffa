"""`ellipsum studio` as a command: what it prints, what it refuses, and how it ends."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ellipsum.apps.studio import serve

pytest_plugins = ["studios"]

COMMAND = [sys.executable, "-m", "ellipsum", "studio", "--no-open"]


def run(*words, command=COMMAND):
    return subprocess.run([*command, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--host", "0.0.0.0"], 2, "--allow-network"),
        (["--host", "192.0.2.1"], 2, "network is not encrypted"),
        (["nothing.csv", "--port", "0"], 4, "is not a file"),
        (["--port", "-1"], 2, "--port"),
    ],
)
def test_what_is_refused(words, code, said):
    done = run(*words)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert done.stdout == ""


def test_the_name_localhost_is_not_in_the_address(monkeypatch):
    """A browser may look for it at ::1, where another user may listen at the same port and read the token."""
    said = []
    monkeypatch.setattr(serve, "_serve", lambda studio, guard, listener, address, *_: said.append(address))
    serve.run(None, "localhost", 0, network=False, browser=False, say=said.append)
    assert said[0].startswith("http://127.0.0.1:")


def test_a_port_that_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("--port", taken.getsockname()[1])
    assert done.returncode == 4
    assert "--port" in done.stderr


def test_without_its_packages_it_says_which_to_install():
    code = "import sys; sys.modules['fastapi'] = None; from ellipsum.apps.cli import main; main()"
    done = run("studio", command=[sys.executable, "-c", code])
    assert done.returncode == 2
    assert "ellipsum[studio]" in done.stderr


def children(parent):
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            if f"\nPPid:\t{parent}\n" in status.read_text():
                found.append(int(status.parent.name))
        except OSError:  # it ended meanwhile
            continue
    return found


@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are looked up in /proc")
def test_it_prints_its_address_alone_and_leaves_nothing_behind(tmp_path, people):
    environment = {**os.environ, "TMPDIR": str(tmp_path / "scratch")}
    (tmp_path / "scratch").mkdir()
    process = subprocess.Popen(
        [*COMMAND, str(people), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    address = process.stdout.readline()
    found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/#([0-9a-f]{64})\n", address)
    assert found, address
    connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=30)
    connection.request("GET", "/open")
    answer = connection.getresponse()
    assert answer.status == 401
    assert answer.headers["server"] is None
    answer.read()
    connection.close()
    workers = []
    while not workers:
        workers = children(process.pid)
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=30)
    assert process.returncode == 143
    assert out == ""
    assert found[2] not in errors
    assert "Traceback" not in errors
    time.sleep(0.3)
    assert not [worker for worker in workers if Path(f"/proc/{worker}").exists()]
    assert list((tmp_path / "scratch").iterdir()) == []
