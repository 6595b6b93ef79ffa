"""Faults of the world around the command line: signals, full disks, closed outputs, few handles, outputs on inputs.

Whatever happens: the documented exit code, a fixed text, nothing half-written and nobody's rows left behind.
"""

import json
import os
import random
import re
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import commands
import numpy as np
import pytest
from counting import count_cases

import ellipsum as es

SOURCE = Path(es.__file__).parents[1]
SECRET = "SENTINELCELL"
BUDGET = ["--epsilon", "1", "--delta", "1e-6"]
BOUNDS = ["--bounds", "age=0:120", "--bounds", "income=0:5000"]
PROJECT = ["--k", "2", *BOUNDS, "--epsilon", "200", "--delta", "1e-6"]
UNFORESEEN = "error: Unexpected error."
# Signals as a shell at a terminal leaves them, and limits, before the program starts.
LAUNCH = """
import json, os, resource, signal, sys
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)
for name, value in json.loads(sys.argv[1]).items():
    resource.setrlimit(getattr(resource, name), (value, value))
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.fixture
def count(request):
    """Say how many cases a test went through; a summary adds them up."""
    return lambda number: count_cases(request, "faults", number)


@pytest.fixture
def temporary(tmp_path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


def surroundings(temporary=None, **more):
    own = {} if temporary is None else {"TMPDIR": str(temporary)}
    return {**os.environ, "PYTHONPATH": str(SOURCE), **own, **more}


def command(*words, limits=None):
    program = [sys.executable, "-m", "ellipsum", *map(str, words)]
    return [sys.executable, "-c", LAUNCH, json.dumps(limits or {}), *program]


def run(*words, temporary=None, limits=None, settings=None, **more):
    """In a process that was started for it, where there is anything unusual about it."""
    if temporary is None and not limits and not settings and not more:
        return commands.run(*words)
    kept = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL} | more
    environment = surroundings(temporary, **(settings or {}))
    return subprocess.run(command(*words, limits=limits), text=True, timeout=300, env=environment, **kept)


def shell(line, *words, **settings):
    """A line of shell, in which "$@" is the command."""
    return subprocess.run(
        ["bash", "-c", line, "bash", *command(*words)],
        capture_output=True,
        text=True,
        timeout=300,
        env=surroundings(**settings),
    )


def honest(done, code, word=""):
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert word in last


def write_people(path, rows=300):
    lines = [f"{20 + i % 50},{1000 + i % 3000},{SECRET}{i}" for i in range(rows)]
    path.write_text("age,income,name\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture
def people(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    return write_people(folder / "people.csv")


@pytest.fixture(scope="session")
def endless(tmp_path_factory):
    """Files that take far longer to read than any signal waits."""
    folder = tmp_path_factory.mktemp("endless")
    first = write_people(folder / "0.csv", 200_000)
    for k in range(1, 800):
        (folder / f"{k}.csv").hardlink_to(first)
    return folder


# Signals -------------------------------------------------------------------------------------------------

ENDINGS = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129, "SIGQUIT": 131}
LONG_RUNS = {
    "mean": ["mean", *BOUNDS, *BUDGET, "-o", "{out}/o.json", "--save-plan", "{out}/p.json"],
    "people": ["mean", *BOUNDS, *BUDGET, "--privacy-id", "name", "-o", "{out}/o.json"],
    "learn": ["learn", "--columns", "age,income", "--magnitude", "1e6", *BUDGET, "-o", "{out}/o.json"],
    "project": ["project", *PROJECT, "-o", "{out}/o.parquet"],
}


def listens(process):
    """Whether the handlers stand: before that, a signal ends a process by itself."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = int(re.search(r"SigCgt:\s*([0-9a-f]+)", status)[1], 16)
    return bool(caught >> (signal.SIGQUIT - 1) & 1)


def start(name, endless, folder):
    (folder / "out").mkdir(parents=True)
    (folder / "temporary").mkdir()
    first, *rest = LONG_RUNS[name]
    words = [first, endless, *(word.format(out=folder / "out") for word in rest)]
    process = subprocess.Popen(
        command(*words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=surroundings(folder / "temporary"),
    )
    deadline = time.monotonic() + 120
    while not listens(process):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.002)
    return process


def left(folder):
    return sorted(p.name for part in ("out", "temporary") for p in (folder / part).iterdir())


def signalled(name, endless, folder, delay, *signals):
    """What is wrong after these signals, a few milliseconds apart; nothing, it is to be hoped."""
    process = start(name, endless, folder)
    time.sleep(delay)
    for how in signals:
        process.send_signal(getattr(signal, how))
        time.sleep(0.005)
    out, err = process.communicate(timeout=120)
    said = err.splitlines()[-1:] == ["interrupted: nothing was written."] and "Traceback" not in err
    fine = process.returncode == ENDINGS[signals[0]] and said and out == "" and left(folder) == []
    return [] if fine else [(name, signals, delay, process.returncode, err[-500:], left(folder))]


def at_random_moments(cases, endless, tmp_path):
    with ThreadPoolExecutor(3) as pool:
        runs = [
            pool.submit(signalled, name, endless, tmp_path / str(i), delay, *signals)
            for i, (name, delay, *signals) in enumerate(cases)
        ]
        return [wrong for each in runs for wrong in each.result()]


def test_signals_at_random_moments_leave_nothing_behind(endless, tmp_path, count):
    """Every run and every signal twice; the slow test has all pairs."""
    moments = random.Random(9)
    pairs = [*zip(LONG_RUNS, ENDINGS, strict=True), *zip(LONG_RUNS, reversed(ENDINGS), strict=True)]
    cases = [(name, moments.uniform(0, 3), how) for name, how in pairs]
    cases += [("people", 3.0, "SIGHUP", "SIGTERM", "SIGINT")]
    count(len(cases))
    assert at_random_moments(cases, endless, tmp_path) == []


@pytest.mark.slow
def test_signals_at_many_random_moments_leave_nothing_behind(endless, tmp_path, count):
    moments = random.Random(11)
    cases = [(name, moments.uniform(0, 6) ** 1.2, how) for name in LONG_RUNS for how in ENDINGS for _ in range(4)]
    cases += [("project", 3.0, "SIGINT", "SIGINT", "SIGINT")]
    count(len(cases))
    assert at_random_moments(cases, endless, tmp_path) == []


def test_what_a_kill_leaves_is_removed_by_the_next_run(endless, tmp_path, people, count):
    process = start("people", endless, tmp_path)
    folder = tmp_path / "temporary"
    deadline = time.monotonic() + 120
    while not list(folder.glob("*/in-use")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert list((tmp_path / "out").iterdir()) == []
    done = run("mean", people, *BOUNDS, *BUDGET, "--privacy-id", "name", "--json", temporary=folder)
    assert done.returncode == 0, done.stderr
    assert left(tmp_path) == []
    count(1)


IMPORTING = """
import importlib.abc, os, signal, sys
module = sys.argv.pop(1)
class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == module:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from ellipsum.apps import cli
cli.main()
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "module", ["typer", "rich.console", "numpy", "pyarrow", "flint", "numba", "ellipsum.noise.quantile_table"]
)
def test_an_interrupt_during_an_import(people, module, count):
    words = [sys.executable, "-c", IMPORTING, module, "mean", str(people), *BOUNDS, *BUDGET]
    done = subprocess.run(words, capture_output=True, text=True, env=surroundings(), timeout=120)
    assert done.returncode == 130, done.stderr
    assert done.stderr.splitlines()[-1] == "interrupted: nothing was written."
    assert "Traceback" not in done.stderr
    count(1)


EXECUTING = """
import sys
from ellipsum.apps import cli
from ellipsum.apps.cli.commands import app
app.registered_commands[0].callback = lambda: exec("import os, signal; os.kill(os.getpid(), signal.SIGTERM); 1 + 1")
sys.argv[:] = ["ellipsum", "sum"]
cli.main()
"""


def test_an_interrupt_in_code_that_python_makes():
    """Dataclasses and named tuples are made by exec, where an interrupt marks the process to die of SIGINT."""
    done = subprocess.run([sys.executable, "-c", EXECUTING], capture_output=True, text=True, env=surroundings())
    assert done.returncode == 143
    assert done.stderr == "interrupted: nothing was written.\n"


def test_a_signal_that_is_ignored_stays_ignored(people):
    """nohup, and jobs that a script puts in the background."""
    line = "trap '' HUP; \"${@:5}\" & trap - HUP; sleep 1; kill -HUP $!; wait $!"
    done = shell(line, "mean", people, *BOUNDS, *BUDGET, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["columns"] == ["age", "income"]


HELD = """
import os, signal
from ellipsum.util import interrupts
interrupts.listen()
try:
    with interrupts.held():
        os.kill(os.getpid(), signal.SIGTERM)
        print("whole")
    print("torn")
except KeyboardInterrupt:
    print("raised")
os.kill(os.getpid(), signal.SIGTERM)  # the same wish again: cleaning up goes on
print("cleaned")
"""


def test_steps_that_belong_together_are_not_torn_apart():
    done = subprocess.run([sys.executable, "-c", HELD], capture_output=True, text=True, env=surroundings())
    assert done.stdout.split() == ["whole", "raised", "cleaned"], done.stderr


# Outputs on inputs, and on what is no file ---------------------------------------------------------------


def outputs_on_inputs(folder, people):
    """Words that would lose something: (name, command, files that must stay as they are)."""
    copy = folder / "copy.csv"
    copy.hardlink_to(people)
    link = folder / "link.csv"
    link.symlink_to(people)
    bounds = folder / "bounds.json"
    bounds.write_text('{"age": [0, 120], "income": [0, 5000]}')
    plan = folder / "plan.json"
    made = es.plan("mean", es.Box({"age": (0, 120)}), n=300, epsilon=1, delta=1e-6)
    plan.write_text(made.to_json())
    database = folder / "people.db"
    database.write_bytes(b"SQLite format 3\0")
    mean = ["mean", people, *BOUNDS, *BUDGET]
    stated = ["--bounds", bounds, *BUDGET]
    return {
        "the input itself": [*mean, "-o", people],
        "another spelling": [*mean, "-o", f"{folder}/../{folder.name}/people.csv"],
        "a hard link": [*mean, "-o", copy],
        "a link": [*mean, "-o", link],
        "an input that is a link": ["mean", link, *BOUNDS, *BUDGET, "-o", people],
        "a glob": ["mean", folder / "*.csv", *BOUNDS, *BUDGET, "-o", people],
        "a folder": ["sum", folder, *BOUNDS, *BUDGET, "-o", people],
        "a saved plan on an input": [*mean, "--save-plan", people],
        "the bounds": ["mean", people, *stated, "-o", bounds],
        "the plan": ["mean", people, "--plan", plan, "-o", plan],
        "a plan on its bounds": ["plan", "--n", "10", *stated, "-o", bounds],
        "learned bounds": ["mean", people, "--bounds", plan, *BUDGET, "-o", plan],
        "learning": ["learn", people, "--magnitude", "1e6", *BUDGET, "-o", people],
        "a projection": ["project", people, *PROJECT, "-o", people],
        "a database": ["mean", f"sqlite:///{database}", "--sql", "select 1", *BOUNDS, *BUDGET, "-o", database],
        "a file in a query": [
            *("mean", "duckdb://", "--sql", f"select * from '{people}'", *BOUNDS, *BUDGET, "-o", people),
        ],
        "two results": [*mean, "-o", folder / "x.json", "--save-plan", f"{folder}/./x.json"],
    }


def kept(folder):
    return {p.name: (p.is_symlink(), p.read_bytes()) for p in folder.iterdir() if p.is_file()}


def test_an_output_never_replaces_what_is_read(people, count):
    folder = people.parent
    cases = outputs_on_inputs(folder, people)
    before = kept(folder)
    for name, words in cases.items():
        done = run(*words)
        assert done.stdout == "", name
        honest(done, 2)
        assert "Plan:" not in done.stderr, f"{name}: something was read first"
    assert kept(folder) == before
    count(len(cases))


def odd_targets(folder):
    """What is no plain file, of our own: a machine whose /dev/null was replaced is no fun."""
    os.mkfifo(folder / "pipe")
    (folder / "dangling").symlink_to(folder / "nowhere")
    (folder / "output").symlink_to("/dev/stdout")
    found = [folder / "pipe", folder / "dangling", folder / "output"]
    with suppress(PermissionError):  # devices are for root
        os.mknod(folder / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
        found.append(folder / "device")
    return found


def kinds(targets):
    return [stat.S_IFMT(os.lstat(target).st_mode) for target in targets]


def test_an_output_is_a_plain_file(people, count):
    targets = odd_targets(people.parent)
    before = kinds(targets)
    for target in targets:
        honest(run("mean", people, *BOUNDS, *BUDGET, "-o", target), 2, "writing would replace")
    honest(run("project", people, *PROJECT, "-o", targets[0]), 2, "a pipe")
    assert kinds(targets) == before
    assert not (people.parent / "nowhere").exists()
    count(len(targets) + 1)


def test_the_library_replaces_plain_files_only(tmp_path):
    x = np.random.default_rng(1).random((50, 3))
    release = es.mean(x, es.Box(0, 1), epsilon=1, delta=1e-6)
    with pytest.warns(es.ProjectionWarning):
        projection = es.project(x, 2, es.Box(0, 1), epsilon=1, delta=1e-6)
    real = tmp_path / "real"
    real.write_text("mine")
    (tmp_path / "link").symlink_to(real)
    targets = [*odd_targets(tmp_path), tmp_path / "link"]
    names, before = sorted(os.listdir(tmp_path)), kinds(targets)
    for target in targets:
        for save in (release.save, projection.save):
            with pytest.raises(es.UsageError, match="writing would replace"):
                save(target)
    assert real.read_text() == "mine"
    release.save(real)
    assert es.from_json(real.read_text()).columns == release.columns
    assert (sorted(os.listdir(tmp_path)), kinds(targets)) == (names, before)


def test_a_projection_does_not_replace_its_data(tmp_path):
    import pyarrow as pa
    import pyarrow.dataset
    import pyarrow.parquet as pq

    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": np.random.default_rng(1).random(50)}), path)
    before = path.read_bytes()
    query = es.sql(f"select a from '{path}'", "duckdb://")
    for data in (path, str(path), [path], str(tmp_path), tmp_path / "*.parquet", pa.dataset.dataset(path), query):
        with pytest.raises(es.UsageError, match="is an input"):
            es.project(data, 1, es.Box(0, 1), epsilon=200, delta=1e-6, output=path)
    assert path.read_bytes() == before


# Outputs that are full, closed or speak another language -------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize("how", [[], ["--json"]], ids=["table", "json"])
def test_a_full_standard_output(people, how, count):
    with open("/dev/full", "w") as full:
        honest(run("mean", people, *BOUNDS, *BUDGET, *how, stdout=full), 4, UNFORESEEN)
    done = shell('"$@" > /dev/full', "mean", people, *BOUNDS, *BUDGET, *how, "-o", people.parent / "o.json")
    honest(done, 4, UNFORESEEN)
    assert es.from_json((people.parent / "o.json").read_text()).columns == (
        "age",
        "income",
    )  # paid for, and kept
    count(2)


def test_a_reader_that_goes_away(people, count):
    for words in (["mean", people, *BOUNDS, *BUDGET, "--json"], ["mean", "--help"]):
        done = shell('set -o pipefail; "$@" | true', *words)
        assert done.returncode == 141
        assert "error: " not in done.stderr
    count(2)


def test_standard_streams_that_are_closed(people, count):
    words = ["mean", people, *BOUNDS, *BUDGET]
    honest(shell('"$@" >&-', *words), 4, "standard output is closed")
    without = shell('"$@" 2>&-', *words, "--json")
    assert without.returncode == 0
    assert json.loads(without.stdout)["columns"] == ["age", "income"]
    assert shell('"$@" 0<&- >&- 2>&-', *words).returncode == 4
    assert shell('"$@" 2>/dev/full', *words).returncode == 4
    count(4)


@pytest.mark.slow
def test_nobody_to_ask(people):
    asked = shell('"$@" 0<&-', "mean", people, *BOUNDS, "--epsilon", "0.001", "--delta", "1e-6", "--json")
    assert (asked.returncode, asked.stdout) == (1, ""), asked.stderr


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "settings",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}],
    ids=["encoding", "locale"],
)
def test_a_locale_without_the_characters(tmp_path, settings, count):
    path = tmp_path / "a.csv"
    path.write_text("größe,年\n" + "1,2\n" * 50, encoding="utf-8")
    done = run("mean", path, "--bounds", "0:3", *BUDGET, settings=settings)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert "gr\\xf6\\xdfe" in done.stdout
    assert "\\u5e74" in done.stdout
    machine = run("mean", path, "--bounds", "0:3", *BUDGET, "--json", settings=settings)
    assert json.loads(machine.stdout)["columns"] == ["größe", "年"]
    count(2)


LONG = "x" * 5000


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["mean", "~nouser/x.csv", *BOUNDS, *BUDGET], 4),
        (["mean", LONG, *BOUNDS, *BUDGET], 4),
        (["mean", "{csv}", *BOUNDS, *BUDGET, "-o", LONG], 4),
        (["mean", "{csv}", *BOUNDS, *BUDGET, "--save-plan", LONG], 4),
        (["mean", "{csv}", "--bounds", f"{LONG}.json", *BUDGET], 4),
        (["mean", "{csv}", "--plan", LONG], 4),
        (["mean", "{csv}", "--bounds", f"{LONG}=0:1", *BUDGET], 2),
        (["project", "{csv}", *PROJECT, "-o", LONG], 4),
        (["reproduce", "--quick", "-o", "{csv}"], 4),
        (["mean", "{folder}/\x1b[31mred.csv", *BOUNDS, *BUDGET], 4),
        (["mean", "{csv}", *BOUNDS, *BUDGET, "-o", "\x1b]0;title\x07/o.json"], 4),
        (["mean", "{csv}", *BOUNDS, *BUDGET, "--shape", "\x1b[2J"], 2),
        (["m\x1b[2Jn"], 2),
    ],
    ids=str,
)
def test_names_of_every_kind(people, words, code, count):
    done = run(*(word.format(csv=people, folder=people.parent) for word in words))
    honest(done, code)
    assert done.stderr.isprintable() or re.search(r"[^\n\x20-\x7e]", done.stderr) is None
    assert max(map(len, done.stderr.splitlines())) < 3000
    count(1)


def test_a_long_name_is_a_name(people):
    target = people.parent / ("x" * 250)
    assert run("mean", people, *BOUNDS, *BUDGET, "-o", target).returncode == 0
    assert target.exists()


# Full disks and few handles ------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def crowd(tmp_path_factory):
    return write_people(tmp_path_factory.mktemp("crowd") / "people.csv", 100_000)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("limit", [0, 1000, 500_000])
def test_a_full_temporary_folder_while_people_are_grouped(crowd, temporary, limit, count):
    words = ["mean", crowd, *BOUNDS, *BUDGET, "--privacy-id", "name", "--json"]
    done = run(*words, temporary=temporary, limits={"RLIMIT_FSIZE": limit})
    honest(done, 4, "temporary files")
    assert done.stdout == ""
    assert list(temporary.iterdir()) == []
    count(1)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["mean", "learn", "project"])
def test_a_full_disk_leaves_no_half_of_a_result(crowd, tmp_path, name, count):
    folder = tmp_path / "out"
    folder.mkdir()
    first, *rest = LONG_RUNS[name]
    words = [first, crowd, *(word.format(out=folder) for word in rest)]
    done = run(*words, limits={"RLIMIT_FSIZE": 100})
    honest(done, 4, "Could not write")
    assert list(folder.iterdir()) == []
    count(1)


def test_a_disk_that_is_really_full(crowd, tmp_path, count):
    """A file system of its own, where the machine lets us make one."""
    small = tmp_path / "small"
    small.mkdir()
    line = f'mount -t tmpfs -o size=200k none "{small}" || exit 77; TMPDIR="{small}" "$@"'
    words = ["mean", crowd, *BOUNDS, *BUDGET, "--privacy-id", "name"]
    inside = ["unshare", "-rm", "bash", "-c", line, "bash", *command(*words)]
    try:
        done = subprocess.run(inside, capture_output=True, text=True, env=surroundings(), timeout=300)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no file system of our own here")
    honest(done, 4, "temporary files")
    count(1)


# Python itself needs some handles before anything of ours runs.
FEW = """
import resource, sys
from ellipsum.apps import cli
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
cli.main()
"""


@pytest.mark.slow
def test_few_file_handles(people, temporary, count):
    limits = [3, 4, 5, 6, 8, 48]
    words = ["mean", people, *BOUNDS, *BUDGET, "--privacy-id", "name", "--json"]

    def attempt(limit):
        program = [sys.executable, "-c", FEW, limit, *words]
        return subprocess.run(list(map(str, program)), capture_output=True, text=True, env=surroundings(temporary))

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(attempt, limits))
    for limit, done in zip(limits, found, strict=True):
        if done.returncode != 0:
            honest(done, 4)
            assert done.stdout == "", limit
    assert found[0].returncode == 4
    assert found[-1].returncode == 0
    assert list(temporary.iterdir()) == []
    count(len(limits))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("target", ["/proc/o.json", "/dev/null/o.json", "/nonexistent/o.json"])
def test_folders_that_cannot_be_written(people, target, count):
    honest(run("mean", people, *BOUNDS, *BUDGET, "-o", target), 4, target)
    honest(run("project", people, *PROJECT, "-o", target), 4, target)
    count(2)


# The cache of compiled code ------------------------------------------------------------------------------

NOWHERE = {
    **dict.fromkeys(("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"), "/dev/null/none"),
    "PYTHONDONTWRITEBYTECODE": "1",
}


@pytest.fixture
def frozen(tmp_path):
    """A copy of the package that nothing can be written to, by root neither: where caches belong there are files."""
    home = tmp_path / "installed"
    for path in (SOURCE / "ellipsum").rglob("*.py"):
        copy = home / path.relative_to(SOURCE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    for folder in {path.parent for path in home.rglob("*.py")}:
        (folder / "__pycache__").write_text("")
    return {"PYTHONPATH": str(home), **NOWHERE}


EVERYTHING = """
import importlib, pkgutil, ellipsum
for found in pkgutil.walk_packages(ellipsum.__path__, "ellipsum."):
    text = open(found.module_finder.find_spec(found.name).origin).read()
    if "compiled" in text and "spark" not in found.name:
        importlib.import_module(found.name)
        print(found.name)
"""


def test_every_kernel_loads_where_no_cache_can_be_written(frozen):
    environment = os.environ | frozen
    done = subprocess.run([sys.executable, "-c", EVERYTHING], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) >= 10


@pytest.mark.slow
def test_it_runs_where_no_cache_can_be_written(frozen, people, count):
    done = run("mean", people, *BOUNDS, *BUDGET, "--privacy-id", "name", "--json", settings=frozen)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["columns"] == ["age", "income"]
    count(1)


TINY = """
from ellipsum.util.compile import compiled
@compiled
def twice(x):
    return 2 * x
assert twice(21) == 42
print(sum(twice.stats.cache_hits.values()))
"""


def _flip(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


DAMAGES = {"emptied": lambda data: b"", "cut": lambda data: data[: len(data) // 2], "flipped": _flip}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_is_made_anew(tmp_path, suffix, damage, count):
    (tmp_path / "tiny.py").write_text(TINY)
    environment = surroundings(NUMBA_CACHE_DIR=str(tmp_path / "cache"))

    def hits():
        words = [sys.executable, str(tmp_path / "tiny.py")]
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    assert hits() == 0
    (file,) = (tmp_path / "cache").rglob(f"*.{suffix}")
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    assert hits() == 0
    assert hits() == 1
    count(1)


def test_a_disk_that_is_full_where_the_cache_is(tmp_path, count):
    (tmp_path / "tiny.py").write_text(TINY)
    words = [sys.executable, "-c", LAUNCH, '{"RLIMIT_FSIZE": 10}', sys.executable, str(tmp_path / "tiny.py")]
    environment = surroundings(NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.rglob("*.nbc")) == []
    count(1)


# Words that are wrong ------------------------------------------------------------------------------------

# One process that forks for each case: a few milliseconds each.
FORKED = """
import json, os, sys
from ellipsum.apps import cli
from ellipsum.apps.cli import commands, output, parsing, requests
import ellipsum.kernels.ellipsoid, ellipsum.kernels.histograms, ellipsum.api, ellipsum.projection.run
import ellipsum.sources.csv
def end(words):
    os.dup2(os.open("out", os.O_RDWR | os.O_CREAT | os.O_TRUNC), 1)
    os.dup2(os.open("err", os.O_RDWR | os.O_CREAT | os.O_TRUNC), 2)
    sys.argv[:] = ["ellipsum", *words]
    code = 99
    try:
        cli.main()
    except SystemExit as ending:
        code = ending.code
    finally:
        os._exit(code)
found = []
for words in json.load(sys.stdin):
    child = os.fork()
    if child == 0:
        end(words)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    found.append((words, code, open("out").read(), open("err").read()))
json.dump(found, sys.stdout)
"""
ODD = ["", "-1", "0", "nan", "inf", "1e308", "1e400", "abc", "1.5", "a,,b", "age=", "=0:1", "age=1:0", "age=nan:1", ":"]
ODD += ["none.json", "bad.json", "~nouser/x", "\x1b[31m", "[/red]", '"', "\\", "9" * 400, "x" * 400, "{}", "*", "é"]
RIGHT = {
    "sum": ["sum", "people.csv", *BOUNDS, *BUDGET],
    "mean": ["mean", "people.csv", *BOUNDS, *BUDGET],
    "plan": ["plan", "--n", "300", *BOUNDS, *BUDGET],
    "learn": ["learn", "people.csv", "--columns", "age,income", "--magnitude", "1e6", *BUDGET],
    "project": ["project", "people.csv", *PROJECT, "-o", "sketch.parquet"],
    "reproduce": ["reproduce", "--quick", "-o", "people.csv"],
    "demo": ["demo", "--rows", "0"],
}


def in_forks(cases, folder):
    (folder / "bad.json").write_text("[[[")
    work = subprocess.run(
        [sys.executable, "-c", FORKED],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        cwd=folder,
        env=surroundings(),
        timeout=1200,
    )
    assert work.returncode == 0, work.stderr
    return json.loads(work.stdout)


def options(folder):
    """The options of every command, as its help tells them."""
    found = in_forks([[name, "--help"] for name in RIGHT], folder)
    assert [code for _, code, _, _ in found] == [0] * len(RIGHT)
    return {words[0]: sorted(set(re.findall(r"--[a-z][a-z-]+", out)) - {"--help"}) for words, _, out, _ in found}


def wrong_words(folder, chosen):
    for name, found in options(folder).items():
        assert found
        if name == "reproduce":
            found.remove("--output")  # it would do its long work
        pairs = [[*RIGHT[name], option, value] for option in found for value in ODD]
        yield from chosen([*pairs, *([name, value] for value in ODD), [*RIGHT[name], "--color", "red"]])


def check_words(found):
    for words, code, out, err in found:
        is_declined = code == 1 and "No budget was spent. Add --yes" in err  # the expected error is too large
        assert is_declined or code in (0, 2, 3, 4), (words, err)
        assert "Traceback" not in err + out, words
        assert UNFORESEEN not in err, words
        assert re.search(r"[\x00-\x09\x0b-\x1f\x7f]", err) is None, words
        if code:
            assert out == "", words
            assert err.splitlines()[-1].startswith("error: "), (words, err)


@pytest.mark.slow
def test_wrong_words_are_told_plainly(people, count):
    moments = random.Random(3)
    cases = list(wrong_words(people.parent, lambda pairs: moments.sample(pairs, 12)))
    check_words(in_forks(cases, people.parent))
    count(len(cases))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(16))
def test_all_wrong_words_are_told_plainly(part, people, count):
    cases = list(wrong_words(people.parent, lambda pairs: pairs))[part::16]
    check_words(in_forks(cases, people.parent))
    count(len(cases))
