"""A request is the same whether the studio, a shell or Python makes it."""

import json
import shlex
import warnings

import numpy as np
import pytest

import ellipsum as es
from ellipsum.apps.studio import worker
from ellipsum.apps.studio.asks import Ask, Data, command_line, python_text
from ellipsum.apps.studio.forecasts import plan_of

PLAIN = {"columns": ("age", "income"), "pairs": ((0.0, 120.0), (0.0, 2e5)), "epsilon": 1.0, "delta": 1e-6}
ASKS = {
    "mean": Ask("mean", "bounds", **PLAIN),
    "odd names": Ask("sum", "bounds", **{**PLAIN, "columns": ("age", 'a b=c, "d"\'s')}),
    "describe": Ask("describe", "bounds", **PLAIN, missing="row", noise="gaussian"),
    "ball": Ask("mean", "ball", ("age", "income"), radius=2e5, center=60.5, epsilon=0.5, delta=0.0, missing=7.0),
    "normal": Ask("mean", "normal", **{**PLAIN, "pairs": ((50.0, 15.0), (4e4, 1e4))}, weights="equal"),
    "learned": Ask("mean", "learned", ("age", "income"), magnitude=1e6, epsilon=2.0, delta=1e-6),
    "learned groups": Ask(
        "mean",
        "learned",
        ("age", "income"),
        magnitude=1e6,
        epsilon=5.0,
        delta=1e-6,
        by=("city",),
        keys=(("Oslo", "Rome"),),
    ),
    "private n": Ask("mean", "bounds", **PLAIN, neighbors="add_remove", n=1500),
    "people": Ask("mean", "bounds", **PLAIN, privacy_id="who", per_person="rows", max_rows=3),
    "groups": Ask("mean", "bounds", **PLAIN, by=("city",), keys=(("Oslo", "Rome, Italy"),)),
    "private groups": Ask("sum", "bounds", **PLAIN, by=("city", "sex"), privacy_id="who", max_groups=2),
    "two lists": Ask("sum", "bounds", **PLAIN, by=("city", "sex"), keys=(("Oslo", "Rome"), ("f", "m"))),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(1)
    place = tmp_path_factory.mktemp("asks")
    cells = {
        "age": rng.uniform(18, 90, 1500).round(1),
        "income": rng.uniform(0, 9e4, 1500).round(),
        'a b=c, "d"\'s': rng.uniform(0, 9e4, 1500).round(),
        "who": rng.integers(0, 700, 1500),
        "city": rng.choice(["Oslo", "Rome"], 1500),
        "sex": rng.choice(["f", "m"], 1500),
    }
    import csv

    with open(place / "it's people.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(cells)
        writer.writerows(zip(*(column.tolist() for column in cells.values()), strict=True))
    return place


def in_shell(line, capsys):
    from ellipsum.apps.cli.commands import app

    program, *words = shlex.split(line)
    assert program == "ellipsum"
    app([*words, "--json"], standalone_mode=False)
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", ASKS)
def test_the_command_and_the_python_text_make_the_same_request(name, folder, capsys, monkeypatch):
    """Both plans are the studio's own, to the last field."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("ELLIPSUM_LEDGER", raising=False)
    ask, data = ASKS[name], Data(path="it's people.csv")
    told = []
    warnings.simplefilter("ignore", es.AccuracyWarning)
    order = {"ask": json.loads(json.dumps(ask.to_dict())), "data": vars(data), "accepted": True}
    worker.attempt(order, lambda event, **fields: told.append((event, fields)))
    assert told[-1][0] == "released", told[-1]
    own = json.loads(told[-1][1]["text"])
    typed = in_shell(command_line(ask, data, accepted=True), capsys)
    space: dict[str, object] = {}
    exec(python_text(ask, data), space)
    written = json.loads(space["release"].to_json())
    for other in (typed, written):
        if ask.kind == "learned":  # the last round's plan follows from noisy rounds before
            assert other["learned"]["stated"] == own["learned"]["stated"]
            assert other["privacy"] == own["privacy"]
        else:
            assert other["plan"] == own["plan"]


@pytest.mark.parametrize("name", ["mean", "describe", "ball", "normal", "private n", "groups"])
def test_the_forecast_is_the_plan_of_the_release(name, folder, monkeypatch):
    """Of a CSV file, all of whose cells may be missing, as a plan without data supposes."""
    monkeypatch.chdir(folder)
    ask = ASKS[name]
    warnings.simplefilter("ignore", es.AccuracyWarning)
    made = getattr(es, ask.statistic)("it's people.csv", ask.rows(), **ask.words())
    forecast = plan_of(ask, 1500)
    assert forecast.expected_squared_error is not None
    if name != "groups":
        assert made.plan.to_json() == forecast.to_json()
    assert made.privacy == forecast.privacy


def test_a_ledger_and_a_query_are_in_the_words_too(folder):
    ask = Ask("mean", "bounds", **PLAIN, ledger="my budget.db", dataset="survey")
    data = Data(database="sqlite:////x/y.db", query="select age, income from people")
    line = shlex.split(command_line(ask, data))
    assert line[2:5] == ["sqlite:////x/y.db", "--sql", "select age, income from people"]
    assert line[line.index("--ledger") + 1] == "my budget.db"
    assert "es.sql('select age, income from people', 'sqlite:////x/y.db')" in python_text(ask, data)
    assert "dataset='survey'" in python_text(ask, data)
