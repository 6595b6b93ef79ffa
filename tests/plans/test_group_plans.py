"""Plans of groups: sensitivities by brute force, noise that is neither too little nor too much, thresholds, files."""

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr

import ellipsum as es
from ellipsum.noise.block_law import box_sf
from ellipsum.plans.group_plan import group_sensitivity
from ellipsum.row_maps.auxiliary_counts import AuxiliaryCounts
from ellipsum.row_maps.maps import ClampedMap, EllipsoidMap

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
BOX = es.Box(0, 1)


def plan(by="g", keys=None, max_groups=1, groups=500, statistic="mean", bounds=BOX, **words):
    given = {"d": 8, "n": 50_000, **BUDGET, **words}
    if "budget" in given or "error" in given:
        given.pop("epsilon")
        given.pop("delta" if "budget" in given else "epsilon", None)
    by = es.Groups(by, keys, max_groups, None if keys is not None else groups)
    return es.plan(statistic, bounds, by=by, **given)


def means_of(made):
    """The plan of counts, means and standard deviations, without that of quantiles."""
    return made.moments if isinstance(made, es.DescriptionPlan) else made


# Sensitivity --------------------------------------------------------------------------------------------


def integer_rows(row_map):
    """Integer rows of corners, edges and gaps, each by itself."""
    from ellipsum.kernels.accumulate import accumulate

    cells = [-9.0, -1.0, -0.3, 0.0, 1.0, 9.0, np.nan]
    rows = [accumulate(row_map, [np.array([row])], 1) for row in itertools.product(cells, repeat=row_map.columns)]
    return np.array([part.sums.to_ints() for part in rows], float)


def worst(rows, count, neighbors):
    """The longest change that one row makes: within its group, to another, or out of all."""
    counted = np.hstack([rows, np.full((len(rows), 1), float(count))])
    alone = np.linalg.norm(counted, axis=1)
    if neighbors == "add_remove":
        return alone.max()
    within = max(np.linalg.norm(rows - row, axis=1).max() for row in rows)
    moved = math.sqrt(2 * (alone.max() ** 2))
    return max(within, moved)


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("missing", ["column", "center", "row"])
@pytest.mark.parametrize("kind", ["clamped", "squares", "ellipsoid"])
def test_no_row_changes_the_groups_by_more(neighbors, missing, kind):
    bits = 12
    limits = np.array([1200, 900])
    units = {"column": (1150, 880), "center": (), "row": (0,)}[missing]
    if kind != "ellipsoid":
        limits = limits if kind == "clamped" else np.array([1200, 1100])
        auxiliary = AuxiliaryCounts(missing, None, units, squares=() if kind == "clamped" else (1198, 1098))
        row_map = ClampedMap(
            [0.0] * 2, limits.astype(float), limits, ([-1] * 2, [1] * 2), grid_bits=bits, auxiliary=auxiliary
        )
    else:
        shares = np.array([0.25, 0.25]) if missing == "column" else None
        units = {"column": (1400, 1400), "center": (), "row": (0,)}[missing]
        row_map = EllipsoidMap(
            [0.0] * 2, scale=[0.6, 0.5], grid_bits=bits, auxiliary=AuxiliaryCounts(missing, None, units, shares)
        )
    rows = integer_rows(row_map)
    for count in (0, 700, 1500, 4000):
        stated = float(group_sensitivity(row_map.body, count, neighbors, 1))
        found = worst(rows, count, neighbors)
        assert found <= stated * (1 + 1e-12)
        assert stated <= found * 1.06  # rounding of a coarse grid


def test_counts_are_free_up_to_the_radius_and_no_further():
    body = ClampedMap([0.0], [100.0], [100], ([-1], [1]), grid_bits=10).body
    assert group_sensitivity(body, 100, "replace", 1) == group_sensitivity(body, 1, "replace", 1) == body.diameter
    assert group_sensitivity(body, 120, "replace", 1) > body.diameter


@pytest.mark.parametrize("most", [1, 3])
def test_people_in_several_groups(most):
    """Common groups, and groups that are left and entered: the longest change of all ways to share them."""
    body = ClampedMap([0.0] * 2, [50.0] * 2, [50, 40], ([-1] * 2, [1] * 2), grid_bits=10).body
    for count in (10, 64, 200):
        one = float(body.norm) ** 2 + count**2
        ways = [a * float(body.diameter) ** 2 + 2 * (most - a) * one for a in range(most + 1)]
        assert float(group_sensitivity(body, count, "replace", most)) >= math.sqrt(max(ways)) * (1 - 1e-12)
        assert float(group_sensitivity(body, count, "add_remove", most)) >= math.sqrt(most * one) * (1 - 1e-12)


# Noise --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("noise", ["gaussian", "knorm"])
@pytest.mark.parametrize("keys", [None, ["a", "b"]])
@pytest.mark.parametrize("people", [{}, {"privacy_id": "who", "max_groups": 4}])
@pytest.mark.parametrize("statistic", ["mean", "describe"])
def test_a_tenth_less_noise_is_refused(neighbors, noise, keys, people, statistic):
    made = means_of(plan(neighbors=neighbors, noise=noise, keys=keys, statistic=statistic, **people))
    assert made.mechanism == ("gaussian" if noise == "gaussian" else "knorm_linf")
    one = made.one
    if noise == "gaussian":
        weak = replace(one, noise_units=one.noise_units * 0.9, privacy=replace(one.privacy, mu=one.privacy.mu / 0.89))
    else:
        blocks = one.law.blocks
        cut = tuple(replace(block, epsilon=block.epsilon / 0.9) for block in blocks.blocks)
        law = replace(
            one.law,
            blocks=replace(blocks, blocks=cut, epsilon=blocks.epsilon / 0.89),
            scales=tuple(scale * 0.9 for scale in one.law.scales),
        )
        weak = replace(one, law=law, privacy=replace(one.privacy, pure=(blocks.epsilon / 0.89,)))
    with pytest.raises(es.UsageError, match="below what the guarantee needs"):
        replace(made, one=weak)
    assert replace(made, one=one) == made


def test_noise_is_no_more_than_the_guarantee_needs():
    made = plan(noise="gaussian", keys=["a"], neighbors="replace", d=1, missing="none")
    needed = group_sensitivity(made.one.row_map.body, made.one.count_units, "replace", 1)
    assert made.one.noise_units * made.privacy.mu == pytest.approx(float(needed), rel=1e-12)
    alone = es.plan("mean", BOX, d=1, n=50_000, noise="gaussian", missing="none", count_clipped=False, **BUDGET)
    assert made.one.scaled_std == pytest.approx(alone.scaled_std, rel=1e-6)  # counts are free


def test_pure_noise_is_shared_by_a_persons_groups():
    for neighbors, times in (("add_remove", 1), ("replace", 2)):
        for most in (1, 5):
            made = plan(noise="knorm", neighbors=neighbors, privacy_id="who", max_groups=most, keys=["a"])
            assert made.one.privacy.pure[0] == pytest.approx(1 / (times * most), rel=1e-12)
            assert Fraction(made.one.privacy.pure[0]) * times * most <= 1


def test_the_stated_budget_is_what_is_spent():
    for noise in ("gaussian", "knorm"):
        made = plan(noise=noise)
        assert made.privacy.delta(1.0) <= 1e-6
        assert made.privacy.delta(1.0) >= 0.999e-6
        assert plan(noise=noise, keys=["a"]).privacy.slack == 0
    assert plan(noise="knorm", keys=["a"], delta=0).privacy.delta(1.0) == 0
    assert plan(keys=["a"], budget=es.Budget(mu=0.5)).privacy.mu == 0.5


def test_the_law_that_errs_least_is_taken():
    made = plan(keys=["a"])
    assert made.mechanism == "knorm_linf"
    assert set(made.considered) == {"knorm_linf", "gaussian"}
    assert plan(keys=["a"], d=100).mechanism == "gaussian"
    assert plan(bounds=es.Ball(1.0), d=3).mechanism == "gaussian"


# Thresholds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("noise", ["gaussian", "knorm"])
@pytest.mark.parametrize("most", [1, 4])
def test_a_group_of_one_reaches_the_threshold_as_seldom_as_promised(neighbors, noise, most):
    made = plan(neighbors=neighbors, noise=noise, privacy_id="who", max_groups=most)
    units, shift = made._threshold_units()
    reaches = math.ldexp(units - 0.5, shift) / made.one.count_units  # rounded to the threshold from here on
    far = (reaches - 1) / made.one.count_std  # stds
    if noise == "gaussian":
        chance = float(ndtr(-far))
    else:
        law = made.one.law
        block = next(b for b in law.blocks.blocks if made.width - 1 in b.columns)
        chance = box_sf(far * math.sqrt((block.size + 1) * (block.size + 2) / 3), block.size)
    assert made.failure * 0.99 <= chance * (1 + 1e-4)
    assert chance <= made.failure * (1 + 1e-9)
    assert made.failure * most <= made.privacy.slack <= 1e-6


def test_the_forecast_speaks_of_the_expected_size():
    made = plan(noise="gaussian", neighbors="add_remove", n=50_000, groups=500)
    assert made.size == 100
    assert made.noise_std == pytest.approx(plan(noise="gaussian", neighbors="add_remove", n=5000, groups=50).noise_std)
    assert "a group of 100" in repr(made)
    assert f"at least {made.threshold:.4g}" in repr(made)
    assert made.threshold < 50
    assert plan(n=5000, groups=500).warning is not None  # groups of ten are too small
    assert made._repr_html_().startswith("<div>")
    target = plan(error=0.05, delta=1e-6, epsilon=None)
    assert math.sqrt(target.expected_squared_error) == pytest.approx(0.05, rel=1e-3)


# Files --------------------------------------------------------------------------------------------------


PLANS = {
    "private": plan(),
    "listed": plan(keys=["b", None, "a"]),
    "people": plan(privacy_id="who", max_groups=3, noise="gaussian"),
    "several": plan(by=["g", "h"], keys={"g": ["x", "y"], "h": [1, 2.5, True]}),
    "ball": plan(bounds=es.Ball(2.0, [1.0] * 8), neighbors="add_remove"),
    "describe": plan(statistic="describe", d=3),
    "describe people": plan(statistic="describe", privacy_id="who", max_groups=3, noise="gaussian"),
    "normal": plan(bounds=es.Normal(0.0, cov=np.diag([1.0, 4.0]) + 0.3), d=2, statistic="sum"),
}


@pytest.mark.parametrize("name", PLANS)
def test_plans_come_back_from_files(name, tmp_path):
    made = PLANS[name]
    assert type(made).from_json(made.to_json()) == made
    made.save(tmp_path / "plan.json")
    assert es.load(tmp_path / "plan.json") == made


@pytest.mark.parametrize(
    "change",
    [
        {"request": {"groups": {"max_per_person": 2}}},
        {"request": {"n": None}},
        {"request": {"groups": {"keys": None}}},
        {"request": {"groups": {"keys": [["a", "a", "b"]]}}},
        {"request": {"groups": None}},
        {"request": {"bounds": {"lower": [5.0] * 8}}},
        {"request": {"statistic": "sum"}},
        {"privacy": {"mu": 0.0, "slack": 0.0, "neighbors": "replace", "pure": [0.5]}},
        {"privacy": {"mu": 0.0, "slack": 1e-9, "neighbors": "replace", "pure": [1.0]}},
        {"privacy": {"mu": 0.0, "slack": 0.0, "neighbors": "add_remove", "pure": [1.0], "unit": "person"}},
        {"request": {"budget": {"epsilon": 0.5}}},
        {"request": {"groups": {"by": []}}},
        {"request": {"groups": {"by": ["g", "g"]}}},
        {"format": "ellipsum.plan/3"},
        {"request": {"people": {"privacy_id": "who", "per_person": "rows", "max_rows": 3}}},
    ],
)
def test_doctored_plans_are_refused(change):
    saved = json.loads(PLANS["listed"].to_json())
    assert es.GroupPlan.from_json(json.dumps(saved)) == PLANS["listed"]
    with pytest.raises(es.UsageError):
        es.GroupPlan.from_json(json.dumps(merged(saved, change)))


def merged(saved, change):
    """The fields of a file, some of them changed, whatever they are in."""
    inside = isinstance(saved, dict) and isinstance(change, dict) and not set(change) >= {"mu", "slack"}
    return {**saved, **{name: merged(saved.get(name), part) for name, part in change.items()}} if inside else change


def test_a_plan_of_one_group_is_checked_too():
    saved = json.loads(PLANS["private"].to_json())
    for field, value in (("noise_units", 5.0), ("count_units", 0), ("auxiliary", None), ("center_spread", None)):
        with pytest.raises(es.UsageError):
            es.GroupPlan.from_json(json.dumps({**saved, "one_group": {**saved["one_group"], field: value}}))
    wide = {**saved["one_group"], "scale": [value * 3 for value in saved["one_group"]["scale"]]}
    with pytest.raises(es.UsageError):
        es.GroupPlan.from_json(json.dumps({**saved, "one_group": wide}))
    smaller = {**saved["privacy"], "slack": 1e-12}
    assert es.GroupPlan.from_json(json.dumps({**saved, "privacy": smaller})).threshold > PLANS["private"].threshold


# Words --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"keys": ["a", "b", "a"]}, "twice"),
        ({"keys": [1, 1.0]}, "twice"),
        ({"keys": []}, "keys is empty"),
        ({"keys": "abc"}, "keys must be"),
        ({"keys": 5}, "keys must be"),
        ({"keys": [object()]}, "names no group"),
        ({"keys": [float("inf")]}, "infinity"),
        ({"keys": {"h": [1]}}, "a list for each column of by"),
        ({"keys": {"g": 0}}, "a list for each column of by"),
        ({"by": ["g", "h"], "keys": ["a"]}, "tuples of 2"),
        ({"by": []}, "by is empty"),
        ({"by": ["g", "g"]}, "twice"),
        ({"by": 1.5}, "by must name"),
        ({"max_groups": 2}, "privacy_id"),
        ({"max_groups": 0, "privacy_id": "who"}, "max_per_person"),
        ({"groups": 0}, "expected"),
        ({"delta": 0}, "delta > 0"),
        ({"budget": es.Budget(mu=1.0)}, "delta > 0"),
        ({"noise": "knorm", "bounds": es.Ball(1.0)}, "Box bounds"),
        ({"privacy_id": es.People("who", per_person="rows", max_rows=2)}, "per_person"),
        ({"by": ["g", "h"], "keys": {"g": range(1 << 16), "h": range(1 << 16)}}, "memory"),
    ],
)
def test_wrong_words_are_refused(words, message):
    with pytest.raises(es.UsageError, match=message):
        plan(**words)


def test_more_coordinates_than_memory_are_refused_before_anything_is_read(monkeypatch):
    def read(*_):
        raise AssertionError

    monkeypatch.setattr("ellipsum.sources.local.Table.total_by", read)
    with pytest.raises(AssertionError):
        es.mean(np.zeros((9, 1)), BOX, by=es.Groups(np.arange(9), keys=list(range(1000))), **BUDGET)
    monkeypatch.setattr("os.sysconf", lambda name: 1 << 9)
    with pytest.raises(es.UsageError, match="memory"):
        es.mean(np.zeros((9, 1)), BOX, by=es.Groups(np.arange(9), keys=list(range(1000))), **BUDGET)
