"""`ellipsum mean --engine spark` in processes of its own."""

import json
import os
import subprocess
import sys

import pytest


def run(*words, **environment):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    command = [sys.executable, "-m", "ellipsum", *words]
    return subprocess.run(command, capture_output=True, text=True, env={**clean, **environment}, check=False)


BUDGET = ("--epsilon", "1", "--delta", "1e-6")


def test_a_mean_of_parquet(mixed):
    done = run(
        "mean", mixed, "--bounds", "flag=0:1", "--bounds", "short=0:1000", *BUDGET, "--engine", "spark", "--json"
    )
    assert done.returncode == 0, done.stderr
    release = json.loads(done.stdout)
    assert release["columns"] == ["flag", "short"]
    assert 0.3 < release["value"][0] < 0.7  # noise std about 0.01
    assert "Smith" not in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("data.csv", "--engine", "spark"), 2, "reads Parquet and Delta"),
        (("data.parquet", "--engine", "flink"), 2, "--engine must be one of 'spark'"),
        (("/nowhere.parquet", "--engine", "spark"), 4, "could not read the files"),
    ],
)
def test_wrong_words_end_with_their_codes(words, code, text):
    done = run("mean", *words, "--bounds", "x=0:1", *BUDGET)
    assert done.returncode == code
    assert text in done.stderr
    assert done.stdout == ""


def test_text_columns_are_usage_errors_and_delta_is_not_read_as_parquet(mixed, tmp_path):
    done = run("mean", mixed, "--bounds", "name=0:1", *BUDGET, "--engine", "spark")
    assert done.returncode == 2
    assert "'name' of data is of type string" in done.stderr
    (tmp_path / "_delta_log").mkdir()
    done = run("mean", str(tmp_path), "--bounds", "x=0:1", *BUDGET, "--engine", "spark")
    assert done.returncode == 4
    assert "is a Delta table" in done.stderr
