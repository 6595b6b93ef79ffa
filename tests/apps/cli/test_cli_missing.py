"""Missing entries, warnings and what a person is shown, as a user of the command line sees them."""

import json
import re

import numpy as np
import pytest
from commands import run

import ellipsum as es
from ellipsum.apps.cli.options import DataOptions
from ellipsum.apps.cli.output import ReleaseConsole

BUDGET = ["--epsilon", "1", "--delta", "1e-6"]
BOUNDS = ["--bounds", "age=0:120", "--bounds", "income=0:5000"]
PLENTY = ["--epsilon", "8", "--delta", "1e-6"]
AGES = np.array([20.0 + i % 50 for i in range(900)])
HAVE = np.arange(900) % 3 != 0  # two rows in three have an age
TRUE_AGE = AGES[HAVE].mean()


@pytest.fixture
def people(tmp_path):
    """900 rows of 300 people; every third row has no age."""
    path = tmp_path / "people.csv"
    lines = [f"{age:g},{1000 + 4 * i},{i // 3}" for i, age in enumerate(AGES)]
    lines = [line if have else "," + line.split(",", 1)[1] for line, have in zip(lines, HAVE, strict=True)]
    path.write_text("age,income,who\n" + "\n".join(lines) + "\n")
    return path


def released(*words, budget=BUDGET):
    done = run(*words, *budget, "--json")
    assert done.returncode == 0, done.stderr
    return es.from_json(done.stdout)


def is_near(release, truth):
    """Whether the first column is within 6.4 of its stds: a false alarm in 3e9 runs."""
    return abs(release.value[0] - truth) < 6.4 * release.standard_error[0]


FILLED = {
    "none": (60 * 300 + AGES[HAVE].sum()) / 900,
    "100": (100 * 300 + AGES[HAVE].sum()) / 900,
    "110,7": (110 * 300 + AGES[HAVE].sum()) / 900,
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("word", [None, "skip", "drop_row", *FILLED])
def test_each_rule_for_missing_entries_gives_its_own_mean(people, word):
    words = [] if word is None else ["--missing", word]
    release = released("mean", people, *BOUNDS, *words, budget=PLENTY)
    truth = FILLED.get(word, TRUE_AGE)
    assert is_near(release, truth)
    others = {TRUE_AGE, *FILLED.values()} - {truth}
    assert not any(is_near(release, other) for other in others)  # 20 stds or more away
    assert release.plan.auxiliary.missing == {
        None: "column",
        "skip": "column",
        "drop_row": "row",
        "none": "center",
    }.get(word, "fill")


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("word", "said", "rows"),
    [
        ("skip", "skipped in each column; counts are noisy", True),
        ("drop_row", "rows with a missing value are left out; the number of complete rows is noisy", False),
        ("none", "none, as the caller states; a missing value would count as the center", False),
        ("7", "missing values count as 7", False),
    ],
)
def test_the_table_says_which_rule_was_used(people, word, said, rows):
    done = run("mean", people, *BOUNDS, *BUDGET, "--missing", word, "--verbose")
    assert done.returncode == 0, done.stderr
    assert f"Missing: {said}" in done.stdout
    assert f"  Missing    {said}" in done.stderr  # the plan, before anything was read
    for heading in ("estimate", "std. error", "95% CI"):
        assert heading in done.stdout
    assert "of the noise" not in done.stdout.split("│")[0]
    assert ("non-missing" in done.stdout) is rows
    assert ("Complete: " in done.stdout) is (word == "drop_row")


def test_the_rule_where_nothing_can_be_missing_by_type(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "whole.parquet"
    schema = pa.schema([pa.field("age", pa.int32(), nullable=False)])
    pq.write_table(pa.table({"age": pa.array(range(900), pa.int32())}, schema=schema), path)
    done = run("mean", path, "--bounds", "age=0:1000", *BUDGET)
    assert done.returncode == 0, done.stderr
    assert "Missing: none, by the types of the columns" in done.stdout
    assert "non-missing" not in done.stdout


@pytest.mark.slow
def test_weights_and_no_check_reach_the_plan(people):
    equal = released("mean", people, *BOUNDS, "--error-weights", "equal")
    relative = released("mean", people, *BOUNDS)
    stated = released("mean", people, *BOUNDS, "--error-weights", "5,1")
    assert equal.plan.request.error_weights == "equal"
    assert relative.plan.request.error_weights == "relative"
    assert stated.plan.request.error_weights == (5.0, 1.0)
    assert relative.noise_std[0] < stated.noise_std[0] < equal.noise_std[0]
    assert relative.counts.outside_rows is not None
    unchecked = released("mean", people, *BOUNDS, "--no-count-clipped")
    assert unchecked.counts.outside_rows is None
    assert unchecked.plan.scaled_std < relative.plan.scaled_std


@pytest.mark.slow
def test_the_same_words_make_a_plan(people, tmp_path):
    words = [*BOUNDS, "--missing", "drop_row", "--error-weights", "equal", "--no-count-clipped", *BUDGET]
    done = run("plan", "--n", 900, "--statistic", "mean", *words, "-o", tmp_path / "plan.json")
    assert done.returncode == 0, done.stderr
    assert "rows with a missing value are left out" in done.stdout
    assert "Weights: equal" in done.stdout
    again = run("mean", people, "--plan", tmp_path / "plan.json", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["plan"] == json.loads((tmp_path / "plan.json").read_text())
    for word in (["--missing", "drop_row"], ["--error-weights", "equal"], ["--no-count-clipped"]):
        refused = run("mean", people, "--plan", tmp_path / "plan.json", *word)
        assert refused.returncode == 2
        assert word[0] in refused.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--missing", "median"], "missing must be"),
        (["--missing", "1,2,3"], "missing"),
        (["--missing", "nan"], "missing must be"),
        (["--error-weights", "1,-2"], "--error-weights must be"),
        (["--error-weights", "fair"], "weights"),
    ],
)
def test_wrong_words_end_with_2(people, words, said):
    done = run("mean", people, *BOUNDS, *BUDGET, *words)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert said in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_warnings_of_a_release_are_printed_once_and_beside_the_json(people, as_json):
    """Bounds that no income keeps: 900 cells outside, which Gaussian noise counts by column."""
    noise = ["--noise", "gaussian"]
    done = run("mean", people, "--bounds", "age=0:120", "--bounds", "income=0:9", *PLENTY, *noise, *as_json)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if "income" in line and "clamped" in line]
    assert len(lines) == 1
    assert re.match(r"warning: About (100|9\d)% of the values of 'income' are outside", lines[0])
    assert "AccuracyWarning" not in done.stderr
    if as_json:
        assert json.loads(done.stdout)["warnings"] == [lines[0].removeprefix("warning: ")]
    else:
        assert "clamped" not in done.stdout


def test_a_learned_value_at_its_magnitude_is_marked(people):
    """Every income is 20 times the magnitude and more, so that the answer is held to it."""
    done = run("mean", people, "--columns", "income", "--magnitude", "50", *PLENTY)
    assert done.returncode == 0, done.stderr
    assert "at upper bound" in done.stdout


def test_people_see_guarantee_and_rows_before_their_rows_are_brought_together(people, tmp_path):
    done = run("mean", people, "--privacy-id", "who", *BOUNDS, *BUDGET)
    assert done.returncode == 0, done.stderr
    first, last = (
        done.stderr.index("the forecast follows"),
        done.stderr.index("mean of 2 columns, n = 300 people: expected error"),
    )
    assert first < last
    head = done.stderr[:last]
    assert "Grouping rows by 'who'" in head
    assert "neighbors: replace one person" in head
    pure = run("mean", people, "--privacy-id", "who", *BOUNDS, "--epsilon", "1", "--delta", "0")
    assert pure.returncode == 0, pure.stderr  # it was refused, for noise that nobody had asked for
    assert "epsilon = 1, delta = 0; neighbors: replace one person" in pure.stderr
    # Nothing of a file that cannot be read is needed for it.
    gone = run("mean", tmp_path / "none.csv", "--privacy-id", "who", *BOUNDS, *BUDGET)
    assert gone.returncode == 4
    assert "neighbors: replace one person" in gone.stderr
    assert "expected error" not in gone.stderr


def test_learning_shows_its_forecast_and_may_be_refused(people):
    words = ["learn", people, "--columns", "age,income", "--magnitude", "1e6"]
    done = run(*words, *BUDGET)
    assert done.returncode == 0, done.stderr
    assert "bounds are estimated first, expected error" in done.stderr
    thin = run(*words, "--epsilon", "0.01", "--delta", "1e-6")
    assert thin.returncode == 1
    assert thin.stdout == ""
    assert thin.stderr.splitlines()[-1].startswith("error: ")


@pytest.mark.slow
def test_an_absolute_database_has_four_slashes(tmp_path):
    import duckdb

    path = tmp_path / "shop.db"
    with duckdb.connect(str(path)) as database:
        database.execute("create table t as select 1.0 * range as age from range(900)")
    words = ["--sql", "select age from t", "--bounds", "age=0:1000", *BUDGET]
    for scheme in ("duckdb", "sqlite"):
        wrong = run("mean", f"{scheme}:///{str(path)[1:]}", *words, cwd="/usr")
        assert wrong.returncode == 4
        assert f"write {scheme}:///{path}." in wrong.stderr
        gone = run("mean", f"{scheme}:///none.db", *words, cwd=tmp_path)
        assert gone.returncode == 4
        assert "with four slashes" in gone.stderr
    assert run("mean", f"duckdb:///{path}", *words, cwd="/usr").returncode == 0
    assert run("mean", "duckdb:///shop.db", *words, cwd=tmp_path).returncode == 0


def test_the_bar_starts_anew_once_people_are_brought_together():
    console = ReleaseConsole("mean", DataOptions(yes=True))
    assert console.share(0.4) == 0.4
    console.progress(0.8)
    console.approve(es.plan("sum", es.Box(0, 1), n=9, d=1, epsilon=9, delta=1e-6))
    assert console.share(0.8) == 0
    assert console.share(0.9) == pytest.approx(0.5)
    assert console.share(1.0) == 1
