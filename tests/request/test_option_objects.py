"""Objects that hold the options of people, groups, files and ledgers give what the separate arguments give."""

import numpy as np
import pytest

import ellipsum as es

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
TABLE = {
    "who": [f"p{i % 40}" for i in range(200)],
    "city": [("Oslo", "Rome")[i % 2] for i in range(200)],
    "age": np.linspace(0, 100, 200).tolist(),
}


def mean(data=TABLE, **words):
    return es.mean(data, {"age": (0, 120)}, rng=np.random.default_rng(3), **BUDGET, **words)


def test_people():
    made = mean(privacy_id=es.People("who", per_person="sum", max_rows=2))
    assert made.plan.request.people == es.People("who", "sum", 2)
    assert made.plan.n == 40
    assert mean(privacy_id=es.People("who")) == mean(privacy_id="who")
    for gone in ({"per_person": "mean"}, {"max_rows": 2}):
        with pytest.raises(es.UsageError, match=r"Use privacy_id=es\.People\(name, per_person=, max_rows=\)"):
            mean(privacy_id="who", **gone)
    with pytest.raises(es.UsageError, match="max_rows is missing"):
        es.People("who", per_person="sum")


def test_groups():
    made = mean(by=es.Groups("city", keys=["Oslo", "Rome"]))
    assert made.plan.request.groups == es.Groups("city", ["Oslo", "Rome"])
    assert made.keys.tolist() == [["Oslo"], ["Rome"]]
    assert mean(by=es.Groups("city")) == mean(by="city")
    guess = es.plan("sum", es.Box(0, 1), d=1, n=90, by=es.Groups("city", expected=3), **BUDGET)
    assert guess.request.groups.size == 3
    for gone in ({"keys": ["Oslo"]}, {"max_per_person": 2}, {"expected": 3}):
        with pytest.raises(es.UsageError, match=r"Use by=es\.Groups\(name, keys=, max_per_person=, expected=\)"):
            mean(by="city", **gone)
    with pytest.raises(es.UsageError, match="privacy_id"):
        mean(by=es.Groups("city", max_per_person=2))


def test_csv_files(tmp_path):
    path = tmp_path / "ages.csv"
    path.write_text("1990\n" + "\n".join(map(str, range(100))) + "\n")
    found = es.mean(es.csv(path, header=True), es.Box({"1990": (0, 120)}), rng=np.random.default_rng(3), **BUDGET)
    table = {"1990": np.arange(100.0)}
    assert found == es.mean(table, es.Box({"1990": (0, 120)}), rng=np.random.default_rng(3), **BUDGET)
    with pytest.raises(es.UsageError, match="holds numbers"):
        es.mean(es.csv(path), es.Box(0, 120), **BUDGET)
    with pytest.raises(es.UsageError, match="header"):
        es.csv(path, header=False)
    with pytest.raises(es.UsageError, match="path must be"):
        es.csv(np.zeros(3))


def test_accounts_of_ledgers(tmp_path):
    ledger = es.Ledger(tmp_path / "budget.db")
    ledger.init("survey", epsilon=1.5, delta=1e-5)
    mean(ledger=ledger.dataset("survey"))
    with pytest.raises(es.BudgetRefused):
        mean(ledger=ledger.dataset("survey"))


def test_requests_are_replanned_and_saved(tmp_path):
    plan = es.plan("sum", {"age": (0, 120)}, n=100, privacy_id=es.People("who"), **BUDGET)
    assert es.replan(plan) == plan
    assert es.replan(plan, n=200).n == 200
    plan.save(tmp_path / "plan.json")
    assert es.load(tmp_path / "plan.json") == plan
