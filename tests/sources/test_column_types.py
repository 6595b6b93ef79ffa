"""Columns of texts: labels of groups, refused by name where a type says so, reported by counts where none says so."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from commands import run

import ellipsum as es
from ellipsum.errors import UsageError

BUDGET = {"epsilon": 1.0, "delta": 1e-6}


@pytest.fixture
def rng():
    return np.random.default_rng(0)


LETTERS = ["a", "b", "b"] * 200


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(LETTERS, dtype=object),  # what pandas 2 makes of texts
        pd.Series(LETTERS, dtype="string[python]"),
        pd.Series(LETTERS, dtype="string[pyarrow]"),
        pd.Series(LETTERS, dtype="category"),
        pd.Series(LETTERS, name="group"),
        pl.Series("group", LETTERS),
    ],
    ids=["object", "python", "pyarrow", "category", "named", "polars"],
)
def test_groups_by_a_series_of_texts(labels, rng):
    values = [[1.0], [2.0], [4.0]] * 200
    release = es.mean(values, es.Box(0, 5), by=labels, rng=rng, epsilon=50, delta=1e-6)
    assert release.keys.tolist() == [["a"], ["b"]]
    assert release.value[:, 0] == pytest.approx([1.0, 3.0], abs=0.3)


def parquet(folder):
    pq.write_table(pa.table({"age": [1.0], "city": ["Bern"]}), folder / "t.parquet")
    return folder / "t.parquet"


def feather(folder):
    pyarrow.feather.write_feather(pa.table({"age": [1.0], "city": ["Bern"]}), folder / "t.feather")
    return folder / "t.feather"


def query(folder):
    return es.sql("select 1.0 as age, 'Bern' as city", "duckdb://")


TYPED = {
    "parquet": parquet,
    "feather": feather,
    "query": query,
    "pandas": lambda folder: pd.DataFrame({"age": [1.0], "city": ["Bern"]}),
    "polars": lambda folder: pl.DataFrame({"age": [1.0], "city": ["Bern"]}),
}


@pytest.mark.parametrize("kind", TYPED)
def test_a_column_of_texts_is_refused_by_name(kind, tmp_path):
    data = TYPED[kind](tmp_path)
    with pytest.raises(UsageError, match=r"Column 'city' of .* is of type .*, not a number"):
        es.mean(data, {"age": (0, 120), "city": (0, 1)}, **BUDGET)


@pytest.fixture
def towns(tmp_path):
    """A CSV file in which one column has texts."""
    lines = [f"{20 + i % 50},Bern" for i in range(2000)]
    (tmp_path / "towns.csv").write_text("\n".join(["age,city", *lines]) + "\n")
    return tmp_path / "towns.csv"


@pytest.mark.parametrize("noise", ["gaussian", "knorm"])
def test_a_csv_column_without_numbers_is_reported_by_its_noisy_count(towns, noise, rng):
    with pytest.warns(es.AccuracyWarning, match="'city'.*too few non-missing values") as caught:
        release = es.mean(towns, {"age": (0, 120), "city": (0, 1)}, noise=noise, rng=rng, **BUDGET)
    assert not [warning for warning in caught if "'age'" in str(warning.message)]
    assert any("'city'" in text for text in release.warnings)
    assert release.value[0] == pytest.approx(44.5, abs=3)


def test_the_command_says_so_too(towns):
    done = run("mean", str(towns), "--bounds", "age=0:120", "--bounds", "city=0:1", "--epsilon", "1", "--delta", "1e-6")
    assert done.returncode == 0
    assert "'city'" in done.stderr
    assert "too few non-missing values" in " ".join(done.stderr.split())
    assert "Bern" not in done.stdout + done.stderr
