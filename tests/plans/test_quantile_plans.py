"""Quantile plans: sensitivities by brute force, noise that is large enough, and plans from files."""

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import ellipsum as es
from ellipsum.api import make_plan
from ellipsum.errors import UsageError
from ellipsum.formats import from_json
from ellipsum.numerics.wide_integers import Wide
from ellipsum.plans.quantile_plan import _times as times
from ellipsum.plans.quantile_plan import sensitivity
from ellipsum.privacy.budget import Budget
from ellipsum.privacy.guarantee import Privacy
from ellipsum.releases.distribution_estimates import exponential_rate, form_of
from ellipsum.request.groups import Groups
from ellipsum.request.people import People
from ellipsum.request.quantiles import Quantiles
from ellipsum.request.request import Request
from ellipsum.row_maps.distributions import cumulative_matrix

PAIR = Budget(epsilon=1, delta=1e-6).as_typed()
PURE = Budget(epsilon=1, delta=0).as_typed()


def request(n=1000, d=1, bins=None, q=(0.25, 0.5, 0.75), method="cdf", bounds=None, **words):
    words = {"budget": PAIR, **words}
    asked = Request("quantiles", bounds or es.Box(0, 1), quantiles=Quantiles(q, bins, method), **words)
    return asked.sized(n, d)


def rows_of(form, bins, d):
    """Every integer row of d columns: each value in a bin, or missing."""
    matrix = cumulative_matrix(form, bins)
    columns = [np.zeros(len(matrix)), *matrix.T]
    return [np.concatenate(parts) for parts in itertools.product(columns, repeat=d)]


def length(vector, form):
    return np.abs(vector).sum() if form == "tree" else math.sqrt(float(vector @ vector))


def largest_move(rows, form, neighbors, each):
    """By how much all the rows of a person, at most `each` of them, move the sum."""
    sums = [
        sum(chosen, 0 * rows[0]) for k in range(each + 1) for chosen in itertools.combinations_with_replacement(rows, k)
    ]
    if neighbors == "add_remove":
        return max(length(one, form) for one in sums)
    if each == 1:
        sums = rows
    return max(length(one - other, form) for one in sums for other in sums)


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize(("bins", "d", "each"), [(2, 1, 1), (5, 1, 1), (40, 1, 1), (3, 2, 1), (4, 1, 2), (3, 1, 3)])
def test_sensitivity_is_that_of_brute_force(pure, neighbors, bins, d, each):
    people = None if each == 1 else People("id", "rows", each)
    asked = request(d=d, bins=bins, neighbors=neighbors, people=people)
    form = form_of(asked, pure)
    wanted = largest_move(rows_of(form, bins, d), form, neighbors, each)
    assert wanted <= float(sensitivity(asked, form)) * (1 + 1e-12)
    assert float(sensitivity(asked, form)) <= wanted * (1 + 1e-9)


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("most", [1, 2])
def test_sensitivity_in_groups_is_that_of_brute_force(pure, neighbors, most):
    people = None if most == 1 else People("id")
    asked = request(bins=3, neighbors=neighbors, people=people, groups=Groups("g", ["a", "b", "c", "d"], most))
    form = form_of(asked, pure)
    rows = rows_of(form, 3, 1)
    width, tables = rows[0].size, []
    for places in itertools.combinations(range(4), most):
        for chosen in itertools.product(rows, repeat=most):
            table = np.zeros((4, width))
            table[list(places)] = chosen
            tables.append(table.ravel())
    if neighbors == "add_remove":
        wanted = max(length(one, form) for one in tables)
    else:
        every = np.array(tables)
        gaps = (
            np.abs(one - every).sum(axis=1) if form == "tree" else np.sqrt(((one - every) ** 2).sum(axis=1))
            for one in every
        )
        wanted = max(float(gap.max()) for gap in gaps)
    assert wanted <= float(sensitivity(asked, form)) * (1 + 1e-12)
    assert float(sensitivity(asked, form)) <= wanted * (1 + 1e-9)


@pytest.mark.parametrize(
    "words", [{}, {"neighbors": "add_remove"}, {"budget": PURE}, {"groups": Groups("g", ["a", "b"])}]
)
def test_less_noise_than_the_guarantee_needs_is_refused(words):
    plan = make_plan(request(**words))
    with pytest.raises(UsageError, match="below what the guarantee needs"):
        replace(plan, noise_scale=plan.noise_scale * (1 - 1e-9))
    with pytest.raises(UsageError, match="below what the guarantee needs"):
        replace(plan, request=replace(plan.request, quantiles=Quantiles(bins=plan.sizes[0] * 2)))
    assert from_json(plan.to_json()) == plan


@pytest.mark.parametrize("budget", [PAIR, PURE])
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
def test_released_sums_have_the_noise_that_was_planned(budget, neighbors):
    """800 to 1600 numbers a release: the variance is met within 8%, where 10% less noise has 19% less."""
    rng, errors = np.random.default_rng(5), []
    values = rng.beta(2, 5, (700, 3))
    values[rng.random(values.shape) < 0.1] = np.nan
    plan = make_plan(request(700, 3, budget=budget, neighbors=neighbors))
    for seed in range(10):
        noisy = plan.release(values, rng=np.random.default_rng(seed)).noisy[0]
        exact = []
        for j, edges in enumerate(plan.edges):
            bins = np.searchsorted(edges[1:-1], values[np.isfinite(values[:, j]), j], side="left")
            exact.append(cumulative_matrix(plan.form, edges.size - 1) @ np.bincount(bins, minlength=edges.size - 1))
        errors.append(noisy - np.concatenate(exact))
    every = np.concatenate(errors)
    own = float(sensitivity(plan.request, plan.form)) / (plan.privacy.mu or 1 / math.sqrt(2))
    assert every.std() == pytest.approx(own, rel=0.04)
    assert plan.noise_std == pytest.approx(own, rel=1e-9)
    assert abs(every.mean()) < 6 * own / math.sqrt(every.size)


def test_the_plan_says_how_far_ranks_move():
    plan = make_plan(request(2000, bins=1024))
    assert float(plan.rank_error.max()) * plan.privacy.mu == pytest.approx(3.957, abs=0.001)
    assert plan.other_rank_error == pytest.approx(2 * math.sqrt(2) * 3)
    assert "method='exponential': rank error 8.49" in repr(plan)
    chosen = make_plan(request(2000, q=[0.5], method="exponential"))
    assert chosen.rank_error == pytest.approx(2 * math.sqrt(2))
    assert make_plan(request(2000, q=0.5, method="exponential", neighbors="add_remove")).rank_error == pytest.approx(
        math.sqrt(2)
    )


def test_a_bin_of_the_lower_bound_alone_weighs_as_much_as_the_narrowest():
    """Edges often begin with the lower bound; the widths of the others stand."""
    tiny, seen = Budget(epsilon=1e-9, delta=0).as_typed(), []
    plan = make_plan(request(40, bins=[0, 0.25, 0.5], q=[0.5], method="exponential", budget=tiny))
    for seed in range(2000):
        with pytest.warns(es.AccuracyWarning):
            release = plan.release(np.full((40, 1), 0.3), rng=np.random.default_rng(seed))
        seen.append(release.noisy[0, 0])
    assert np.bincount(np.int64(seen), minlength=4) / 2000 == pytest.approx([0.2, 0.2, 0.2, 0.4], abs=0.05)


def test_few_bins_take_laplace_noise():
    assert make_plan(request(bins=[0.2, 0.4, 0.6])).mechanism == "laplace"
    assert make_plan(request(bins=256)).mechanism == "gaussian"
    assert make_plan(request(bins=[0.2, 0.4, 0.6], noise="gaussian")).mechanism == "gaussian"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"q": 1.5}, "between 0 and 1"),
        ({"bins": [3, 2, 1]}, "must increase"),
        ({"bins": "many"}, "bins must be"),
        ({"bins": 5000}, "the most for method='cdf'"),
        ({"bins": [[0.5], [0.5]]}, "edges for every column"),
        ({"bounds": es.Box(0.2, 0.8), "bins": "integer"}, "whole number between"),
        ({"bounds": es.Unknown(1e6), "bins": "integer"}, "Unknown bounds need a number of bins"),
        ({"bounds": es.Unknown(1e6), "bins": 3}, "Unknown bounds need a number of bins"),
        ({"bounds": es.Ball(1)}, "quantiles need bounds=Box"),
        ({"method": "median"}, "method must be one of"),
        ({"error_weights": [2.0]}, "not for quantiles"),
        ({"method": "exponential", "budget": Budget(mu=1)}, "needs a budget of epsilon="),
        ({"method": "exponential", "groups": Groups("g")}, "needs a budget of epsilon="),
        ({"people": People("id", "rows", 3), "groups": Groups("g", ["a"])}, "per_person='rows'"),
    ],
)
def test_wrong_requests_are_refused(words, message):
    with pytest.raises(UsageError, match=message):
        make_plan(request(**words))


def test_a_plan_of_too_few_rows_says_so():
    assert "shifts ranks by" in make_plan(request(30)).warning
    assert make_plan(request(3000)).warning is None


def edited(plan, **changes):
    """The JSON of a plan whose request, and privacy, say something else."""
    saved = plan.to_dict()
    return json.dumps({**saved, **{name: {**saved[name], **change} for name, change in changes.items()}})


def test_a_file_cannot_select_groups_by_laplace_noise():
    """[Q15] The threshold is that of normal noise: a group of one would be published once in 200 times, not in 10^6."""
    plan = make_plan(request(budget=PURE, bins=8, neighbors="add_remove", groups=Groups("g", ["a", "b"])))
    assert plan.mechanism == "laplace"
    groups = {**plan.request.groups.to_dict(), "keys": None}
    text = edited(plan, request={"groups": groups, "budget": {"epsilon": 1.0, "delta": 1e-6}}, privacy={"slack": 1e-6})
    with pytest.raises(UsageError, match="parts do not match"):
        from_json(text)


@pytest.mark.parametrize("method", ["cdf", "exponential"])
def test_a_file_cannot_let_a_person_have_many_rows_in_a_group(method):
    people = People("id")
    plan = make_plan(request(budget=PURE, method=method, people=people, groups=Groups("g", ["a", "b"])))
    with pytest.raises(UsageError, match="per_person='rows'"):
        from_json(edited(plan, request={"people": People("id", "rows", 5).to_dict()}))


def test_a_plan_with_another_guarantee_is_refused():
    plan = make_plan(request())
    with pytest.raises(UsageError):
        replace(plan, privacy=Privacy(plan.privacy.mu / 2))
    with pytest.raises(UsageError):
        replace(plan, privacy=Privacy(plan.privacy.mu, neighbors="add_remove"))


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize(("d", "most"), [(1, 1), (3, 1), (2, 4)])
def test_a_group_of_one_is_published_as_seldom_as_its_slack_says(neighbors, d, most):
    """[Q15] The least threshold: one unit less and the rounded sum of the noisy counts would reach it too often."""
    people = People("id") if most > 1 else None
    plan = make_plan(request(d=d, neighbors=neighbors, people=people, groups=Groups("g", None, most)))
    units = [cumulative_matrix(plan.form, bins)[-1, 0] for bins in plan.sizes]
    step = 2.0 ** (math.frexp(plan.noise_scale)[1] - 21)
    noisy = np.zeros((2, plan.width))
    ends = np.cumsum([len(cumulative_matrix(plan.form, bins)) for bins in plan.sizes]) - 1
    least = round(plan.threshold * sum(units) / step)  # of the sum of rounded counts, in steps
    noisy[0, ends[0]], noisy[1, ends[-1]] = least * step, (least - 1) * step
    assert plan.reaches(noisy).tolist() == [True, False]

    def chance(least):
        """Of that sum for one row, each count rounded by up to half a step; the noise of d counts adds up."""
        return norm.sf(((least - d / 2) * step - sum(units)) / (math.sqrt(d) * plan.noise_scale))

    assert chance(least) <= plan.privacy.slack / most * (1 + 1e-9)
    assert chance(least - 2) > plan.privacy.slack / most
    assert plan.privacy.slack == 0.1 * 1e-6


@pytest.mark.parametrize("form", ["circulant", "skew", "tree"])
def test_sums_are_exact_for_any_number_of_rows(form):
    """[Q11] Counts are cut into limbs: as many rows as 64 bits hold."""
    rng = np.random.default_rng(3)
    counts = np.array([1 << 62, (1 << 24) - 1, 1 << 48, *rng.integers(0, 1 << 60, 37)])
    matrix = cumulative_matrix(form, counts.size)
    wanted = [sum(int(entry) * int(count) for entry, count in zip(line, counts, strict=True)) for line in matrix]
    sums = times(Wide.from_int64(counts[None]), matrix)
    assert Wide(sums.high[0], sums.low[0]).to_ints() == wanted


def test_a_group_near_the_threshold_is_published_as_noise_has_it():
    """Not by its exact number of rows: about half of the times."""
    plan = make_plan(request(bins=2, neighbors="add_remove", budget=Budget(epsilon=5, delta=1e-6), groups=Groups("g")))
    table = {"g": ["a"] * round(plan.threshold), "x": np.full(round(plan.threshold), 0.25)}
    seen = [len(plan.release(table, np.random.default_rng(k), columns=["x"]).noisy) for k in range(40)]
    assert 5 < sum(seen) < 35


# The exponential mechanism ------------------------------------------------------------------------------


def exponents(plan, table, monkeypatch):
    """Minus rate times cost of every bin, for each choice: groups, columns and quantiles."""
    seen = []

    def choose(widths, costs, rate, stream):
        seen.append((np.array(widths), [-float(rate * cost) for cost in costs]))
        return 0

    monkeypatch.setattr("ellipsum.plans.quantile_plan.choose", choose)
    plan.noisy(Wide.from_int64(table.reshape(len(table), -1)), None)
    return [widths for widths, _ in seen], np.array([costs for _, costs in seen])


def test_the_bin_that_holds_the_quantile_costs_nothing(monkeypatch):
    """c_i = max(0, F_{i-1} - q N, q N - F_i): ties in one bin do not count against it."""
    plan = make_plan(request(n=10, bins=4, q=[0.5, 0.1], method="exponential", budget=PURE))
    _, found = exponents(plan, np.array([[1, 6, 0, 3, 5]]), monkeypatch)  # five values are missing
    rate = float(exponential_rate(plan.request, 1.0, 0.5))
    assert -found / rate == pytest.approx(np.array([[4, 0, 2, 2], [0, 0, 6, 6]]))


def persons(bins, d, groups, most, each):
    """Every table that one person can add: rows in at most `most` of the groups, or at most `each` rows; or nothing."""
    entries = [np.eye(bins + 1, dtype=np.int64)[i] for i in range(bins + 1)]  # the last one is a missing value
    rows = [np.concatenate(parts) for parts in itertools.product(entries, repeat=d)]
    empty = np.zeros((groups, d * (bins + 1)), np.int64)
    yield empty
    for count in range(1, most + 1):
        for places in itertools.combinations(range(groups), count):
            for chosen in itertools.product(rows, repeat=count):
                table = empty.copy()
                table[list(places)] = chosen
                yield table
    for many in range(2, each + 1):
        for chosen in itertools.combinations_with_replacement(rows, many):
            yield sum(chosen, empty[0])[None]


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize(
    ("d", "q", "most", "each"),
    [(1, [0.4], 0, 1), (1, [0.25, 0.4], 0, 1), (2, [0.4], 0, 1), (1, [0.4], 0, 2), (1, [0.4], 1, 1), (1, [0.4], 2, 1)],
)
def test_choices_lose_what_is_charged_and_no_more(neighbors, d, q, most, each, monkeypatch):
    """[Q20] All pairs of persons beside fixed rows: twice the largest change of the exponents, over all choices, is
    epsilon; the loss itself is at most that."""
    epsilon, bins, groups = 1.5, 3, 4 if most else 1
    words = {"people": People("id", "rows", each)} if each > 1 else {"people": People("id")} if most > 1 else {}
    words |= {"groups": Groups("g", list("abcd"), most)} if most else {}
    budget = Budget(epsilon=epsilon, delta=0).as_typed()
    plan = make_plan(
        request(n=20, d=d, bins=bins, q=q, method="exponential", neighbors=neighbors, budget=budget, **words)
    )
    largest_bound, largest_loss = 0.0, 0.0
    for beside in ([9, 0, 0, 0], [0, 0, 9, 0], [3, 2, 4, 1]):
        rest = np.tile(np.array(beside, np.int64), (groups, d))
        found = [exponents(plan, rest + own, monkeypatch) for own in persons(bins, d, groups, max(most, 1), each)]
        widths, every = np.array(found[0][0]), np.array([costs for _, costs in found])
        chances = widths * np.exp(every)
        logs = np.log(chances / chances.sum(axis=2, keepdims=True))
        if neighbors == "replace" and not most and each == 1:
            every, logs = every[1:], logs[1:]  # everybody has one row
        for i in range(1 if neighbors == "add_remove" else len(every)):  # the first adds nothing
            largest_bound = max(largest_bound, 2 * float(np.abs(every - every[i]).max(axis=2).sum(axis=1).max()))
            largest_loss = max(largest_loss, float(np.abs(logs - logs[i]).max(axis=2).sum(axis=1).max()))
    assert largest_bound == pytest.approx(epsilon, rel=1e-9)
    assert largest_loss <= epsilon * (1 + 1e-9)
