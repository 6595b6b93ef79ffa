"""A request is the same whether the studio, a shell or Python makes it."""

import json
import shlex
import warnings

import numpy as np
import pytest

import ellipsum as es
from ellipsum.apps.studio import orders
from ellipsum.apps.studio.forms import Filled, Reader
from ellipsum.apps.studio.orders import Data, Order
from ellipsum.apps.studio.panels import plan_of
from ellipsum.sources.paths import Field

NAMES = ("age", "income", 'a b=c, "d"\'s', "who", "city", "sex")
SCHEMA = tuple(map(Field, NAMES))
PLAIN = {"a-0": "0", "b-0": "120", "a-1": "0", "b-1": "2e5", "epsilon": "1", "delta": "1e-6"}
FORMS = {
    "mean": {},
    "odd names": {"statistic": "sum", "use": (0, 2), "a-2": "0", "b-2": "200000"},
    "describe": {"statistic": "describe", "missing": "drop_row", "noise": "gaussian"},
    "ball": {"kind": "ball", "radius": "2e5", "center": "60.5", "epsilon": ".5", "delta": "0", "missing": "fill",
             "fill": "7"},
    "normal": {"kind": "normal", "a-0": "50", "b-0": "15", "a-1": "40000", "b-1": "1e4", "weights": "equal"},
    "learned": {"kind": "learned", "magnitude": "1e6", "epsilon": "2"},
    "learned groups": {"kind": "learned", "magnitude": "1e6", "epsilon": "5", "by": "city", "keys": "Oslo\nRome"},
    "private n": {"neighbors": "add_remove", "n": "1500"},
    "people": {"privacy_id": "who", "per_person": "rows", "max_rows": "3"},
    "groups": {"by": "city", "keys": "Oslo\nRome, Italy"},
    "private groups": {"statistic": "sum", "by": "city,sex", "privacy_id": "who", "max_groups": "2"},
    "two lists": {"statistic": "sum", "by": "city,sex", "keys": "city=Oslo,Rome\nsex=f,m"},
    "quantiles": {"statistic": "quantiles"},
    "histogram": {"statistic": "histogram", "use": (0, 4), "bins": "4", "c-4": "Oslo,Rome"},
    "count": {"statistic": "count", "by": "city", "keys": "Oslo\nRome"},
}  # fmt: skip


def order_of(name, data=None):
    fields = {**PLAIN, **FORMS[name]}
    reader = Reader(Filled(fields, frozenset(fields.pop("use", (0, 1)))), SCHEMA)
    request = reader.request()
    assert reader.errors == {}
    return Order(request, data or Data(path="it's people.csv"), accepted=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import csv

    rng = np.random.default_rng(1)
    place = tmp_path_factory.mktemp("orders")
    cells = [
        rng.uniform(18, 90, 1500).round(1),
        rng.uniform(0, 9e4, 1500).round(),
        rng.uniform(0, 9e4, 1500).round(),
        rng.integers(0, 700, 1500),
        rng.choice(["Oslo", "Rome"], 1500),
        rng.choice(["f", "m"], 1500),
    ]
    with open(place / "it's people.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(NAMES)
        writer.writerows(zip(*(column.tolist() for column in cells), strict=True))
    return place


def in_shell(line, capsys):
    from ellipsum.apps.cli.commands import app

    program, *words = shlex.split(line)
    assert program == "ellipsum"
    app([*words, "--json"], standalone_mode=False)
    return json.loads(capsys.readouterr().out)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", FORMS)
def test_the_command_and_the_python_text_make_the_same_request(name, folder, capsys, monkeypatch):
    """Both plans are the studio's own, to the last field."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("ELLIPSUM_LEDGER", raising=False)
    order, events = order_of(name), []
    warnings.simplefilter("ignore", es.AccuracyWarning)
    sent = json.loads(json.dumps(order.to_dict()))
    assert Order.from_dict(sent) == order
    orders.attempt(Order.from_dict(sent), lambda event, **fields: events.append((event, fields)))
    assert events[-1][0] == "released", events[-1]
    own = json.loads(events[-1][1]["text"])
    typed = in_shell(order.recipe.command, capsys)
    space: dict[str, object] = {}
    exec(order.recipe.python, space)
    written = json.loads(space["release"].to_json())
    for other in (typed, written):
        if order.request.learns:  # the last round's plan follows from noisy rounds before
            assert other["learned"]["stated"] == own["learned"]["stated"]
            assert other["privacy"] == own["privacy"]
        else:
            assert other["plan"] == own["plan"]


@pytest.mark.parametrize("name", ["mean", "describe", "ball", "normal", "private n", "groups", "quantiles", "count"])
def test_the_forecast_is_the_plan_of_the_release(name, folder, monkeypatch):
    """Of a CSV file, all of whose cells may be missing, as a plan without data supposes."""
    monkeypatch.chdir(folder)
    order, events = order_of(name), []
    orders.attempt(order, lambda event, **fields: events.append((event, fields)))
    release, forecast = es.from_json(events[-1][1]["text"]), plan_of(order.request, 1500)
    if order.request.groups is None:
        assert release.plan.to_json() == forecast.to_json()
    assert release.privacy == forecast.privacy


def test_a_ledger_and_a_query_are_in_the_recipe_too():
    data = Data(database="sqlite:////x/y.db", query="select age, income from people")
    order = Order(order_of("mean").request, data, "my budget.db", "survey")
    line = shlex.split(order.recipe.command)
    assert line[2:5] == ["sqlite:////x/y.db", "--sql", "select age, income from people"]
    assert line[line.index("--ledger") + 1] == "my budget.db"
    assert "es.sql('select age, income from people', 'sqlite:////x/y.db')" in order.recipe.python
    assert "es.Ledger('my budget.db').dataset('survey')" in order.recipe.python
