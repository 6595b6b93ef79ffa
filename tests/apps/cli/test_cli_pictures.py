"""--plot and --report, as a user types them."""

import subprocess
import sys

import numpy as np
import pytest
from commands import run

import ellipsum as es

BUDGET = ["--epsilon", "1", "--delta", "1e-6"]
NO_MATPLOTLIB = "import sys; sys.modules['matplotlib'] = None; from ellipsum.apps.cli import main; main()"


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{rng.uniform(18, 90):.1f},{'ab'[i % 2]}" for i in range(500)]
    (tmp_path / "people.csv").write_text("age,city\n" + "\n".join(lines) + "\n")
    return tmp_path


def test_a_mean_is_drawn_and_reported(folder):
    es.Ledger(folder / "budget.db").init("people", epsilon=5, delta=1e-5)
    words = ["--ledger", folder / "budget.db", "--dataset", "people", "--plot", "mean.svg", "--report", "mean.html"]
    done = run("mean", folder / "people.csv", "--bounds", "age=0:120", *BUDGET, *words, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    release = es.from_json(done.stdout)
    assert ">age<" in (folder / "mean.svg").read_text()
    page = (folder / "mean.html").read_text()
    assert f"{release.standard_error[0]:.3g}" in page
    assert "Spent: epsilon = 1 of 5" in page
    assert "ellipsum mean people.csv --bounds age=0:120" in page
    assert str(folder) not in page


@pytest.mark.slow
def test_groups_learned_rows_and_plans_are_drawn(folder):
    done = run("sum", "people.csv", "--bounds", "age=0:120", "--by", "city", *BUDGET, "--plot", "g.pdf", cwd=folder)
    assert done.returncode == 0, done.stderr
    words = ["--columns", "age", "--magnitude", "1000", "--plot", "l.png", "--report", "l.html"]
    done = run("learn", "people.csv", *words, *BUDGET, cwd=folder)
    assert done.returncode == 0, done.stderr
    done = run("plan", "--n", "500", "--bounds", "age=0:120", *BUDGET, "--plot", "plan.svg", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "g.pdf").read_bytes().startswith(b"%PDF")
    assert (folder / "l.png").read_bytes().startswith(b"\x89PNG")
    assert "Learned bounds" in (folder / "l.html").read_text()
    assert "this plan" in (folder / "plan.svg").read_text()


@pytest.mark.slow
def test_descriptions_and_projections_are_drawn(folder):
    words = ["--bounds", "age=0:120", "--plot", "d.png", "--report", "d.html"]
    done = run("describe", "people.csv", *words, *BUDGET, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Differentially private count, mean, standard deviation" in (folder / "d.html").read_text()
    words = ["--columns", "age", "--bounds", "0:120", "--k", "1", "-o", "p.parquet", "--yes", "--epsilon", "100"]
    done = run("project", "people.csv", *words, "--delta", "1e-6", "--plot", "p.svg", "--report", "p.html", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Private projection of 500 rows" in (folder / "p.html").read_text()
    assert "standard error" in (folder / "p.svg").read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--plot", "mean.jpg"], "must end in .svg, .png or .pdf"),
        (["--plot", "x.svg", "--report", "x.svg"], "--plot and --report name the same file"),
        (["--report", "people.csv"], "people.csv"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_spent(folder, words, told):
    book = es.Ledger(folder / "budget.db")
    book.init("people", epsilon=5, delta=1e-5)
    charged = ["--ledger", "budget.db", "--dataset", "people"]
    refused(run("mean", "people.csv", "--bounds", "age=0:120", *BUDGET, *charged, *words, cwd=folder), told)
    assert book.account("people").reserved == 0
    assert [path.name for path in folder.iterdir() if "budget.db" not in path.name] == ["people.csv"]


def test_without_matplotlib_nothing_is_spent(folder):
    words = ["mean", "people.csv", "--bounds", "age=0:120", *BUDGET, "--plot", "mean.svg"]
    command = [sys.executable, "-c", NO_MATPLOTLIB, *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120)
    refused(done, "pip install 'ellipsum[plots]'")


def refused(done, told):
    assert done.returncode == 2, done.stderr
    assert told in done.stderr.strip().splitlines()[-1]
    assert done.stdout == ""
