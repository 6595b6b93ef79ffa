"""Docstrings of public calls: sections and parameters in their order; unknown arguments are refused."""

import inspect
import re

import pytest

import ellipsum as es
from ellipsum.request.documentation import _SECTIONS

STATISTICS = ["sum", "mean", "describe", "histogram", "count", "quantiles", "learn"]
CALLS = [*STATISTICS, "plan", "friendly_mean", "subsample_and_aggregate", "project"]


def sections(name):
    """The text of each section."""
    parts = re.split(r"^([A-Z][A-Za-z ]+)\n-+\n", getattr(es, name).__doc__, flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


@pytest.mark.parametrize("name", [*CALLS, "prepare", "replan"])
def test_sections_and_parameters_are_in_order(name):
    parts = sections(name)
    assert [part for part in _SECTIONS if part in parts] == [part for part in parts if part]
    documented = re.findall(r"^(\w+)(?: : .*)?$", parts["Parameters"], re.MULTILINE)
    assert documented == [name for name in inspect.signature(getattr(es, name)).parameters if name in documented]
    if name in STATISTICS:
        assert "AccuracyWarning" in parts["Warns"]
        assert "BudgetRefused" in parts["Raises"]


@pytest.mark.parametrize("name", CALLS)
def test_an_unknown_argument_is_refused_with_the_nearest_name(name):
    kinds = {parameter.kind for parameter in inspect.signature(getattr(es, name)).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds
    with pytest.raises(es.UsageError, match=r"Did you mean epsilon\?"):
        getattr(es, name)(epsilom=1)
