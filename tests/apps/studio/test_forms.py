"""Wrong input in every field is told beside that field, and never becomes a request."""

import pytest

import ellipsum as es
from ellipsum.apps.studio.forms import Filled, Reader
from ellipsum.sources.paths import Field

SCHEMA = (Field("age"), Field("income"), Field("city", "string", numeric=False), Field("who"), Field("who"))
GOOD = {"a-0": "0", "b-0": "120", "a-1": "0", "b-1": "2e5", "epsilon": "1", "delta": "1e-6"}


def read(used=(0, 1), **fields):
    values = {**GOOD, **{name.replace("__", "-"): text for name, text in fields.items()}}
    reader = Reader(Filled(values, frozenset(used)), SCHEMA)
    request = reader.request()
    reader.account()
    return request, reader.errors


def test_a_good_form_is_a_request():
    request, errors = read(privacy_id="who", max_rows="3", by="city", keys="Oslo\nRome, Italy\n", max_groups="2")
    assert errors == {}
    assert request.bounds == es.Box({"age": (0.0, 120.0), "income": (0.0, 2e5)})
    assert request.groups == es.Groups("city", keys=["Oslo", "Rome, Italy"], max_per_person=2)
    assert request.people == es.People("who", max_rows=3)
    assert request.budget == es.Budget(epsilon=1, delta=1e-6)


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("statistic", {"statistic": "median"}),
        ("kind", {"kind": "guess"}),
        ("kind", {"statistic": "describe", "kind": "ball", "radius": "3"}),
        ("kind", {"statistic": "quantiles", "kind": "normal"}),
        ("bins", {"statistic": "histogram", "bins": "0"}),
        ("c-2", {"statistic": "histogram", "used": (2,)}),
        ("b-0", {"statistic": "histogram", "b__0": ""}),
        ("neighbors", {"neighbors": "none"}),
        ("noise", {"noise": "none"}),
        ("weights", {"weights": "heavy"}),
        ("missing", {"missing": "zero"}),
        ("fill", {"missing": "fill"}),
        ("fill", {"missing": "fill", "fill": "nan"}),
        ("epsilon", {"epsilon": ""}),
        ("epsilon", {"epsilon": "one"}),
        ("epsilon", {"epsilon": "inf"}),
        ("delta", {"delta": ""}),
        ("delta", {"delta": "1,5"}),
        ("a-0", {"a__0": ""}),
        ("a-0", {"a__0": "1_0"}),
        ("b-0", {"b__0": "-3"}),
        ("b-1", {"b__1": "nan"}),
        ("b-0", {"kind": "normal", "b__0": "-1"}),
        ("columns", {"used": ()}),
        ("columns", {"used": (0, 2)}),
        ("columns", {"used": (9,)}),
        ("columns", {"used": (3, 4), "a__3": "0", "b__3": "1", "a__4": "0", "b__4": "1"}),
        ("radius", {"kind": "ball"}),
        ("radius", {"kind": "ball", "radius": "-1"}),
        ("center", {"kind": "ball", "radius": "1", "center": "x"}),
        ("magnitude", {"kind": "learned"}),
        ("magnitude", {"kind": "learned", "magnitude": "0"}),
        ("n", {"n": "1.5"}),
        ("n", {"n": "0"}),
        ("privacy_id", {"privacy_id": "nobody"}),
        ("privacy_id", {"privacy_id": "age"}),
        ("max_rows", {"privacy_id": "who", "max_rows": "-2"}),
        ("per_person", {"per_person": "none"}),
        ("by", {"by": "town"}),
        ("by", {"by": "age"}),
        ("by", {"by": "city\nwho"}),
        ("keys", {"by": "city,who", "keys": "Oslo\nRome"}),
        ("max_groups", {"by": "city", "privacy_id": "who", "max_groups": "many"}),
        ("groups", {"by": "city", "groups": "0"}),
        ("dataset", {"ledger": "budget.db"}),
        ("ledger", {"dataset": "survey"}),
    ],
)
def test_a_wrong_field_is_named(field, fields):
    used = fields.get("used", (0, 1))
    request, errors = read(used, **{name: text for name, text in fields.items() if name != "used"})
    assert field in errors
    assert request is None or field in ("ledger", "dataset")


def test_the_same_fields_are_good_when_right():
    """What the cases above change is what is wrong with them."""
    for fields in (
        {"statistic": "describe"},
        {"statistic": "describe", "by": "city"},
        {"missing": "fill", "fill": "0"},
        {"kind": "normal"},
        {"kind": "ball", "radius": "1", "center": "2"},
        {"kind": "learned", "magnitude": "1e6"},
        {"kind": "learned", "magnitude": "1e6", "by": "city"},
        {"n": "7"},
        {"by": "city, who", "keys": "city=Oslo,Rome\nwho=1,2"},
        {"ledger": "budget.db", "dataset": "survey"},
        {"statistic": "quantiles"},
        {"statistic": "quantiles", "kind": "learned", "magnitude": "1e6"},
        {"statistic": "histogram", "bins": "5"},
        {"statistic": "histogram", "used": (0, 2), "c__2": "Oslo,Rome"},
        {"statistic": "count", "by": "city", "keys": "Oslo\nRome"},
        {"statistic": "count", "neighbors": "add_remove", "n": "2000", "used": ()},
    ):
        request, errors = read(**fields)
        assert errors == {}, fields
        assert request is not None
