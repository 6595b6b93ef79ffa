"""`ellipsum project` as a user runs it: a process each."""

import json

import commands
import numpy as np
import pytest
from pyarrow import parquet

from ellipsum.projection import Projection

BUDGET = ["--epsilon", "300", "--delta", "1e-6"]


def run(*words, cwd=None):
    return commands.run("project", *words, cwd=cwd)


@pytest.fixture
def points(tmp_path):
    rows = np.random.default_rng(0).uniform(size=(50, 6))
    path = tmp_path / "points.csv"
    lines = [",".join(map(str, row)) for row in rows]
    path.write_text(",".join(f"x{j}" for j in range(6)) + "\n" + "\n".join(lines) + "\n")
    return path


def test_projects_a_file(points, tmp_path):
    output = tmp_path / "sketch.parquet"
    done = run(points, "--k", 3, "--bounds", "0:1", *BUDGET, "--output", output, "--json")
    assert done.returncode == 0, done.stderr
    fields = json.loads(done.stdout)
    assert fields["n"] == 50
    assert fields["secure"] is True
    assert "Forecast of a private projection" in done.stderr
    assert parquet.read_table(output).shape == (50, 3)
    made = Projection.load(output)
    assert made.privacy.delta(300.0) <= 1e-6
    assert made.columns == tuple(f"x{j}" for j in range(6))
    again = run(
        points, "--k", 3, "--radius", 2, *BUDGET, "-o", tmp_path / "b.parquet", "--matrix-seed", made.matrix_seed
    )
    assert again.returncode == 0, again.stderr
    assert "adaptive adversary" in again.stdout


def test_projects_people(tmp_path):
    path = tmp_path / "visits.csv"
    rows = [f"p{i % 7},{i / 100},{1 - i / 100}" for i in range(60)]
    path.write_text("\n".join(["who,x,y", *rows, ",0.5,0.5"]) + "\n")
    output = tmp_path / "sketch.parquet"
    words = ["--bounds", "0:1", "--privacy-id", "who", "--max-rows", 3, *BUDGET, "--output", output]
    done = run(path, "--k", 2, *words)
    assert done.returncode == 0, done.stderr
    assert "7 people of 2 columns to 2" in done.stdout
    assert "the mean of at most 3 rows of a person; identified by 'who'" in done.stdout
    assert parquet.read_table(output).shape == (7, 2)
    assert Projection.load(output).people.max_rows == 3


def test_chooses_k_and_says_when_distances_are_useless(points, tmp_path):
    output = tmp_path / "s.parquet"
    words = [points, "--bounds", "0:1", "--columns", "x0,x3,x5", "--epsilon", 1, "--delta", 1e-6, "-o", output]
    done = run(*words)
    assert done.returncode == 1, done.stderr  # nobody can be asked here
    assert "--yes" in done.stderr
    assert not output.exists()
    done = run(*words, "--yes")
    assert done.returncode == 0, done.stderr
    assert "useless" in done.stderr
    assert Projection.load(tmp_path / "s.parquet").d == 3


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("words", "code", "word"),
    [
        (["--bounds", "0:1", *BUDGET], 2, "--output"),
        (["--k", "3", *BUDGET, "-o", "s.parquet"], 2, "Nothing is known about the values"),
        (["--k", "0", "--bounds", "0:1", *BUDGET, "-o", "s.parquet"], 2, "k must"),
        (["--k", "3", "--bounds", "0:1", "--epsilon", "1", "-o", "s.parquet"], 2, "--delta"),
        (["--k", "3", "--bounds", "0:1", "--columns", "nothing", *BUDGET, "-o", "s.parquet"], 2, "nothing"),
        (["--k", "3", "--bounds", "0:1", *BUDGET, "-o", "missing/s.parquet"], 4, "missing"),
        (["--k", "3", "--bounds", "0:1", "--adversary", "friend", *BUDGET, "-o", "s.parquet"], 2, "adversary"),
        (["--k", "3", "--bounds", "0:1", "--privacy-id", "who", *BUDGET, "-o", "s.parquet"], 2, "who"),
        (["--k", "3", "--bounds", "0:1", "--max-rows", "3", *BUDGET, "-o", "s.parquet"], 2, "--privacy-id"),
    ],
)
def test_wrong_use_ends_with_its_code(points, tmp_path, words, code, word):
    done = run(points, *words, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert word in last
    assert sorted(path.name for path in tmp_path.iterdir()) == ["points.csv"]
