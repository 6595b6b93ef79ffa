"""Every releasing call is charged, before any value is read."""

import numpy as np
import pytest

import ellipsum as es
from ellipsum.ledger import DatasetAccount
from ellipsum.sources.local import Table

RNG = np.random.default_rng(0)
X = RNG.normal(0, 1, (500, 2))
VISITS = {"patient": RNG.integers(0, 200, 500), "pulse": RNG.uniform(0, 1, 500)}
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def block_mean(block):
    return block.mean(0)


CALLS = {
    "sum": lambda **words: es.sum(X, es.Box(-5, 5), **BUDGET, **words),
    "mean": lambda **words: es.mean(X, es.Ball(5.0), **BUDGET, **words),
    "describe": lambda **words: es.describe(X, es.Box(-5, 5), **BUDGET, **words),
    "mean of Unknown": lambda **words: es.mean(X, es.Unknown(1e3), epsilon=8, delta=1e-6, **words),
    "learn": lambda **words: es.learn(X, es.Unknown(1e3), epsilon=8, delta=1e-6, **words),
    "learn, pure": lambda **words: es.learn(X, es.Unknown(1e3), epsilon=8.2, delta=0, **words),
    "learn by a friendly core": lambda **words: es.learn(
        X, es.Unknown(1e3, method="friendly_core"), epsilon=8, delta=1e-6, **words
    ),
    "plan": lambda **words: es.plan("sum", es.Box(-5, 5), n=500, d=2, count_clipped=False, **BUDGET).release(
        X, **words
    ),
    "friendly_mean": lambda **words: es.friendly_mean(X, 8.0, epsilon=4, delta=1e-6, **words),
    "aggregate": lambda **words: es.subsample_and_aggregate(
        block_mean, X, blocks=100, radius=4.0, epsilon=8, delta=1e-6, dimension=2, **words
    ),
    "project": lambda **words: es.project(X, 2, es.Ball(5.0), epsilon=100, delta=1e-6, **words),
    "count": lambda **words: es.count(X, neighbors="add_remove", n=500, **BUDGET, **words),
    "histogram": lambda **words: es.histogram({"x": X[:, 0]}, bins={"x": [-5, 0, 5]}, **BUDGET, **words),
    "quantiles": lambda **words: es.quantiles(X, es.Box(-5, 5), **BUDGET, **words),
    "suggest": lambda **words: es.suggest_max_rows(VISITS, "patient", **BUDGET, **words),
    "people": lambda **words: es.mean(VISITS, es.Box(0, 1), privacy_id="patient", **BUDGET, **words),
}
CALLS_WITH_KEYS = [name for name in CALLS if name != "project"]


@pytest.fixture
def ledger(tmp_path):
    ledger = es.Ledger(tmp_path / "budget.db")
    ledger.init("survey", epsilon=100, delta=1e-6)
    return ledger


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning", "ignore::ellipsum.ProjectionWarning")
@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_charged_and_entered(ledger, name):
    made = CALLS[name](ledger=ledger.dataset("survey"))
    account = ledger.account("survey")
    assert (account.reserved, account.released) == (1, 1)
    assert account.privacy_unit.unit == made.privacy.unit
    assert account.caps.squares_spent + sum(account.caps.pure_spent) > 0
    assert ledger.verify()


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")
@pytest.mark.parametrize("name", CALLS_WITH_KEYS)
def test_a_key_makes_a_retry_free(ledger, name):
    words = {"ledger": ledger.dataset("survey"), "request_id": "first"}
    made = CALLS[name](**words)
    again = CALLS[name](**words)
    assert type(again) is type(made)
    assert again.to_json() == made.to_json()
    assert (made.stored, again.stored) == (False, True)
    assert ledger.account("survey").reserved == 1


def test_a_key_tells_learning_from_a_mean(ledger):
    words = {"ledger": ledger.dataset("survey"), "request_id": "first"}
    CALLS["learn"](**words)
    with pytest.raises(es.BudgetRefused, match="different request"):
        CALLS["mean of Unknown"](**words)


def test_a_key_tells_identities_apart(ledger):
    table = {**VISITS, "doctor": VISITS["patient"] // 10}
    words = {"ledger": ledger.dataset("survey"), "request_id": "first", **BUDGET}
    es.suggest_max_rows(table, "patient", **words)
    with pytest.raises(es.BudgetRefused, match="different request"):
        es.suggest_max_rows(table, "doctor", **words)


def test_a_key_tells_functions_apart(ledger):
    def block_median(block):
        return np.median(block, 0)

    words = {"ledger": ledger.dataset("survey"), "request_id": "first"}
    CALLS["aggregate"](**words)
    with pytest.raises(es.BudgetRefused, match="different request"):
        es.subsample_and_aggregate(block_median, X, blocks=100, radius=4.0, epsilon=8, delta=1e-6, dimension=2, **words)


def test_a_key_needs_a_name_and_all_options(ledger):
    """All lambdas have one name, and options that no plan holds belong to the request too."""
    words = {"blocks": 100, "radius": 4.0, "epsilon": 8, "delta": 1e-6, "dimension": 2}
    words |= {"ledger": ledger.dataset("survey"), "request_id": "first"}
    with pytest.raises(es.UsageError, match="function with a name"):
        es.subsample_and_aggregate(lambda block: block.mean(0), X, **words)
    es.subsample_and_aggregate(block_mean, X, **words)
    for other in ({"shuffle": False}, {"time_limit": 1.0}):
        with pytest.raises(es.BudgetRefused, match="different request"):
            es.subsample_and_aggregate(block_mean, X, **words, **other)


def test_a_projection_has_no_key(ledger):
    with pytest.raises(es.UsageError, match="too large to be stored"):
        CALLS["project"](ledger=ledger.dataset("survey"), request_id="first")


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning", "ignore::ellipsum.ProjectionWarning")
@pytest.mark.parametrize("name", CALLS)
def test_a_refused_call_reads_no_value(tmp_path, monkeypatch, name):
    ledger = es.Ledger(tmp_path / "budget.db")
    ledger.init("survey", epsilon=1e-3, delta=1e-9)

    def read(*_, **__):
        raise AssertionError("a value was read")

    for way in ("total", "each", "sample", "every", "_read"):
        monkeypatch.setattr(Table, way, read)
    with pytest.raises(es.BudgetRefused, match="No data was read and nothing was charged"):
        CALLS[name](ledger=ledger.dataset("survey"))
    assert ledger.account("survey").reserved == 0


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning", "ignore::ellipsum.ProjectionWarning")
@pytest.mark.parametrize("name", CALLS)
def test_the_charge_is_on_disk_when_values_are_read(ledger, monkeypatch, name):
    """Seen from another connection, at the first value that is read."""
    seen = []
    other = es.Ledger(ledger._store._path)

    def watched(way):
        plain = getattr(Table, way)

        def read(*arguments, **words):
            seen.append(other.account("survey").reserved)
            return plain(*arguments, **words)

        return read

    for way in ("total", "each", "sample", "every"):
        monkeypatch.setattr(Table, way, watched(way))
    CALLS[name](ledger=ledger.dataset("survey"))
    assert seen
    assert set(seen) == {1}


@pytest.mark.parametrize("words", [{"threads": 0}, {"rng": 3}, {"progress": 3}])
@pytest.mark.parametrize("name", ["sum", "learn", "plan", "friendly_mean", "suggest"])
def test_wrong_words_are_not_charged(ledger, name, words):
    with pytest.raises(es.UsageError):
        CALLS[name](ledger=ledger.dataset("survey"), **words)
    assert ledger.account("survey").reserved == 0


@pytest.mark.parametrize("groups", [{}, {"by": es.Groups("patient", keys=[1, 2])}])
def test_a_plan_for_another_number_of_rows_is_not_charged(ledger, groups):
    plan = es.plan("sum", es.Box({"pulse": (0, 1)}), n=499, **BUDGET, **groups)
    with pytest.raises(es.UsageError, match="made for 499 rows"):
        plan.release(VISITS, ledger=ledger.dataset("survey"))
    assert ledger.account("survey").reserved == 0


def test_a_plan_is_prepared_before_the_charge(ledger):
    account = ledger.dataset("survey")
    with es.prepare("sum", X, es.Box(-5, 5), ledger=account, request_id="first", **BUDGET) as prepared:
        assert prepared.plan.n == len(X)
        assert account.state.reserved == 0
    assert account.state.reserved == 0
    with es.prepare("sum", X, es.Box(-5, 5), ledger=account, request_id="first", **BUDGET) as prepared:
        made = prepared.release()
        assert account.state.released == 1
    assert es.sum(X, es.Box(-5, 5), ledger=account, request_id="first", **BUDGET) == made
    assert account.state.reserved == 1


def test_approval_comes_before_the_charge(ledger):
    class No(Exception):
        pass

    def refuse(plan):
        assert ledger.account("survey").reserved == 0
        raise No

    with pytest.raises(No):
        CALLS["project"](ledger=ledger.dataset("survey"), approve=refuse)
    assert ledger.account("survey").reserved == 0


def test_a_release_that_cannot_be_entered_is_given_out_with_a_warning(ledger, monkeypatch):
    def fail(*_, **__):
        raise es.DataError("the disk is full.")

    monkeypatch.setattr(DatasetAccount, "enter", fail)
    with pytest.warns(es.LedgerWarning, match="The release was charged, but.*the disk is full"):
        made = CALLS["sum"](ledger=ledger.dataset("survey"))
    assert made.value.shape == (2,)
    assert (ledger.account("survey").reserved, ledger.account("survey").released) == (1, 0)


def test_the_ledger_holds_no_digest_of_data(tmp_path):
    """Two data sets of the same public numbers leave the same entries, but for what was released."""
    found = []
    for data in (X, X + 1):
        ledger = es.Ledger(tmp_path / f"{len(found)}.db")
        ledger.init("survey", **BUDGET)
        es.sum(data, es.Box(-5, 5), ledger=ledger.dataset("survey"), **BUDGET)
        drop = ("at", "before", "digest", "release")
        found.append([{k: v for k, v in entry.items() if k not in drop} for entry in ledger.history()])
    assert found[0] == found[1]


@pytest.mark.parametrize(("data", "column"), [(X, 1), (VISITS, "pulse")], ids=["place", "name"])
def test_one_column_by_itself_is_a_list_of_one(ledger, data, column):
    """By its place it raised a TypeError, and by its name it was another request than the list."""
    asked = {**BUDGET, "ledger": ledger.dataset("survey"), "request_id": "again"}
    first = es.mean(data, es.Box(-5, 5), columns=column, **asked)
    assert es.mean(data, es.Box(-5, 5), columns=[column], **asked) == first
