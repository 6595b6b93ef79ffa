"""Made-up calls of every public name: several arguments at once, plausible or odd, and any small table as data.

`test_arguments.py` puts one odd argument at a time into a call that works; here arguments meet.
"""

import inspect
import json
import math
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import ellipsum as es

LIGHT, HEAVY = 12, 400
SAID = [
    "AccuracyWarning",
    "BudgetRefused",
    "DataError",
    "EllipsumError",
    "LedgerWarning",
    "ProjectionWarning",
    "UsageError",
    "__version__",
]
"""Errors, warnings and a text: there is nothing to call."""
RESULTS = [
    "Description",
    "DescriptionPlan",
    "DescriptionWithQuantiles",
    "GroupDescription",
    "GroupPlan",
    "GroupRelease",
    "HistogramPlan",
    "HistogramRelease",
    "Learned",
    "NoCenter",
    "Plan",
    "QuantilePlan",
    "QuantileRelease",
    "Release",
    "RowsPerPerson",
]
"""Handed out by calls, and read by `from_json` and `load`."""
READERS = ["csv", "from_json", "load", "replan"]
"""Of one argument, or of a plan and what changes: they have tests of their own."""
MADE_HERE = ["Audit", "BitsAudit"]
"""Handed out by calls that are fuzzed, and read from nowhere."""

numbers = st.one_of(
    st.sampled_from([0, 1, 2, 5, -1, 0.5, 1e-6, 10**30, 10**400, math.nan, math.inf, -0.0, 5e-324, True]),
    st.floats(),
    st.integers(-3, 40),
)
texts = st.one_of(
    st.sampled_from(["", "a", "b", "replace", "auto", "optimal", "\x00", "ä\n", "'; --"]), st.text(max_size=6)
)
odd = st.recursive(
    st.one_of(numbers, texts, st.none(), st.binary(max_size=3), st.just(object())),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)),
    max_leaves=4,
)
cells = st.one_of(st.floats(-10, 10), st.sampled_from([math.nan, math.inf, -math.inf, 1e308, 5e-324]))
arrays = hnp.arrays(np.float64, st.tuples(st.integers(0, 25), st.integers(1, 3)), elements=cells)
frames = st.integers(0, 12).flatmap(
    lambda n: st.fixed_dictionaries({name: hnp.arrays(np.float64, n, elements=cells) for name in "ab"})
)
lines = st.lists(st.one_of(st.lists(st.one_of(cells, odd), min_size=2, max_size=2), odd), max_size=5)
tables = st.one_of(arrays, arrays, frames, lines)
kinds = st.one_of(
    st.builds(lambda r: ("Ball", (r,)), st.one_of(numbers, odd)),
    st.builds(lambda low, high: ("Box", (low, high)), st.one_of(numbers, odd), st.one_of(numbers, odd)),
    st.builds(lambda c, s: ("Normal", (c, s)), numbers, numbers),
    st.builds(lambda m: ("Unknown", (m,)), numbers),
)
USUAL = {
    "bounds": st.sampled_from(
        [
            es.Ball(9.0),
            es.Box(-9, 9),
            es.Ball(3.0),
            es.Box(-1, 2),
            es.Box({"a": (0, 1), "b": (0, 2)}),
            es.Normal(0, 1),
            es.Unknown(9),
        ]
    ),
    "data": tables,
    "epsilon": st.sampled_from([0.5, 2, 50.0]),
    "delta": st.sampled_from([0, 1e-6, 1e-2]),
    "budget": st.sampled_from([es.Budget(mu=1.0), es.Budget(rho=0.1), es.Privacy(1.0)]),
    "neighbors": st.sampled_from(["replace", "add_remove"]),
    "n": st.one_of(st.integers(1, 30), st.just("auto")),
    "d": st.integers(1, 4),
    "k": st.integers(1, 4),
    "columns": st.sampled_from([["a", "b"], ["b"], [0], "a", [1, 0]]),
    "privacy_id": st.one_of(
        st.sampled_from(["a", 0]),
        st.builds(es.People, st.sampled_from(["a", 0]), st.sampled_from(["mean", "sum", "rows"]), st.integers(1, 3)),
    ),
    "People privacy_id": st.sampled_from(["a", 0]),
    "per_person": st.sampled_from(["mean", "sum", "rows"]),
    "max_rows": st.integers(1, 3),
    "max_per_person": st.integers(1, 3),
    "expected": st.integers(1, 9),
    "by": st.one_of(
        st.sampled_from(["a", 0, ["a"]]),
        st.builds(es.Groups, st.just("a"), st.sampled_from([[0.0, 1.0], ["x"], {"a": [1, 2]}])),
    ),
    "Groups by": st.sampled_from(["a", 0, ["a"]]),
    "keys": st.sampled_from([[0.0, 1.0], ["x"], {"a": [1, 2]}]),
    "statistic": st.sampled_from(["sum", "mean", "describe", "count", "histogram", "quantiles"]),
    "shape": st.sampled_from(["optimal", "ball"]),
    "clip": st.sampled_from([1.0, "optimal"]),
    "error_weights": st.sampled_from(["equal", "relative", [1.0, 2.0]]),
    "noise": st.sampled_from(["auto", "gaussian", "knorm"]),
    "missing": st.sampled_from(["skip", "drop_row", "none"]),
    "method": st.sampled_from(["auto", "analytic", "classic", "coinpress", "instance_optimal"]),
    "rng": st.builds(np.random.default_rng, st.integers(0, 9)),
    "threads": st.integers(1, 2),
    "radius": st.sampled_from([1.0, (0.1, 9.0)]),
    "WeightedChiSquare weights": st.lists(st.floats(0, 10), min_size=1, max_size=4),
    "tail_bound weights": st.lists(st.floats(0, 10), min_size=1, max_size=4),
    "tail_bound p": st.floats(1e-9, 0.5),
    "tail_bound kind": st.sampled_from(["chernoff", "source"]),
    "q": st.one_of(st.floats(0, 1), st.lists(st.floats(0, 1), max_size=3)),
    "bins": st.sampled_from([{"a": [0, 1, 2]}, {"a": [-math.inf, 0, math.inf], "b": [0, 1]}, [0, 1, 2]]),
    "categories": st.sampled_from([{"b": [0, 1]}, {"a": ["x", None]}, ["x"]]),
    "quantiles bins": st.sampled_from([None, "integer", 16, [0.0, 0.5], [[0.0], [0.5]]]),
    "quantiles method": st.sampled_from(["cdf", "exponential"]),
    "quantiles bounds": st.sampled_from([es.Box(-9, 9), es.Box({"a": (0, 1), "b": (0, 2)}), es.Unknown(9)]),
    "describe bounds": st.just(es.Box(-9, 9)),
    "friendly_mean data": hnp.arrays(np.float64, st.tuples(st.integers(4, 25), st.integers(1, 3)), elements=cells),
    "friendly_mean delta": st.just(1e-2),
    "friendly_mean max_rows": st.integers(4, 30),
    "target": st.floats(0.5, 0.9),
    "floor": st.floats(0.1, 0.5),
    "gate": st.sampled_from(["gaussian", "laplace"]),
    "gate_share": st.floats(0.1, 0.9),
    "search_share": st.floats(0.1, 0.9),
    "friendly_mean slack": st.just(1e-3),
    "suggest_max_rows data": frames,
    "suggest_max_rows privacy_id": st.just("a"),
    "suggest_max_rows delta": st.just(1e-6),
    "learn bounds": st.just(es.Unknown(9)),
    "project bounds": st.sampled_from([es.Ball(3.0), es.Normal(0, 1)]),
    "choose_k bounds": st.sampled_from([es.Ball(3.0), es.Normal(0, 1)]),
    "projection_forecast bounds": st.sampled_from([es.Ball(3.0), es.Normal(0, 1)]),
    "plan n": st.integers(1, 30),
    "plan statistic": st.sampled_from(["sum", "mean"]),
    "choose_k n": st.integers(1, 30),
    "projection_forecast n": st.integers(1, 30),
    "compose parts": st.lists(
        st.sampled_from([es.Privacy(1.0), es.Privacy.of_pure(0.5), es.Privacy(0.3, 1e-9)]), max_size=3
    ),
    "sql text": st.sampled_from(["select 1 as a", "select", "select 1; select 2", "values (1)"]),
    "sql parameters": st.lists(numbers, max_size=2),
    "mu": st.floats(0.01, 9),
    "slack": st.floats(0, 0.5),
    "pure": st.lists(st.floats(0.1, 3), max_size=2).map(tuple),
    "unit": st.sampled_from(["row", "person"]),
    "center": st.one_of(st.just(0.0), st.lists(st.floats(-5, 5), min_size=2, max_size=2)),
    "std": st.one_of(st.just(1.0), st.lists(st.floats(0.1, 5), min_size=2, max_size=2)),
    "cov": st.sampled_from([[[2.0, 1.0], [1.0, 3.0]], [[1.0]], [[1.0, 2.0], [2.0, 1.0]]]),
    "lower": st.one_of(st.just(-1.0), st.just({"a": (0, 1)})),
    "upper": st.one_of(st.just(2.0), st.none()),
    "magnitude": st.floats(1e-3, 1e9),
    "Ball radius": st.floats(1e-3, 1e9),
    "confidence": st.floats(0.76, 0.999),
    "claim": st.sampled_from([es.Privacy(1.0), es.Budget(mu=2.0)]),
}
BUDGET = ("epsilon", "delta")
ALSO = {"plan": (*BUDGET, "n", "d", "bounds"), "histogram": (*BUDGET, "bins"), "count": (*BUDGET, "neighbors")}
CALLER_S_OWN = {"progress", "approve", "function", "mechanism"}
"""Functions of the caller: what they raise is theirs."""
KEPT = {"ledger", "output", "path", "workers", "blocks", "time_limit", "processes"}
"""Where files would be written, or processes started."""
ALWAYS = {
    "audit": {"mechanism": lambda data, rng: rng.normal(), "pair": (0.0, 1.0), "runs": 100, "processes": 1},
    "audit_bits": {"mechanism": lambda data, rng: rng.normal(size=2), "pair": (0.0, 1.0), "runs": 1000, "processes": 1},
    "sql": {"database": "duckdb://"},
    "ProjectionPrivacy": {"k": 2, "scale": 1.0, "excess": 0.0, "stated_delta": 1e-6},
}
CALLED = [
    name
    for name in es.__all__
    if name not in {*SAID, *RESULTS, *READERS, *MADE_HERE, "Ledger", "Projection", "subsample_and_aggregate"}
]


def answer(words, call):
    """The answer of a call, or None if it raised an error of the library. Other errors fail the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call()
        except es.EllipsumError as error:
            said = str(error)
        except Exception as error:
            raise AssertionError(f"{words} raised {type(error).__name__}: {error}") from error
    assert "\n" not in said, words
    return None


def made_rows(kind, values):
    return answer(f"{kind}{values}", lambda: getattr(es, kind)(*values))


@st.composite
def arguments(draw, name):
    """Arguments of a call: the required ones and up to three others. About every eighth has an unusual value."""
    always = ALWAYS.get(name, {})
    parameters = inspect.signature(getattr(es, name)).parameters
    words = {word: parameter.default for word, parameter in parameters.items() if word not in CALLER_S_OWN | KEPT}
    needed = [word for word in words if words[word] is inspect.Parameter.empty or word in ALSO.get(name, BUDGET)]
    others = [word for word in words if word not in needed]
    chosen = draw(st.lists(st.sampled_from(others), max_size=3, unique=True)) if others else []
    made = {word: always[word] if word in always else draw(usual(name, word)) for word in [*needed, *chosen]}
    for word in made:
        if draw(st.integers(0, 7)) == 0:
            made[word] = made_rows(*draw(kinds)) if word == "bounds" else draw(odd)
    return {**{word: always[word] for word in always if word not in made}, **made}


def usual(name, word):
    """The usual values of this argument."""
    return USUAL.get(f"{name} {word}", USUAL.get(word, st.one_of(numbers, st.none())))


def fuzz(name, examples):
    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    @given(arguments(name))
    def run(words):
        answers.append(answer(f"{name}({words})", lambda: getattr(es, name)(**words)))

    answers = []
    run()
    return answers


def test_every_public_name_is_fuzzed_or_has_nothing_to_call():
    others = {*SAID, *RESULTS, *READERS, *MADE_HERE, "Ledger", "Projection", "subsample_and_aggregate"}
    assert {*CALLED} | others == {*es.__all__}
    assert all(isinstance(getattr(es, name), type) for name in (*RESULTS, *MADE_HERE))
    assert all(isinstance(getattr(es, name), (type, str)) for name in SAID)


@pytest.mark.parametrize("name", CALLED)
def test_made_up_calls(name):
    fuzz(name, LIGHT)


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLED)
def test_many_made_up_calls(name):
    answers = fuzz(name, HEAVY)
    assert sum(found is not None for found in answers) > HEAVY / 20


json_like = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["format", "version", "plan", "value", "privacy", "x"]), inner, max_size=4),
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(text=st.one_of(st.text(max_size=20), json_like.map(json.dumps), odd))
def test_made_up_texts(text):
    answer(f"from_json({text!r})", lambda: es.from_json(text))
    answer(f"csv({text!r})", lambda: es.csv(text))
    answer(f"replan({text!r})", lambda: es.replan(text, noise="gaussian"))


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(changes=st.dictionaries(st.sampled_from(["n", "noise", "budget", "missing", "bounds", "x"]), odd, max_size=2))
def test_made_up_changes_of_a_plan(changes):
    plan = es.plan("sum", es.Box(0, 1), n=30, d=2, epsilon=1, delta=1e-6)
    answer(f"replan(plan, **{changes!r})", lambda: es.replan(plan, **changes))


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(saved=json_like)
@pytest.mark.parametrize("name", ["Privacy", "ProjectionPrivacy"])
def test_made_up_guarantees(name, saved):
    answer(f"{name}.from_dict({saved})", lambda: getattr(es, name).from_dict(saved))


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(content=st.one_of(st.binary(max_size=60), json_like.map(lambda made: json.dumps(made).encode())))
def test_made_up_files(content, tmp_path_factory):
    path = tmp_path_factory.mktemp("made-up") / "saved.json"
    path.write_bytes(content)
    answer(f"load of {content!r}", lambda: es.load(path))
    answer(f"Projection.load of {content!r}", lambda: es.Projection.load(path))


BUDGETS = {
    "epsilon": st.one_of(st.just("1"), odd),
    "delta": st.one_of(st.just(0), odd),
    "mu": odd,
    "caps": odd,
    "neighbors": st.one_of(st.just("replace"), odd),
    "privacy_id": st.one_of(st.just("a"), odd),
    "analyst_caps": odd,
    "period": st.one_of(st.just({"day": "0.5"}), odd),
}


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(url=odd, dataset=st.one_of(st.just("survey"), odd), words=st.fixed_dictionaries({}, optional=BUDGETS))
def test_made_up_budgets(url, dataset, words, tmp_path_factory):
    if not isinstance(url, str):
        answer(f"Ledger({url!r})", lambda: es.Ledger(url))
    ledger = es.Ledger(tmp_path_factory.mktemp("ledger") / "budget.db")
    opened = answer(f"init({dataset!r}, {words})", lambda: ledger.init(dataset, **words))
    if opened is not None:
        ask = {"epsilon": 0.1, "delta": 0, "ledger": ledger.dataset(dataset)}
        answer(f"mean after init({words})", lambda: es.mean(np.ones((5, 1)), es.Box(0, 1), **ask))
        ledger.verify()


@pytest.mark.slow
def test_made_up_blocks():
    """Those that start processes: fewer, and the function is one that works."""
    words = {"function": np.mean, "data": np.ones((200, 1)), "workers": 1, "time_limit": 2.0, "dimension": 1}

    @settings(max_examples=40, deadline=None, derandomize=True, database=None)
    @given(
        blocks=st.one_of(st.just(50), odd), radius=st.one_of(st.just(1.0), odd), epsilon=st.one_of(st.just(20.0), odd)
    )
    def run(blocks, radius, epsilon):
        asked = {**words, "blocks": blocks, "radius": radius, "epsilon": epsilon, "delta": 1e-6}
        answer(f"subsample_and_aggregate({asked})", lambda: es.subsample_and_aggregate(**asked))

    run()
