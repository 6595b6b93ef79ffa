"""What the pages' code and commands find in their folder."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def blocks(page, *languages, section=""):
    """The text of a page's code in these languages, in order; section: below this heading alone."""
    text = page.read_text()
    if section:
        text = re.split(r"^## ", text[text.index(f"\n## {section}\n") + 4 :], flags=re.MULTILINE)[0]
    return re.findall(rf"```(?:{'|'.join(languages)})\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ELLIPSUM_LEDGER", raising=False)
    return tmp_path


@pytest.fixture
def tables(folder):
    """The files that commands name."""
    import numpy as np
    import pandas as pd
    from sklearn.datasets import load_diabetes

    rng = np.random.default_rng(0)
    people = {"age": rng.uniform(0, 100, 3_000), "income": rng.uniform(0, 1e5, 3_000)}
    pd.DataFrame(people | {"city": rng.choice(["Bergen", "Oslo"], 3_000)}).to_csv("people.csv", index=False)
    visits = {"patient": rng.integers(0, 300, 2_000), "pulse": rng.normal(75, 10, 2_000)}
    pd.DataFrame(visits).to_parquet("visits.parquet")
    load_diabetes(as_frame=True, scaled=False).frame.to_csv("patients.csv", index=False)
    return folder


@pytest.fixture
def environment():
    """Commands of the environment that runs the tests come first."""
    import sys

    return os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
