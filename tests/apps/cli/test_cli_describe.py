"""`ellipsum describe` as a user runs it."""

import json

import numpy as np
import pytest
from test_cli import BOUNDS, BUDGET, refused, run

import ellipsum as es


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("age,income\n" + "\n".join(f"{20 + i % 50},{1000 + 10 * i}" for i in range(300)) + "\n")
    return path


def test_json_alone_and_files(people, tmp_path):
    made, plan = tmp_path / "made.json", tmp_path / "plan.json"
    done = run("describe", people, *BOUNDS, *BUDGET, "--json", "-v", "-o", made, "--save-plan", plan)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(made.read_text())
    release = es.load(made)
    x = np.array([[20 + i % 50, 1000 + 10 * i] for i in range(300)])
    for of, wanted in (("count", [300, 300]), ("mean", x.mean(0)), ("std", x.std(0))):
        low, high = release.confidence_interval(1 - 1e-10, of).T
        assert ((low <= wanted) & (wanted <= high)).all()
    assert (
        "Plan for a differentially private count, mean, standard deviation and quantiles of 2 columns (n = 300; "
        in done.stderr
    )
    assert "expected error of std" in done.stderr
    again = run("describe", people, "--plan", plan)
    assert again.returncode == 0, again.stderr
    refused(run("mean", people, "--plan", plan), 2, "Run: ellipsum describe")


def test_a_table_for_people(people):
    done = run("describe", people, *BOUNDS, *BUDGET, "--neighbors", "add-remove", "--n", 300)
    assert done.returncode == 0, done.stderr
    for word in (
        "private count, mean, standard deviation and quantiles",
        "count",
        "mean",
        "std",
        "95% CI",
        "age",
        "income",
        "population",
    ):
        assert word in done.stdout
    assert "noisy count" in done.stdout


def test_correlations(people):
    words = [*BOUNDS, *BUDGET, "--missing", "drop_row", "--covariance", "--verbose"]
    done = run("describe", people, *words)
    assert done.returncode == 0, done.stderr
    assert "correlation" in done.stdout
    assert "error of a correlation" in done.stderr
    refused(run("describe", people, *BOUNDS, *BUDGET, "--covariance"), 2, "complete rows")


def test_plans(people):
    done = run("plan", "--n", 300, *BOUNDS, *BUDGET, "--statistic", "describe")
    assert done.returncode == 0, done.stderr
    assert "expected error of std" in done.stdout
    refused(
        run("plan", "--n", 300, "--d", 2, "--radius", 3, *BUDGET, "--statistic", "describe"),
        2,
        "--radius is not an option of describe",
    )


def test_what_is_refused(people):
    refused(run("describe", people, *BUDGET), 2, "--bounds")
    refused(run("describe", people, *BUDGET, "--columns", "age", "--radius", 3), 2, "--radius")
