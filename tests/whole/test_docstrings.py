"""Docstrings of public names have the sections of numpydoc, and their examples run."""

import doctest
import inspect
import pydoc
import runpy
import warnings
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
TOPICS = runpy.run_path(str(DOCS / "reference_pages.py"))["TOPICS"]
NAMES = [name for names in TOPICS.values() for name in names]
WITHOUT_EXAMPLES = {  # errors and plain records are made by the library alone
    *TOPICS["Errors and warnings"],
    "LedgerWarning",
}
FINISHED = {
    "Ball", "Box", "Budget", "GroupPlan", "GroupRelease", "Normal", "Plan", "Privacy", "Release", "WeightedChiSquare",
    "calibrate", "compose", "count", "describe", "histogram", "learn", "mean", "plan", "prepare", "quantiles", "replan",
    "sum", "tail_bound", "FriendlyGate", "Ledger", "NoCenter", "Projection", "ProjectionPrivacy", "choose_k",
    "estimators.PrivateMean", "estimators.PrivateScaler", "friendly_mean", "project", "projection_forecast",
    "subsample_and_aggregate",
}  # fmt: skip
UNFINISHED: set[str] = set(NAMES) - FINISHED


@pytest.mark.parametrize("name", NAMES)
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ELLIPSUM_LEDGER", raising=False)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for test in doctest.DocTestFinder().find(pydoc.locate(f"ellipsum.{name}"), name, module=False, globs={}):
            runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


@pytest.mark.parametrize("name", sorted(set(NAMES) - UNFINISHED - WITHOUT_EXAMPLES))
def test_public_names_have_examples(name):
    text = inspect.getdoc(pydoc.locate(f"ellipsum.{name}"))
    assert "Examples\n--------" in text


@pytest.mark.parametrize("name", sorted(set(NAMES) - UNFINISHED))
def test_parameters_and_results_are_described(name):
    value = pydoc.locate(f"ellipsum.{name}")
    if not inspect.isfunction(value):
        return
    text = inspect.getdoc(value)
    assert "Returns\n-------" in text
    for parameter in inspect.signature(value).parameters:
        assert f"\n{parameter} : " in text, parameter
