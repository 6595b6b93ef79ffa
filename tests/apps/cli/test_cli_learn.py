"""`ellipsum mean --magnitude`, `learn` and `--bounds` in a shell."""

import json

import numpy as np
import pytest
from commands import run


@pytest.fixture
def folder(tmp_path):
    x = np.random.default_rng(0).normal([40, 1500], [12, 400], (4000, 2))
    np.savetxt(tmp_path / "people.csv", x, delimiter=",", header="age,income", comments="")
    return tmp_path


BUDGET = ("--epsilon", 1, "--delta", 1e-6)


def test_learn_then_release_with_the_learned_bounds(folder):
    learned = run("learn", "people.csv", "--magnitude", 1e6, *BUDGET, "--output", "bounds.json", cwd=folder)
    assert learned.returncode == 0, learned.stderr
    assert "Learned bounds, " in learned.stdout
    fields = json.loads((folder / "bounds.json").read_text())
    assert fields["bounds"]["columns"] == ["age", "income"]
    done = run("mean", "people.csv", "--bounds", "bounds.json", *BUDGET, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["value"][1] == pytest.approx(1500, abs=100)
    planned = run("plan", "--bounds", "bounds.json", "--n", 4000, *BUDGET, "--json", cwd=folder)
    assert planned.returncode == 0, planned.stderr
    both = run("mean", "people.csv", "--bounds", "bounds.json", "--bounds", "age=0:100", *BUDGET, cwd=folder)
    assert both.returncode == 2
    assert "no other --bounds" in both.stderr


@pytest.mark.slow
def test_a_magnitude_is_enough_and_a_plan_can_be_saved(folder):
    plan = run(
        *("plan", "--n", 4000, "--columns", "age,income", "--statistic", "mean", "--magnitude", 1e6),
        *(*BUDGET, "-o", "plan.json"),
        cwd=folder,
    )
    assert plan.returncode == 0, plan.stderr
    assert "of a column's standard deviation" in plan.stdout
    for words in (("--magnitude", 1e6, *BUDGET), ("--plan", "plan.json")):
        done = run("mean", "people.csv", *words, "--json", cwd=folder)
        assert done.returncode == 0, done.stderr
        release = json.loads(done.stdout)
        assert release["columns"] == ["age", "income"]
        assert release["value"][1] == pytest.approx(1500, abs=100)
        assert release["learned"]["stated"] == {"epsilon": 1.0, "delta": 1e-6}


def test_each_column_has_a_magnitude_of_its_own(folder):
    words = ("people.csv", "--magnitude", "income=1e6", "--magnitude", "age=200", *BUDGET)
    done = run("mean", *words, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    release = json.loads(done.stdout)
    assert release["columns"] == ["income", "age"]
    assert release["learned"]["magnitude"] == [1e6, 200.0]
    assert release["value"][0] == pytest.approx(1500, abs=100)
    learned = run("learn", *words, "--output", "bounds.json", cwd=folder)
    assert learned.returncode == 0, learned.stderr


def test_a_thin_plan_warns(folder):
    done = run("plan", "--n", 50, "--d", 100, "--magnitude", 10, *BUDGET, cwd=folder)
    assert "cannot support an answer" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("mean", "people.csv", "--magnitude", 1e6, "--method", "nonsense", *BUDGET), "method"),
        (("mean", "people.csv", "--bounds", "0:1", "--method", "auto", *BUDGET), "--magnitude"),
        (("mean", "people.csv", "--magnitude", 1e6, "--radius", 3, *BUDGET), "Use one of them"),
        (("learn", "people.csv", *BUDGET), "--magnitude"),
        (("learn", "people.csv", "--magnitude", 1e6), "--epsilon"),
        (("mean", "people.csv", "--magnitude", "age=much", *BUDGET), "NAME=M"),
        (("mean", "people.csv", "--magnitude", "age=200", "--magnitude", "7", *BUDGET), "NAME=M"),
        (("mean", "people.csv", "--magnitude", "age=200", "--columns", "age,income", *BUDGET), "missing for column"),
    ],
)
def test_wrong_usage_ends_with_2(folder, words, said):
    done = run(*words, cwd=folder)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""
