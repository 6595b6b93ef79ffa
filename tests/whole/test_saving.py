"""Plans and results in files: what was saved is what is loaded."""

import json
import subprocess
import sys

import numpy as np
import pytest

import ellipsum as es
from ellipsum.friendly.plan import friendly_plan

SPEND = {"epsilon": 1.0, "delta": 1e-6}
X = np.random.default_rng(0).normal(5.0, 1.0, (500, 2))
NAMED = es.Box({"age": (0, 120), "income": (0, 2e5)})
KEPT = {
    "plan": (lambda: es.plan("mean", NAMED, n=500, **SPEND), es.load),
    "plan of people": (lambda: es.plan("sum", NAMED, n=500, privacy_id="who", **SPEND), es.load),
    "learning plan": (lambda: es.plan("sum", es.Unknown(100.0), n=500, d=2, **SPEND), es.load),
    "friendly plan": (lambda: friendly_plan(500, 2, 3.0, budget=es.Budget(**SPEND)), es.load),
    "release": (lambda: es.sum(X, es.Box(0, 9), **SPEND), es.load),
    "friendly release": (lambda: es.friendly_mean(X, 8.0, epsilon=10.0, delta=1e-6), es.load),
    "no center": (lambda: es.friendly_mean(X, 0.01, epsilon=10.0, delta=1e-6), es.load),
    "learned": (lambda: es.learn(X, es.Unknown(100.0), **SPEND), es.load),
}


@pytest.mark.parametrize("kind", KEPT)
def test_what_is_saved_is_loaded(kind, tmp_path):
    make, load = KEPT[kind]
    made, path = make(), tmp_path / "kept.json"
    made.save(path)
    found = load(path)
    assert found == made
    assert type(found) is type(made)
    assert path.read_text() == found.to_json() + "\n"


@pytest.mark.parametrize("kind", ["groups", "friendly"])
def test_any_release_reads_one_of_another_kind_whose_modules_were_not_needed_so_far(kind, tmp_path):
    path = tmp_path / "kept.json"
    made = {
        "groups": lambda: es.sum(X, es.Box(0, 9), by=es.Groups(np.arange(500) % 2, keys=[0, 1]), **SPEND),
        "friendly": lambda: es.friendly_mean(X, 8.0, epsilon=10.0, delta=1e-6),
    }[kind]()
    made.save(path)
    code = (
        "import sys, numpy, ellipsum as es;"
        "plain = es.sum(numpy.zeros((50, 2)), es.Box(0, 1), epsilon=1, delta=1e-6);"
        "print(es.load(sys.argv[1]).to_json())"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert done.stdout == path.read_text()


def test_a_loaded_plan_runs(tmp_path):
    plan = es.plan("mean", es.Box([0, 0], [9, 9]), n=500, **SPEND)
    plan.save(str(tmp_path / "plan.json"))
    first, second = (one.release(X, np.random.default_rng(1)) for one in (plan, es.load(str(tmp_path / "plan.json"))))
    assert first == second


def test_no_output_replaces_a_ledger(tmp_path):
    ledger = es.Ledger(tmp_path / "budget.db")
    ledger.init("survey", epsilon=1, delta=1e-6)
    words = {"ledger": ledger.dataset("survey")}
    release = es.sum(X, es.Box(0, 9), **words, **SPEND)
    for name in ("budget.db", "budget.db-wal"):
        with pytest.raises(es.UsageError, match="is a database"):
            release.save(tmp_path / name)
    with pytest.raises(es.UsageError, match="is a database"):
        es.project(X, 2, es.Ball(9.0), epsilon=100, delta=1e-6, output=tmp_path / "budget.db")
    assert ledger.account("survey").released == 1


@pytest.mark.parametrize("kind", KEPT)
def test_a_file_of_something_else_is_refused(kind, tmp_path):
    load = KEPT[kind][1]
    with pytest.raises(es.DataError, match="Could not read the"):
        load(tmp_path / "nothing.json")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(es.UsageError):
        load(tmp_path / "other.json")


def test_counts_that_a_plan_has_not_are_refused():
    saved = json.loads(es.mean(X, es.Ball(9.0), **SPEND).to_json())
    saved["counts"]["outside"] = []
    with pytest.raises(es.UsageError, match="Integrity check"):
        es.from_json(json.dumps(saved))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("std", 0.1),
        ("privacy", {"mu": 0.01, "slack": 0.0, "neighbors": "replace", "unit": "person"}),
        ("people", [1.0]),
    ],
)
def test_doctored_rows_per_person_are_refused(name, value):
    made = es.suggest_max_rows({"who": np.arange(500) // 2, "x": X[:, 0]}, "who", **SPEND)
    saved = json.loads(made.to_json())
    assert type(made).from_json(made.to_json()).to_json() == made.to_json()
    saved[name] = value
    with pytest.raises(es.UsageError):
        type(made).from_json(json.dumps(saved))
