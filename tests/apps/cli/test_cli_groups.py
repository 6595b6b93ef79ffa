"""Groups on the command line."""

import csv
import json

import pytest
from commands import run

import ellipsum as es

BUDGET = ["--epsilon", "1", "--delta", "1e-6"]
BOUNDS = ["--bounds", "age=0:120"]


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.csv"
    cities = ["Oslo", '"Å, B"', "Tromsø"]
    lines = [f"{20 + i % 50},{cities[i % 3]},{2020 + i % 2},p{i % 700}" for i in range(3000)]
    path.write_text("age,city,year,who\n" + "\n".join([*lines, "44,SENTINELCELL,2020,p1"]) + "\n")
    return path


def test_groups_go_to_a_table_and_a_file(people, tmp_path):
    out = tmp_path / "groups.csv"
    done = run("mean", people, *BOUNDS, "--by", "city,year", *BUDGET, "--output", out)
    assert done.returncode == 0, done.stderr
    assert "SENTINELCELL" not in done.stdout + done.stderr
    assert "Differentially private mean of 1 column in 6 groups" in done.stdout
    assert "no forecast without a guess" in done.stderr
    lines = list(csv.DictReader(out.read_text().splitlines()))
    assert [line["city"] for line in lines] == ["Oslo", "Oslo", "Tromsø", "Tromsø", "Å, B", "Å, B"]
    assert all(float(line["age_low"]) < float(line["age"]) < float(line["age_high"]) for line in lines)


def test_descriptions_of_groups(people, tmp_path):
    out, plan = tmp_path / "groups.csv", tmp_path / "plan.json"
    done = run("describe", people, *BOUNDS, "--by", "city", *BUDGET, "--output", out, "--save-plan", plan)
    assert done.returncode == 0, done.stderr
    assert "SENTINELCELL" not in done.stdout + done.stderr
    assert "private count, mean, standard deviation and quantiles of 1 column in 3 groups" in done.stdout
    assert "age std" in done.stdout
    lines = list(csv.DictReader(out.read_text().splitlines()))
    for what in ("count", "mean", "std"):
        assert all(float(line[f"age_{what}_low"]) <= float(line[f"age_{what}"]) for line in lines)
    again = run("describe", people, "--plan", plan, "--json")
    assert again.returncode == 0, again.stderr
    assert es.from_json(again.stdout).std.shape == (3, 1)
    wrong = run("describe", people, *BOUNDS, "--by", "city", "--covariance", *BUDGET)
    assert wrong.returncode == 2
    assert "not supported in groups" in wrong.stderr


def test_unknown_rows_in_groups(people, tmp_path):
    plan = tmp_path / "plan.json"
    words = ["--columns", "age", "--magnitude", "1000", "--by", "city", "--privacy-id", "who", "--epsilon", "8"]
    done = run("mean", people, *words, "--delta", "1e-3", "--save-plan", plan, "-v")
    assert done.returncode == 0, done.stderr
    assert "SENTINELCELL" not in done.stdout + done.stderr
    assert "private mean of 1 column in 3 groups" in done.stdout
    assert "clamped to learned ends" in done.stderr
    again = run("mean", people, "--plan", plan, "--json")
    assert again.returncode == 0, again.stderr
    assert es.from_json(again.stdout).learned.method == "auto"
    expected = ["--expected", "3", *words[8:], "--delta", "1e-3", "--statistic", "mean"]
    done = run("plan", "--n", "3000", *words[:6], *expected)
    assert done.returncode == 0, done.stderr
    assert "clamped to learned ends" in done.stdout


@pytest.mark.parametrize("listed", [["Oslo,Tromsø"], ["city=Oslo,Tromsø"], ["keys.csv"]])
def test_public_groups(people, tmp_path, listed):
    (tmp_path / "keys.csv").write_text("city\nOslo\nTromsø\n")
    words = [str(tmp_path / word) if word.endswith(".csv") else word for word in listed]
    done = run("sum", people, *BOUNDS, "--by", "city", "--keys", *words, *BUDGET, "--json")
    assert done.returncode == 0, done.stderr
    release = es.from_json(done.stdout)
    assert release.keys.tolist() == [["Oslo"], ["Tromsø"]]


def test_several_columns_people_and_a_saved_plan(people, tmp_path):
    plan = tmp_path / "plan.json"
    keys = ["--keys", "city=Oslo,Tromsø", "--keys", "year=2020,2021"]
    words = ["--by", "city,year", *keys, "--privacy-id", "who", "--max-per-person", "2"]
    done = run("mean", people, *BOUNDS, *words, *BUDGET, "--save-plan", plan)
    assert done.returncode == 0, done.stderr
    assert "private mean of 1 column in 4 groups" in done.stdout
    again = run("mean", people, "--plan", plan, "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["plan"] == json.loads(plan.read_text())
    wrong = run("mean", people, "--plan", plan, "--by", "city")
    assert wrong.returncode == 2
    assert "--by" in wrong.stderr


def test_a_forecast(tmp_path):
    done = run("plan", "--n", "50000", "--expected", "500", "--by", "city", *BOUNDS, "--statistic", "mean", *BUDGET)
    assert done.returncode == 0, done.stderr
    assert "a group of 100" in done.stdout
    assert "noisy count is at least" in done.stdout


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--by", "city", "--keys", "a,b,a"], "twice"),
        (["--by", "town"], "town"),
        (["--keys", "a"], "--by"),
        (["--by", "city", "--max-per-person", "2"], "privacy_id"),
        (["--by", "city,year", "--keys", "a,b"], "--keys"),
        (["--by", "city", "--keys", "nope.csv"], "nope.csv"),
        (["--by", ""], "empty name"),
    ],
)
def test_wrong_words(people, words, message):
    done = run("sum", people, *BOUNDS, *words, *BUDGET)
    assert done.returncode in (2, 4)
    assert done.stdout == ""
    assert message in done.stderr
    assert "SENTINELCELL" not in done.stderr
