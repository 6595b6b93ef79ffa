"""Studios, and a small table: fixtures of the tests in this folder."""

import numpy as np
import pytest
from visiting import Visitor


@pytest.fixture
def outsider(monkeypatch):
    monkeypatch.delenv("ELLIPSUM_LEDGER", raising=False)
    visitor = Visitor()
    yield visitor
    visitor.close()


@pytest.fixture
def visitor(outsider):
    return outsider.enter()


@pytest.fixture
def people(tmp_path):
    rng = np.random.default_rng(0)
    columns = rng.uniform(18, 90, 2000), rng.uniform(0, 90_000, 2000), rng.choice(["Oslo", "Rome"], 2000)
    path = tmp_path / "people.csv"
    lines = [f"{age:.0f},{income:.0f},{city}" for age, income, city in zip(*columns, strict=True)]
    path.write_text("age,income,city\n" + "\n".join(lines) + "\n")
    return path
