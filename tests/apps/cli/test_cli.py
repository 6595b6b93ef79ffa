"""The command line as a user runs it: a process each."""

import gzip
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import run

import ellipsum as es

SECRET = "SENTINELCELL"
BUDGET = ["--epsilon", "1", "--delta", "1e-6"]
BOUNDS = ["--bounds", "age=0:120", "--bounds", "income=0:5000"]


def refused(done, code, word):
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert word in last
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stderr


@pytest.fixture
def people(tmp_path):
    """300 people; the text column is not chosen."""
    path = tmp_path / "people.csv"
    lines = [f"{20 + i % 50},{1000 + 10 * i},{SECRET}{i}" for i in range(300)]
    path.write_text("age,income,name\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture
def people_parquet(tmp_path):
    path = tmp_path / "people.parquet"
    table = pa.table({
        "age": pa.array([20 + i % 50 if i != 7 else None for i in range(300)], pa.int16()),
        "income": pa.array([Decimal(1000 + 10 * i) / 4 for i in range(300)], pa.decimal128(12, 2)),
        "name": pa.array([f"{SECRET}{i}" for i in range(300)]),
        "visits": pa.array([[1, 2]] * 300),
    })  # fmt: skip
    pq.write_table(table, path)
    return path


def test_mean_of_a_csv_as_json(people):
    done = run("mean", people, *BOUNDS, *BUDGET, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["columns"] == ["age", "income"]
    assert found["version"] == es.__version__
    assert found["secure"] is True
    truth = np.array([44.5, 2495.0])
    release = es.from_json(done.stdout)
    # 6.4 noise stds: a false alarm in 3e9 runs.
    assert (abs(release.value - truth) < 6.4 * release.noise_std + 1e-9).all()
    assert re.match(
        r"mean of 2 columns, n = 300: expected error age .*, income .*\. Requested: epsilon = 1", done.stderr
    )
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.slow
def test_numbers_that_json_does_not_have_are_refused_before_anything_is_read(people, tmp_path):
    for command in (
        ["sum", people, "--columns", "age"],
        ["mean", people, "--columns", "age"],
        ["plan", "--n", "9", "--d", "2"],
    ):
        done = run(*command, "--radius", "1e308", *BUDGET, "--json")
        refused(done, 2, "too large for doubles")
        assert done.stdout == ""
    bounds = tmp_path / "bounds.json"
    for text in (
        '{"age": [0, 1e999]}',
        '{"age": [0, NaN]}',
        '{"age": [0, 1], "age": [0, 2]}',
        "[" * 10**5,
        '{"age": 3}',
    ):
        bounds.write_text(text)
        refused(run("sum", people, "--bounds", bounds, *BUDGET), 2, "--bounds")


def test_the_same_words_serve_parquet_with_nulls_decimals_and_nested_columns(people_parquet):
    done = run("sum", people_parquet, *BOUNDS, *BUDGET, "--json")
    assert done.returncode == 0, done.stderr
    release = es.from_json(done.stdout)
    ages = np.array([20 + i % 50 if i != 7 else 60 for i in range(300)])
    truth = np.array([ages.sum(), sum((1000 + 10 * i) / 4 for i in range(300))])
    assert (abs(release.value - truth) < 6.4 * release.noise_std).all()


@pytest.mark.slow
def test_normal_rows_from_words_and_files(tmp_path, people):
    words = ["--normal", "age=45:15", "--normal", "income=2500:900", "--center-error", "0.3"]
    done = run("mean", people, *words, *BUDGET, "--json")
    assert done.returncode == 0, done.stderr
    found = es.from_json(done.stdout)
    assert found.columns == ("age", "income")
    assert found.plan.rows.kind == "normal"
    table = tmp_path / "normal.csv"
    table.write_text("column,mean,std\nage,45,15\nincome,2500,900\n")
    again = run("mean", people, "--normal", table, "--center-error", "0.3", *BUDGET, "--json")
    assert json.loads(again.stdout)["plan"] == json.loads(done.stdout)["plan"]
    refused(run("mean", people, "--normal", "age=45:-1", *BUDGET), 2, "std")
    refused(run("mean", people, "--normal", "age=45", *BUDGET), 2, "NAME=MEAN:STD")


def test_people_get_a_table(people):
    done = run("mean", people, "--columns", "age", "--radius", "60", "--center", "60", *BUDGET)
    assert done.returncode == 0
    assert "Differentially private mean" in done.stdout
    assert "age" in done.stdout
    assert "epsilon = 1, delta = 1e-06" in done.stdout


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "content",
    [
        "age,income\n30,100\nabc,200\n,300\n",
        '"age","income"\n"30","100"\n"a, ""quoted"" cell","200"\n',
        "\ufeffage,income\n30,100\n",
        "age,income\r\n30,100\r\n40,200\r\n",
        "age,income\n30,100\n40\n50,60,70\n",
        'age,income\n"3\n0",100\n',
        "age,income",
        "age,income\n",
    ],
    ids=["text", "quotes", "mark", "windows", "ragged", "newline", "header", "header-line"],
)
def test_files_as_they_really_are(tmp_path, content):
    path = tmp_path / "a.csv"
    path.write_bytes(content.encode())
    done = run("sum", path, *BOUNDS, *BUDGET, "--neighbors", "add-remove", "--json")
    assert done.returncode == 0, done.stderr
    assert np.isfinite(json.loads(done.stdout)["value"]).all()


@pytest.mark.slow
def test_a_header_of_many_columns_alone(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{i}" for i in range(200_000)) + "\n")
    done = run("sum", path, "--radius", "1", *BUDGET, "--neighbors", "add-remove", "--output", tmp_path / "o.json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads((tmp_path / "o.json").read_text())["value"]) == 200_000


def test_gzip(tmp_path, people):
    path = tmp_path / "people.csv.gz"
    path.write_bytes(gzip.compress(people.read_bytes()))
    assert run("mean", path, *BOUNDS, *BUDGET, "--json").returncode == 0


@pytest.mark.slow
def test_bounds_from_files_and_for_every_column(tmp_path, people):
    as_json, as_csv = tmp_path / "b.json", tmp_path / "b.csv"
    as_json.write_text('{"age": [0, 120], "income": [0, 5000]}')
    as_csv.write_text("column,lower,upper\nage,0,120\nincome,0,5000\n")
    wanted = run("plan", "--n", "300", *BOUNDS, *BUDGET, "--json").stdout
    for path in (as_json, as_csv):
        assert run("plan", "--n", "300", "--bounds", path, *BUDGET, "--json").stdout == wanted
    done = run("sum", people, "--columns", "age,income", "--bounds=-1:5000", *BUDGET, "--json")
    assert done.returncode == 0, done.stderr


def test_a_saved_plan_is_run_again(tmp_path, people):
    plan = tmp_path / "plan.json"
    first = run("mean", people, *BOUNDS, *BUDGET, "--save-plan", plan, "--json")
    assert first.returncode == 0
    again = run("mean", people, "--plan", plan, "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["plan"] == json.loads(first.stdout)["plan"]
    refused(run("mean", people, "--plan", plan, "--epsilon", "2"), 2, "--epsilon")
    refused(run("sum", people, "--plan", plan), 2, "ellipsum mean")
    refused(run("mean", people, "--plan", tmp_path / "none.json"), 4, "plan")
    plan.write_text("{}")
    refused(run("mean", people, "--plan", plan), 2, "format")


def test_plan_forecasts_without_data():
    done = run("plan", "--n", "10000", *BOUNDS, "--statistic", "mean", *BUDGET)
    assert done.returncode == 0
    assert "expected error" in done.stdout
    assert done.stderr == ""


def test_version_and_help():
    assert run("--version").stdout.strip() == f"ellipsum {es.__version__}"
    assert "mean" in run("--help").stdout
    assert run().returncode == 2


@pytest.mark.slow
def test_help_examples_run(people):
    """Every `ellipsum ...` line in a command's help is executed as it stands; the studio's are in tests_browser."""
    from ellipsum.apps.cli.commands import app

    lines = people.read_text().splitlines()
    people.write_text("\n".join([f"{lines[0]},city", *(f"{line},Oslo" for line in lines[1:] * 10)]) + "\n")

    texts = [command.callback.__doc__ for command in app.registered_commands if command.name != "studio"]
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip().startswith("ellipsum ")]
    assert len(lines) >= len(texts)
    for line in lines:
        done = run(*line.split()[1:], cwd=people.parent)
        assert done.returncode == 0, f"{line}: {done.stderr}"


def test_an_engine_and_a_query_are_refused_together(people):
    done = run("mean", str(people), *BOUNDS, *BUDGET, "--engine", "spark", "--sql", "select 1")
    assert done.returncode == 2
    assert "--engine cannot be used with --sql" in done.stderr


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("words", "code", "word"),
    [
        (["mean", *BOUNDS, *BUDGET], 2, "FILE"),
        (["mean", "{csv}", *BUDGET], 2, "--bounds"),
        (["mean", "{csv}", *BOUNDS, "--delta", "1e-6"], 2, "--epsilon"),
        (["mean", "{csv}", *BOUNDS, "--epsilon", "1"], 2, "--delta"),
        (["mean", "{csv}", *BOUNDS, "--epsilon", "0", "--delta", "1e-6"], 2, "epsilon"),
        (["mean", "{csv}", *BOUNDS, "--epsilon", "one", "--delta", "1e-6"], 2, "--epsilon"),
        (["mean", "{csv}", *BOUNDS, "--epsilon", "1", "--delta", "1"], 2, "delta"),
        (["mean", "{csv}", "--bounds", "height=0:2", *BUDGET], 2, "height"),
        (["mean", "{csv}", "--bounds", "age=120:0", *BUDGET], 2, "lower"),
        (["mean", "{csv}", "--bounds", "age=0-120", *BUDGET], 2, "NAME=LO:HI"),
        (["mean", "{csv}", "--bounds", "age=0:1", "--bounds", "age=0:2", *BUDGET], 2, "twice"),
        (["mean", "{csv}", "--columns", "age", *BOUNDS, *BUDGET], 2, "income"),
        (["mean", "{csv}", "--columns", "age,name", "--bounds", "age=0:1", *BUDGET], 2, "name"),
        (["mean", "{csv}", "--columns", "age,,income", "--radius", "1", *BUDGET], 2, "empty"),
        (["mean", "{csv}", *BOUNDS, "--radius", "1", *BUDGET], 2, "describe the same values"),
        (["mean", "{csv}", "--radius", "-1", *BUDGET], 2, "radius"),
        (["mean", "{csv}", "--radius", "1", "--center", "a,b", *BUDGET], 2, "--center"),
        (["mean", "{csv}", *BOUNDS, *BUDGET, "--neighbors", "swap"], 2, "neighbors"),
        (["mean", "{csv}", *BOUNDS, *BUDGET, "--shape", "cube"], 2, "--shape must be one of"),
        (["mean", "{csv}", *BOUNDS, *BUDGET, "--color", "red"], 2, "--color"),
        (["mean", "{parquet}", "--columns", "age,name", "--radius", "1", *BUDGET], 2, "name"),
        (["mean", "{parquet}", "--columns", "visits", "--radius", "1", *BUDGET], 2, "visits"),
        (["mean", "{folder}/none.csv", *BOUNDS, *BUDGET], 4, "none.csv"),
        (["mean", "{folder}/empty", *BOUNDS, *BUDGET], 4, "empty"),
        (["mean", "{folder}/truncated.parquet", *BOUNDS, *BUDGET], 4, "truncated.parquet"),
        (["mean", "{csv}", *BOUNDS, *BUDGET, "--output", "{folder}/none/out.json"], 4, "out.json"),
        (["mean", "{csv}", *BOUNDS, *BUDGET, "--output", "/proc/out.json"], 4, "out.json"),
        (["mean", "{csv}", "--bounds", "{folder}/none.json", *BUDGET], 4, "none.json"),
        (["plan", *BOUNDS, *BUDGET], 2, "n is missing"),
        (["plan", "--n", "10", "--radius", "1", *BUDGET], 2, "d is missing"),
        (["meen"], 2, "meen"),
        (["demo", "--rows", "0"], 2, "rows"),
    ],
)
def test_what_must_be_refused(tmp_path, people, people_parquet, words, code, word):
    (tmp_path / "empty").mkdir()
    whole = people_parquet.read_bytes()
    (tmp_path / "truncated.parquet").write_bytes(whole[: len(whole) // 2])
    before = sorted(p.name for p in tmp_path.iterdir())
    filled = [w.format(csv=people, parquet=people_parquet, folder=tmp_path) for w in words]
    refused(run(*filled), code, word)
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_empty_data_under_replace_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("age,income\n")
    refused(run("mean", path, *BOUNDS, *BUDGET), 2, "no rows")


@pytest.fixture(scope="session")
def endless(tmp_path_factory):
    """Files that take far longer to read than the interrupts below wait."""
    folder = tmp_path_factory.mktemp("endless")
    first = folder / "0.csv"
    first.write_text("age,income,name\n" + "".join(f"{20 + i % 50},{i},text{i}\n" for i in range(200_000)))
    for k in range(1, 800):
        (folder / f"{k}.csv").hardlink_to(first)
    return folder


@pytest.mark.one_in(3)
@pytest.mark.parametrize("delay", [0.1, 0.3, 0.6, 1.0, 1.5, 2.5])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing_behind(tmp_path, endless, delay, how):
    if how is signal.SIGTERM and delay < 1.5:
        pytest.skip("before the handler stands, a plain kill ends the process")
    words = [
        "mean",
        endless,
        *BOUNDS,
        *BUDGET,
        "--output",
        tmp_path / "out.json",
        "--save-plan",
        tmp_path / "p.json",
    ]
    command = [sys.executable, "-m", "ellipsum", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(delay)
    process.send_signal(how)
    out, err = process.communicate(timeout=30)
    # A shell reports a process that died of a signal itself as 128 and its number.
    # Before any of our code runs, Python itself may fail while it starts, with a code of its own.
    starting = "init_import_site" in err or "Could not import runpy" in err
    assert process.returncode in (128 + how, -how) or starting, err
    assert how is signal.SIGINT or process.returncode == 143, err
    assert out == ""
    assert list(tmp_path.iterdir()) == []


SWALLOWED = """
import os, signal, sys, time
from ellipsum.apps import cli
class Late:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
class Talkative:
    def __del__(self):
        raise ValueError("SENTINELCELL")
def endless():
    Talkative()
    Late()
    time.sleep(60)
from ellipsum.apps.cli.commands import app
app.registered_commands[0].callback = endless
sys.argv = ["ellipsum", "sum"]
cli.main()
"""


def test_an_interrupt_where_nothing_can_be_raised_comes_again():
    done = subprocess.run([sys.executable, "-c", SWALLOWED], capture_output=True, text=True, timeout=50)
    assert done.returncode == 143, done.stderr
    assert done.stderr == "interrupted: nothing was written.\n"


def on_a_terminal(command: list[str], answer: bytes, until: bytes, timeout: float = 60) -> tuple[int, str]:
    """Run with a pseudo-terminal, answer once a text appears; (exit code, what was shown)."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(command[0], command)
    shown, answered, end = b"", False, time.monotonic() + timeout
    while time.monotonic() < end:
        try:
            chunk = os.read(terminal, 4096)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
        if not answered and until in shown:
            os.write(terminal, answer)
            answered = True
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode(errors="replace")


def test_a_terminal_is_asked_before_noise_drowns_the_answer(people):
    command = [
        sys.executable,
        "-m",
        "ellipsum",
        "mean",
        str(people),
        *BOUNDS,
        "--epsilon",
        "0.01",
        "--delta",
        "1e-6",
    ]
    code, shown = on_a_terminal(command, b"n\n", b"[y/N]")
    assert code == 1
    after = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown).split("[y/N]")[1]
    assert "Differentially private mean" not in after
    assert "No budget was spent." in after
    code, shown = on_a_terminal(command, b"y\n", b"[y/N]")
    assert code == 0
    assert "std. error" in shown.split("[y/N]")[1]


def test_without_a_terminal_a_drowned_answer_is_refused(people, tmp_path):
    words = ["mean", people, *BOUNDS, "--epsilon", "0.01", "--delta", "1e-6", "--json"]
    target = tmp_path / "out.json"
    for channel in ({}, {"input": "y\n"}):
        done = run(*words, "--output", target, **channel)
        refused(done, 1, "Add --yes to release anyway")
        assert "No budget was spent" in done.stderr
        assert not target.exists()
    done = run(*words, "--yes")
    assert done.returncode == 0, done.stderr
    assert "is as large as the range allowed by the bounds" in done.stderr
    assert es.from_json(done.stdout).columns == ("age", "income")


def test_completion_is_offered():
    """The completion script of a named shell, whatever shell the tests run under."""
    words = [sys.executable, "-m", "ellipsum", "--show-completion", "bash"]
    surroundings = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = subprocess.run(words, capture_output=True, text=True, env=surroundings)
    assert done.returncode == 0, done.stderr
    assert "complete" in done.stdout.lower()


def test_the_sources_folder_of_files(tmp_path, people):
    folder = tmp_path / "many"
    folder.mkdir()
    for i in range(3):
        (folder / f"{i}.csv").write_text(people.read_text())
    done = run("sum", Path(folder) / "*.csv", *BOUNDS, *BUDGET, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["plan"]["request"]["n"] == 900
