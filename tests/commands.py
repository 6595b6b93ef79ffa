"""Runs commands in processes of their own, forked from one that has imported everything: starting Python costs most.

What a start is worth testing for (faults, interrupts, start-up itself) starts a process as users do.
"""

import atexit
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace

MOST_SECONDS = 120
seed = 0  # of the noise: each test has its own

# One request per line: words, folder and the files for the three streams; answered by the child's exit code.
PARENT = """
import json, os, signal, sys
import numba, numpy, pyarrow, scipy.special, typer
import ellipsum.api, ellipsum.apps.cli.app, ellipsum.apps.cli.inputs, ellipsum.apps.cli.show
import ellipsum.sources.csv, ellipsum.sources.paths
requests = os.fdopen(os.dup(0), "r")
answers = os.fdopen(os.dup(1), "w", buffering=1)
for line in requests:
    request = json.loads(line)
    child = os.fork()
    if child == 0:
        requests.close()
        answers.close()
        os.chdir(request["cwd"])
        for number, name in enumerate(["stdin", "stdout", "stderr"]):
            file = os.open(request[name], os.O_WRONLY if number else os.O_RDONLY)
            os.dup2(file, number)
            os.close(file)
        sys.stdin, sys.stdout, sys.stderr = (open(number, mode) for number, mode in ((0, "r"), (1, "w"), (2, "w")))
        os.urandom = numpy.random.default_rng(request["seed"]).bytes
        sys.argv = ["ellipsum", *request["words"]]
        signal.alarm(request["seconds"])
        ellipsum.apps.cli.main()
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    answers.write(f"{os.waitstatus_to_exitcode(status)}\\n")
"""

_parent: list[subprocess.Popen] = []
_one_at_a_time = threading.Lock()


def _ready() -> subprocess.Popen:
    if not _parent:
        _parent.append(
            subprocess.Popen(
                [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
        )
        atexit.register(_parent[0].kill)
    return _parent[0]


def run(*words, cwd=None, input=None):
    """The command `ellipsum ...`: what subprocess.run gives with captured text."""
    with _one_at_a_time, tempfile.TemporaryDirectory() as folder:
        parent = _ready()
        files = {name: Path(folder) / name for name in ("stdin", "stdout", "stderr")}
        files["stdin"].write_text(input or "", "utf-8")
        files["stdout"].touch()
        files["stderr"].touch()
        request = {"words": list(map(str, words)), "cwd": str(cwd or Path.cwd()), "seconds": MOST_SECONDS, "seed": seed}
        parent.stdin.write(json.dumps({**request, **{name: str(path) for name, path in files.items()}}) + "\n")
        code = int(parent.stdout.readline())
        out, err = (files[name].read_text("utf-8") for name in ("stdout", "stderr"))
    return SimpleNamespace(returncode=code, stdout=out, stderr=err, args=words)
