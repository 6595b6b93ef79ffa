"""Budgets in a ledger: exact sums, caps, refusals, keys, units, analysts, periods."""

import copy
import math
import os
import pickle
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ellipsum as es
from ellipsum.ledger import ChargeRequest, dataset_account, entries
from ellipsum.ledger.charging import exact_text, parse_amount, short_text
from ellipsum.numerics.rounding import typed
from ellipsum.privacy.gaussian_curve import laplace_mu

X = np.random.default_rng(0).uniform(0, 1, (300, 2))
BOX = es.Box(0, 1)


@pytest.fixture
def ledger(tmp_path):
    return es.Ledger(tmp_path / "budget.db")


def pure(epsilon, **more):
    return ChargeRequest(
        "a test",
        es.Privacy.of_pure(es.Budget(epsilon=epsilon, delta=0).pair[0]),
        {"epsilon": epsilon, "delta": 0.0},
        **more,
    )


def gaussian(epsilon, delta, **more):
    mu = es.Budget(epsilon=epsilon, delta=delta).mu
    return ChargeRequest("a test", es.Privacy(mu), {"epsilon": epsilon, "delta": delta}, **more)


def mean(ledger, /, data=X, bounds=BOX, **words):
    return es.mean(data, bounds, **{"ledger": ledger.dataset("survey"), **words})


# Amounts ------------------------------------------------------------------------------------------------


def test_five_times_a_fifth_is_one(ledger):
    ledger.init("survey", epsilon=1, delta=1e-6)
    for _ in range(5):
        assert mean(ledger, epsilon=0.2, delta=0).privacy.epsilon(0) <= typed(0.2)
    assert ledger.account("survey").to_dict()["spent"]["epsilon"] == ["1"]
    with pytest.raises(
        es.BudgetRefused,
        match=r"not enough epsilon left.*No request of this kind.*No data was read",
    ):
        mean(ledger, epsilon=0.2, delta=0)


@pytest.mark.parametrize(("step", "times"), [(0.1, 10), (0.2, 5), (0.05, 20), (0.3, 3), (0.7, 1), (1e-3, 100)])
def test_decimals_are_added_as_typed(ledger, step, times):
    whole = exact_text(typed(step) * times)
    ledger.init("survey", epsilon=whole, delta=0)
    for _ in range(times):
        ledger.dataset("survey").reserve(pure(step))
    assert ledger.account("survey").to_dict()["spent"]["epsilon"] == [whole]
    with pytest.raises(es.BudgetRefused):
        ledger.dataset("survey").reserve(pure(1e-12))


@pytest.mark.parametrize("epsilon", [0.1, 0.2, 0.3, 0.7, 1.1, 0.05, 3.3])
@pytest.mark.parametrize("noise", ["knorm", "auto"])
def test_noise_is_calibrated_to_at_most_what_was_typed(epsilon, noise):
    plan = es.plan("sum", BOX, n=900, d=2, epsilon=epsilon, delta=0, noise=noise)
    assert all(Fraction(spent) <= typed(epsilon) for spent in plan.privacy.as_pair().pure)


def test_what_is_not_proved_to_be_the_decimal_is_charged_as_it_is(ledger):
    ledger.init("survey", epsilon=1, delta=0)
    more = es.Privacy.of_pure(np.nextafter(0.2, 1))
    ledger.dataset("survey").reserve(ChargeRequest("a test", more, {"epsilon": 0.2, "delta": 0.0}))
    spent = ledger.account("survey").to_dict()["spent"]["epsilon"][0]
    assert Fraction(spent) == Fraction(more.pure[0]) > Fraction(1, 5)


def test_amounts_are_exact_and_written_back():
    for text in ("0.1", "1e-6", "1", "12.5", "0"):
        assert Fraction(exact_text(parse_amount("epsilon", text))) == Fraction(text)
    assert parse_amount("epsilon", 0.1) == Fraction(1, 10)
    assert Fraction(exact_text(Fraction(0.1) ** 2)) == Fraction(0.1) ** 2
    third = Fraction(1, 3).limit_denominator(2**40) + Fraction(1, 2**60)
    exact = Fraction(round(third * 2**60), 2**60)
    assert Fraction(short_text(exact)) <= exact <= Fraction(short_text(exact, up=True))
    for wrong in (
        "-1",
        "nan",
        "inf",
        "1/3",
        "x",
        "1" * 500,
        True,
        "1e999999999",
        "1e-999999999",
        "1e-400",
        Fraction(1, 7),
    ):
        with pytest.raises(es.UsageError):
            parse_amount("epsilon", wrong)


# Caps ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [1e-6, 1e-5, 3e-7])
@pytest.mark.parametrize("noise", ["gaussian", "knorm", "auto"])
def test_a_whole_budget_is_one_release(ledger, delta, noise):
    ledger.init("survey", epsilon=1.1, delta=delta)
    mean(ledger, epsilon=1.1, delta=delta, noise=noise)
    with pytest.raises(es.BudgetRefused, match="Remaining: epsilon = 0 |Remaining: mu = 0 "):
        mean(ledger, epsilon=0.01, delta=delta, noise=noise)


def test_the_first_law_fixes_the_caps(ledger):
    ledger.init("pure", epsilon=1, delta=1e-6)
    ledger.dataset("pure").reserve(pure(0.5))
    assert ledger.account("pure").to_dict()["caps"] == {"mu": "0", "epsilon": ["1"], "delta": "0.000001"}
    ledger.init("normal", epsilon=1, delta=1e-6)
    ledger.dataset("normal").reserve(gaussian(0.5, 1e-6))
    caps = ledger.account("normal").caps
    assert caps.pure == ()
    assert float(caps.mu) == es.Budget(epsilon=1, delta=1e-6).mu


def test_the_other_law_enters_at_one_point_of_its_curve(ledger):
    ledger.init("pure", epsilon=1, delta=1e-6)
    ledger.dataset("pure").reserve(pure(0.5))
    ledger.dataset("pure").reserve(gaussian(0.25, 1e-7))
    assert ledger.account("pure").to_dict()["spent"] == {"squares": "0", "epsilon": ["0.75"], "delta": "1E-7"}
    with pytest.raises(es.BudgetRefused, match=r"not enough delta left.* fits: epsilon = 0\.25, delta = 9e-07\."):
        ledger.dataset("pure").reserve(gaussian(0.1, 1e-6))  # its delta no longer fits
    ledger.init("normal", epsilon=4, delta=1e-6)
    ledger.dataset("normal").reserve(gaussian(1, 1e-6))
    before = ledger.account("normal").caps.squares_spent
    ledger.dataset("normal").reserve(pure(0.5))
    spent = ledger.account("normal").caps.squares_spent - before
    assert spent == Fraction(laplace_mu(0.5)) ** 2


def test_gaussians_add_in_squares(ledger):
    ledger.init("survey", mu=1)
    for _ in range(25):
        ledger.dataset("survey").reserve(
            ChargeRequest("a test", es.Privacy(es.Budget(mu=0.2).as_typed().mu), {"mu": 0.2})
        )
    with pytest.raises(es.BudgetRefused, match="Remaining: mu = 0 of 1"):
        ledger.dataset("survey").reserve(ChargeRequest("a test", es.Privacy(1e-9), {"mu": 1e-9}))


def test_caps_are_stated_within_the_budget(ledger):
    ledger.init("survey", epsilon=2, delta=1e-6, caps={"mu": "0.2", "epsilon": ["0.5", "0.25"], "delta": "1e-8"})
    ledger.dataset("survey").reserve(pure(0.5))
    ledger.dataset("survey").reserve(pure(0.25))
    ledger.dataset("survey").reserve(pure(0.1))  # as the Gaussian curve that covers it
    with pytest.raises(es.BudgetRefused):
        ledger.dataset("survey").reserve(pure(0.3))
    with pytest.raises(es.UsageError, match="more than the budget"):
        ledger.init("greedy", epsilon=1, delta=1e-6, caps={"mu": "0.3", "epsilon": "0.5"})
    ledger.init("plain", epsilon="1.1", delta="1e-5", caps={"epsilon": "1.1", "delta": "1e-5"})
    ledger.init("two", epsilon="1.1", delta=0, caps={"epsilon": ["0.5", "0.6"]})
    for caps in ({"epsilon": "1.11", "delta": "1e-5"}, {"epsilon": "1.1", "delta": "1.1e-5"}):
        with pytest.raises(es.UsageError, match="more than the budget"):
            ledger.init("more", epsilon="1.1", delta="1e-5", caps=caps)
    with pytest.raises(es.UsageError, match="caps may have"):
        ledger.init("odd", epsilon=1, delta=1e-6, caps={"rho": "1"})


def test_the_guarantee_of_the_caps_is_the_budget(ledger):
    """In exact arithmetic, at the decimals that were typed: both doubles lie above them."""
    asks = {
        "normal": gaussian(0.3, 1e-7),
        "delta": ChargeRequest("x", es.Privacy(0.05, 1e-8), {"epsilon": 0.3, "delta": 1e-7}),
    }
    for name, ask in asks.items():
        ledger.init(name, epsilon="1.1", delta="1e-5")
        ledger.dataset(name).reserve(ask)
        caps = ledger.account(name).caps
        below = np.nextafter(1.1, 0)
        assert below < Fraction("1.1") < Fraction(1.1)
        curve = es.Privacy(float(caps.mu)).delta(below)
        assert Fraction(curve) + caps.slack <= Fraction("1e-5") < Fraction(1e-5)
        assert float(caps.slack) == pytest.approx(0 if name == "normal" else 1e-6, rel=1e-12)
    ledger.init("pure", epsilon="1.1", delta="1e-5")
    ledger.dataset("pure").reserve(pure(0.3))
    caps = ledger.account("pure").caps
    assert (caps.mu, caps.pure, caps.slack) == (0, (Fraction("1.1"),), Fraction("1e-5"))


def test_a_slack_keeps_its_share(ledger):
    ledger.init("survey", epsilon=1, delta=1e-6)
    x = np.random.default_rng(1).normal(0, 1, (400, 2))
    words = {"epsilon": 1, "delta": 1e-6, "ledger": ledger.dataset("survey")}
    es.friendly_mean(x, 8.0, **words)
    with pytest.raises(es.BudgetRefused):
        es.friendly_mean(x, 8.0, **words)


# Refusals -----------------------------------------------------------------------------------------------

BUDGETS = {
    "pure, in memory": ({"epsilon": 1, "delta": 0}, None),
    "set by the first release, in memory": ({"epsilon": 1.1, "delta": 1e-5}, None),
    "mu, in memory": ({"mu": 0.7}, None),
    "set by the first release": ({"epsilon": 0.9, "delta": 3e-6}, {}),
    "caps of both": ({"epsilon": 2, "delta": 1e-6}, {"caps": {"mu": 0.2, "epsilon": [0.5, 0.3], "delta": 1e-8}}),
    "analysts and periods": ({"epsilon": 1.3, "delta": 3e-6}, {"analyst_caps": {"ana": 0.9}, "period": {"year": 0.8}}),
}
ROWS = {"group": np.arange(300) % 2, "x": X[:, 0], "y": X[:, 1]}
CALLS = {
    "mean": lambda **words: es.mean(X, BOX, **words),
    "ball": lambda **words: es.mean(X, es.Ball(2), **words),
    "groups": lambda **words: es.mean(ROWS, es.Box({"x": (0, 1)}), by="group", **words),
    "friendly_mean": lambda **words: es.friendly_mean(X, 4.0, **words),
    "project": lambda noise=None, **words: es.project(X, 1, es.Ball(2), **{"adversary": "oblivious", **words}),
}


def stated_request(refusal):
    """The request that a refusal says is the largest that fits, as arguments."""
    text = re.search(r"Largest request that fits: (.*?)\. No data", str(refusal))
    if text is None:
        return None
    words = dict(part.split(" = " if " = " in part else "=") for part in text[1].split(", "))
    return {name: value.strip("'") if "'" in value else float(value) for name, value in words.items()}


def try_call(name, budget, **words):
    """True, or the refusal of the ledger; None where the call itself is not possible."""
    if set(words) & {"mu", "rho"}:
        words = {"budget": es.Budget(**words)}
    try:
        CALLS[name](ledger=budget, **words)
    except es.BudgetRefused as refusal:
        return refusal
    except es.UsageError:
        return None
    return True


def open_budget(kind, folder):
    whole, more = BUDGETS[kind]
    if more is None:
        return es.Ledger.in_memory(**whole)
    ledger = es.Ledger(folder / "budget.db")
    ledger.init("survey", **whole, **more)
    return ledger.dataset("survey", analyst="ana")


@st.composite
def requests(draw, kind):
    """A call of some kind, for a random budget."""
    name = draw(st.sampled_from(["mean", "ball"] if kind.startswith(("pure", "mu")) else list(CALLS)))
    amount = draw(st.integers(1, 999)) / 1000
    if kind.startswith("mu") and draw(st.booleans()):
        return name, {draw(st.sampled_from(["mu", "rho"])): amount}
    delta = draw(st.sampled_from([0.0, 1e-7, 3e-6, 1e-5]))
    return name, {"epsilon": amount, "delta": delta, "noise": draw(st.sampled_from(["auto", "gaussian", "knorm"]))}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", BUDGETS)
@settings(max_examples=25)
@given(data=st.data())
def test_a_refusal_states_the_largest_request_that_fits(kind, data, tmp_path_factory):
    """Whatever was spent before: it is accepted, and what is larger in its last digit is not."""
    budget = open_budget(kind, tmp_path_factory.mktemp("ledger"))
    for _ in range(8):
        name, words = data.draw(requests(kind))
        outcome = try_call(name, budget, **words)
        if isinstance(outcome, es.BudgetRefused):
            break
    else:
        return
    largest = stated_request(outcome)
    if largest is None:
        assert re.search("No request of this kind fits|is in epsilon and delta", str(outcome))
        return
    request = ({"noise": words["noise"]} if "noise" in words else {}) | largest
    amount = next(iter(largest))
    unit = 10.0 ** (math.floor(math.log10(request[amount])) - 3)
    assert try_call(name, budget, **request | {amount: request[amount] + 1.01 * unit}) is not True
    accepted = try_call(name, budget, **request)
    assert accepted is True or (
        name == "friendly_mean" and accepted is None
    )  # it may have too few rows for less budget


def test_a_refusal_spends_nothing(ledger):
    ledger.init("survey", epsilon=1, delta=0)
    ledger.dataset("survey").reserve(pure(0.5))
    before = ledger.anchor
    with pytest.raises(
        es.BudgetRefused,
        match=r"Requested: epsilon = 0\.6.* Remaining: epsilon = 0\.5 of 1\..* fits: epsilon = 0\.5, delta = 0\.",
    ):
        ledger.dataset("survey").reserve(pure(0.6))
    assert ledger.anchor == before


def test_a_slack_that_does_not_fit_is_named(ledger):
    ledger.init("survey", epsilon=4, delta=1e-6)
    ledger.dataset("survey").reserve(gaussian(0.5, 1e-6))
    ask = ChargeRequest("x", es.Privacy(0.1, 1e-8), {"epsilon": 0.5, "delta": 1e-7})
    with pytest.raises(es.BudgetRefused, match="not enough delta left.*delta = 0.*No request of this kind fits"):
        ledger.dataset("survey").reserve(ask)


def test_a_budget_of_epsilon_is_not_spent_as_mu():
    budget = es.Ledger.in_memory(epsilon=1, delta=0)
    with pytest.raises(es.BudgetRefused, match="in epsilon and delta. Pass epsilon="):
        es.mean(X, BOX, budget=es.Budget(mu=0.01), ledger=budget)


# In memory ----------------------------------------------------------------------------------------------


def test_calls_share_a_budget_in_memory():
    budget = es.Ledger.in_memory(epsilon=1, delta=1e-6)
    first = es.mean(X, BOX, epsilon=0.5, delta=0, ledger=budget, request_id="monday")
    es.sum(X, BOX, epsilon=0.25, delta=0, ledger=budget)
    assert "remaining     epsilon = 0.25" in repr(budget)
    with pytest.raises(es.BudgetRefused, match=r"Remaining: epsilon = 0\.25 of 1.*fits: epsilon = 0\.25"):
        es.describe(X, BOX, epsilon=0.5, delta=0, quantiles=None, ledger=budget)
    assert es.mean(X, BOX, epsilon=0.5, delta=0, ledger=budget, request_id="monday") == first
    assert budget.state.released == 2


def test_a_copy_of_a_budget_in_memory_has_no_budget_of_its_own():
    """A forked process, or a copied object, would have the whole budget again; estimators copy their arguments."""
    budget = es.Ledger.in_memory(epsilon=1, delta=0)
    es.mean(X, BOX, epsilon=0.25, delta=0, ledger=copy.deepcopy(budget))
    assert budget.remaining == {"epsilon": 0.75}
    with pytest.raises(es.UsageError, match="only in the process that made it"):
        pickle.dumps(budget)
    child = os.fork()
    if child == 0:
        try:
            es.mean(X, BOX, epsilon=0.5, delta=0, ledger=budget)
        except es.UsageError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_copy_of_an_account_in_a_file_has_the_same_budget(ledger):
    """Estimators are cloned and pickled with their arguments."""
    ledger.init("survey", epsilon=1, delta=0, analyst_caps={"ana": 0.6})
    account = ledger.dataset("survey@2026", analyst="ana").for_request("a")
    for again in (copy.deepcopy(account), pickle.loads(pickle.dumps(account))):
        assert (again.dataset, again.analyst, again.request_id) == ("survey@2026", "ana", "a")
        es.mean(X, BOX, epsilon=0.3, delta=0, ledger=again)
    with pytest.raises(es.BudgetRefused, match="'ana'"):
        es.mean(X, BOX, epsilon=0.1, delta=0, ledger=account)
    assert ledger.account("survey").released == 2


def test_an_account_is_taken_by_every_call(ledger):
    ledger.init("survey", epsilon=1, delta=0)
    account = ledger.dataset("survey@2026", analyst="ana")
    es.mean(X, BOX, epsilon=0.5, delta=0, ledger=account)
    entry = ledger.history()[-2]
    assert (entry["version"], entry["analyst"]) == ("2026", "ana")
    for gone in ({"dataset": "survey"}, {"analyst": "ana"}):
        with pytest.raises(es.UsageError, match=r"Use ledger=es\.Ledger\(address\)\.dataset\(name, analyst=\)"):
            es.mean(X, BOX, epsilon=0.5, delta=0, ledger=account, **gone)
    assert ledger.account("survey").reserved == 1


def test_closed_means_closed(ledger):
    ledger.init("survey", epsilon=1, delta=0)
    ledger.close("survey")
    ledger.close("survey")
    with pytest.raises(es.BudgetRefused, match="closed"):
        ledger.dataset("survey").reserve(pure(0.1))
    assert ledger.account("survey").closed
    assert [entry["what"] for entry in ledger.history()] == ["created", "closed"]


def test_wrong_words(ledger, tmp_path, monkeypatch):
    monkeypatch.delenv("ELLIPSUM_LEDGER", raising=False)
    words = {"epsilon": 1, "delta": 1e-6}
    for wrong in (ledger, tmp_path / "budget.db", str(tmp_path / "budget.db"), 3):
        with pytest.raises(es.UsageError, match=r"ledger must be the account of a data set.*got \w+\."):
            es.mean(X, BOX, ledger=wrong, **words)
    with pytest.raises(es.UsageError, match="request_id needs ledger"):
        es.mean(X, BOX, request_id="a", **words)
    with pytest.raises(es.UsageError, match="A ledger is a path"):
        es.Ledger(3)
    with pytest.raises(es.DataError, match="There is no ledger"):
        es.mean(X, BOX, ledger=es.Ledger(tmp_path / "other.db").dataset("survey"), **words)
    assert not (tmp_path / "other.db").exists()
    ledger.init("survey", **words)
    with pytest.raises(es.UsageError, match="has a budget in this ledger already"):
        ledger.init("survey", **words)
    with pytest.raises(es.UsageError, match="no data set 'surveys'. It has 'survey'"):
        es.mean(X, BOX, ledger=ledger.dataset("surveys"), **words)
    for wrong in ({}, {"epsilon": 1}, {"epsilon": 1, "delta": 1e-6, "mu": 1}, {"epsilon": -1, "delta": 0}):
        with pytest.raises(es.UsageError):
            ledger.init("other", **wrong)
    for name in ("", " ", "a\n", "a@b", 3, "x" * 300):
        with pytest.raises(es.UsageError):
            ledger.init(name, **words)
    for wrong in (
        {"analyst_caps": ["ann"]},
        {"period": "month"},
        {"caps": [1]},
        {"caps": {"epsilon": []}},
        {"caps": {"epsilon": Fraction(1, 3)}},
    ):
        with pytest.raises(es.UsageError):
            ledger.init("other", **words, **wrong)
    for wrong in ({"dataset": "other"}, {"last": 0}, {"last": "all"}):
        with pytest.raises(es.UsageError):
            ledger.history(**wrong)
    for address in ("", 3, "mysql://host/x", "sqlite:x"):
        with pytest.raises(es.UsageError) if address != "sqlite:x" else pytest.raises(es.DataError):
            es.Ledger(address).accounts()


def test_the_environment_asks_for_a_ledger(ledger, tmp_path, monkeypatch):
    ledger.init("survey", epsilon=1, delta=0)
    monkeypatch.setenv("ELLIPSUM_LEDGER", str(tmp_path / "budget.db"))
    for words in ({}, {"request_id": "monday"}):
        with pytest.raises(es.UsageError, match="Missing argument ledger: ELLIPSUM_LEDGER is set"):
            es.mean(X, BOX, epsilon=0.5, delta=0, **words)
    mean(ledger, epsilon=0.5, delta=0)
    assert ledger.account("survey").released == 1


# Units --------------------------------------------------------------------------------------------------


def test_units_are_not_added_up(ledger):
    ledger.init("survey", epsilon=1, delta=0)
    ledger.dataset("survey").reserve(pure(0.1))
    person = ChargeRequest("x", es.Privacy.of_pure(0.1, "replace", "person"), {}, "patient")
    added = ChargeRequest("x", es.Privacy.of_pure(0.1, "add_remove"))
    for other in (person, added):
        with pytest.raises(es.BudgetRefused, match="do not add up"):
            ledger.dataset("survey").reserve(other)
    ledger.init("visits", epsilon=1, delta=0)
    ledger.dataset("visits").reserve(person)
    with pytest.raises(
        es.BudgetRefused, match="one person .identified by 'patient'.*one person .identified by 'doctor'"
    ):
        ledger.dataset("visits").reserve(ChargeRequest("x", person.guarantee, {}, "doctor"))


def test_units_are_stated_beforehand(ledger):
    ledger.init("visits", epsilon=1, delta=0, privacy_id="patient", neighbors="add_remove")
    with pytest.raises(es.BudgetRefused, match="add or remove one person .identified by 'patient'"):
        ledger.dataset("visits").reserve(pure(0.1))
    right = ChargeRequest("x", es.Privacy.of_pure(0.1, "add_remove", "person"), {}, "patient")
    ledger.dataset("visits").reserve(right)
    assert ledger.account("visits").reserved == 1


def test_a_place_is_not_a_name(ledger):
    """The first column of an array names other people than the column "0" of a frame."""
    rows = np.column_stack([np.arange(20) // 2, np.linspace(0, 1, 20)])
    frame = {"0": np.arange(20), "x": rows[:, 1]}
    asked = {"epsilon": 0.1, "delta": 0, "ledger": ledger.dataset("visits")}
    ledger.init("visits", epsilon=1, delta=0)
    es.mean(rows, es.Box(0, 1), privacy_id=0, **asked)
    with pytest.raises(es.BudgetRefused, match="one person .identified by 0.*one person .identified by '0'"):
        es.mean(frame, es.Box({"x": (0, 1)}), privacy_id="0", **asked)
    es.mean(rows, es.Box(0, 1), privacy_id=np.int64(0), **asked)
    ledger.init("others", epsilon=1, delta=0, privacy_id=0)
    es.mean(rows, es.Box(0, 1), privacy_id=0, **(asked | {"ledger": ledger.dataset("others")}))
    assert ledger.account("others").to_dict()["privacy_unit"]["privacy_id"] == 0
    ledger.verify()


# Keys ---------------------------------------------------------------------------------------------------


def test_a_key_returns_the_stored_release(ledger):
    ledger.init("survey", epsilon=1, delta=0)
    first = mean(ledger, epsilon=0.5, delta=0, request_id="monday")
    assert mean(ledger, data=X[::-1], epsilon=0.5, delta=0, request_id="monday") == first
    assert mean(ledger, epsilon=0.5, delta=0) != first  # without the key it is a new release
    assert ledger.account("survey").to_dict()["spent"]["epsilon"] == ["1"]
    assert mean(ledger, epsilon=0.5, delta=0, request_id="monday") == first  # with nothing left, and closed
    ledger.close("survey")
    assert mean(ledger, epsilon=0.5, delta=0, request_id="monday") == first
    assert ledger.verify()


def test_a_key_is_for_one_request(ledger):
    ledger.init("survey", epsilon=1, delta=0)
    mean(ledger, epsilon=0.5, delta=0, request_id="monday")
    for other in (
        {"epsilon": 0.4},
        {"epsilon": 0.5, "neighbors": "add_remove", "n": 300},
        {"epsilon": 0.5, "bounds": es.Box(0, 2)},
        {"epsilon": 0.5, "ledger": ledger.dataset("survey@2027")},
        {"epsilon": 0.5, "columns": [1, 0]},
    ):
        with pytest.raises(es.BudgetRefused, match="different request|do not add up"):
            mean(ledger, delta=0, request_id="monday", **other)
    assert ledger.account("survey").reserved == 1


def test_a_key_without_a_release_says_so(ledger):
    ledger.init("survey", epsilon=1, delta=0)

    def broken(fraction):
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        mean(ledger, epsilon=0.5, delta=0, request_id="monday", progress=broken)
    account = ledger.account("survey")
    assert (account.reserved, account.released, account.waiting) == (1, 0, (3,))
    assert "0 completed, 1 charged but not completed (entries 3)" in repr(account)
    with pytest.raises(es.BudgetRefused, match="its release is not stored.*stays charged"):
        mean(ledger, epsilon=0.5, delta=0, request_id="monday")


# Analysts, periods, versions ----------------------------------------------------------------------------


def test_analysts_have_caps_within_the_whole(ledger):
    ledger.init("survey", epsilon=1.3, delta=0, analyst_caps={"north": 0.6, "*": 0.5})
    ledger.dataset("survey", analyst="north").reserve(pure(0.6))
    with pytest.raises(es.BudgetRefused, match=r"the analyst 'north' exceeded.* epsilon = 0 of 0\.6"):
        ledger.dataset("survey", analyst="north").reserve(pure(0.1))
    ledger.dataset("survey", analyst="south").reserve(pure(0.3))
    with pytest.raises(es.BudgetRefused, match=r"everybody else \('\*'\) exceeded.* epsilon = 0\.2 of 0\.5"):
        ledger.dataset("survey", analyst="a new name").reserve(pure(0.3))
    with pytest.raises(es.BudgetRefused, match="Budget of 'survey'"):
        ledger.dataset("survey").reserve(pure(0.5))
    ledger.init("strict", epsilon=1, delta=0, analyst_caps={"north": 1})
    with pytest.raises(es.UsageError, match="Pass analyst="):
        ledger.dataset("strict", analyst="south").reserve(pure(0.1))


def test_what_analysts_and_periods_have_spent_is_shown(ledger, monkeypatch):
    for module in (dataset_account, entries):
        monkeypatch.setattr(module, "read_clock", lambda: "2026-01-05T00:00:00.000000+00:00")
    caps = {"analyst_caps": {"north": 0.6, "south": 0.2}, "period": {"month": 0.5}}
    ledger.init("survey", epsilon=1, delta=0, **caps)
    ledger.dataset("survey", analyst="north").reserve(pure(0.3))
    shown = repr(ledger.account("survey"))
    assert re.search(r"analyst 'north' +epsilon = 0\.3 of 0\.6\n  analyst 'south' +epsilon = 0 of 0\.2\n", shown)
    assert re.search(r"each month +epsilon = 0\.3 of 0\.5 in 2026-01\n", shown)
    assert ledger.account("survey").to_dict()["analysts_spent"]["north"]["epsilon"] == ["0.3"]
    ledger.init("normal", epsilon=1, delta=1e-6, analyst_caps={"north": 0.5})
    assert "at most 0.5" in repr(ledger.account("normal"))
    ledger.dataset("normal", analyst="north").reserve(gaussian(0.25, 1e-6))
    assert re.search(r"'north' +mu = 0\.\d+ of 0\.\d+\n", repr(ledger.account("normal")))


def test_analysts_have_caps_on_gaussian_curves(ledger):
    ledger.init("survey", epsilon=1, delta=1e-6, analyst_caps={"north": 0.5})
    ledger.dataset("survey", analyst="north").reserve(gaussian(0.5, 1e-6))
    with pytest.raises(es.BudgetRefused, match="the analyst 'north'"):
        ledger.dataset("survey", analyst="north").reserve(gaussian(0.01, 1e-6))


def test_a_period_never_refills_the_whole(ledger, monkeypatch):
    now = {"at": "2026-01-05T00:00:00.000000+00:00"}
    for module in (dataset_account, entries):
        monkeypatch.setattr(module, "read_clock", lambda: now["at"])
    ledger.init("survey", epsilon=1, delta=0, period={"month": 0.4})
    ledger.dataset("survey").reserve(pure(0.4))
    with pytest.raises(es.BudgetRefused, match=r"this month exceeded: not enough epsilon.* epsilon = 0 of 0\.4"):
        ledger.dataset("survey").reserve(pure(0.1))
    now["at"] = "2026-02-01T00:00:00.000000+00:00"
    ledger.dataset("survey").reserve(pure(0.4))
    now["at"] = "2026-01-20T00:00:00.000000+00:00"  # a clock that goes back opens no month that has passed
    with pytest.raises(es.BudgetRefused, match="this month"):
        ledger.dataset("survey").reserve(pure(0.1))
    now["at"] = "2026-03-01T00:00:00.000000+00:00"
    with pytest.raises(es.BudgetRefused, match="Budget of 'survey'"):
        ledger.dataset("survey").reserve(pure(0.3))
    assert ledger.verify()


def test_a_clock_that_stays_behind_opens_no_period_that_has_passed(ledger, monkeypatch):
    now = {"at": "2026-02-05T00:00:00.000000+00:00"}
    for module in (dataset_account, entries):
        monkeypatch.setattr(module, "read_clock", lambda: now["at"])
    ledger.init("survey", epsilon=1, delta=0, period={"month": 0.4})
    ledger.dataset("survey").reserve(pure(0.2))
    now["at"] = "2026-01-20T00:00:00.000000+00:00"
    ledger.dataset("survey").reserve(pure(0.2))
    with pytest.raises(es.BudgetRefused, match=r"this month exceeded: not enough epsilon.* epsilon = 0 of 0\.4"):
        ledger.dataset("survey").reserve(pure(0.2))


def test_a_version_is_a_label(ledger):
    ledger.init("survey", epsilon=1, delta=0)
    es.mean(X, BOX, epsilon=0.5, delta=0, ledger=ledger.dataset("survey@2026"))
    es.mean(X, BOX, epsilon=0.5, delta=0, ledger=ledger.dataset("survey@2027"))
    assert [entry.get("version") for entry in ledger.history()[2::2]] == ["2026", "2027"]
    assert ledger.account("survey").to_dict()["spent"]["epsilon"] == ["1"]
