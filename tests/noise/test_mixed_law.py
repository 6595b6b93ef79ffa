"""Two laws in one release: chosen where it pays, proved in both parts, drawn as forecast, within one stated budget."""

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
from scipy.stats import binom

import ellipsum as es
from ellipsum.kernels.accumulate import accumulate
from ellipsum.noise import Stream
from ellipsum.noise.block_law import Block, Blocks
from ellipsum.noise.law import BoxLaw
from ellipsum.noise.mixed_law import MixedLaw
from ellipsum.numerics.wide_integers import Wide
from ellipsum.privacy.budget_split import mu_beside, splits
from ellipsum.privacy.guarantee import compose
from ellipsum.row_maps.auxiliary_counts import Riders
from ellipsum.row_maps.maps import body_without

TERMS = {"epsilon": 1.0, "delta": 1e-6}
PLAIN = {"missing": "center", "check": False}
AGES = np.concatenate([np.full(2, 100.0), np.ones(100)])
LEVEL, RUNS = 0.8, 10_000
WORDS = (
    PLAIN,
    {"check": True},
    {"missing": "row", "check": True},
    {"neighbors": "add_remove", **PLAIN},
    {"neighbors": "add_remove", "check": True},
    {"neighbors": "add_remove", "missing": "row", "check": True},
)


def planned(widths=AGES, **words):
    terms = {"n": 1000, "statistic": "mean", **TERMS, **PLAIN, **words}
    return es.plan(es.Box(np.zeros(len(widths)), np.asarray(widths, float)), **terms)


def every():
    """Plans of both laws, with all that may be counted."""
    for words in WORDS:
        for statistic in ("sum", "mean"):
            for widths in (AGES, np.concatenate([np.full(3, 100.0), np.ones(100)]), np.arange(1.0, 301) ** -2):
                plan = planned(widths, **{"missing": "column", **words, "statistic": statistic})
                if plan.mechanism == "mixed":
                    yield plan


PLANS = list(every())


def test_there_are_such_plans_with_all_that_may_be_counted():
    for relation in ("replace", "add_remove"):
        for missing in ("column", "row", "center"):
            found = [plan for plan in PLANS if (plan.neighbors, plan.riders.missing) == (relation, missing)]
            assert found, (relation, missing)
    assert any(plan.riders.outside for plan in PLANS)
    shared = [plan.stds.size - 1 in plan.law.apart for plan in PLANS if plan.count_units]
    assert any(shared)


# The choice ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("widths", "most"),
    [
        (AGES, 1 / 1.55),
        (np.concatenate([np.full(3, 100.0), np.ones(100)]), 1 / 1.45),
        (np.arange(1.0, 1001) ** -2, 1 / 1.3),
        (np.arange(1.0, 1001) ** -1.5, 1 / 1.25),
    ],
    ids=["ages", "wide", "steep", "less steep"],
)
def test_it_is_taken_where_few_columns_are_far_wider(widths, most):
    for statistic in ("sum", "mean"):
        plan = planned(widths, statistic=statistic)
        errors = dict(plan.considered)
        assert plan.mechanism == "mixed"
        assert errors.pop("mixed") ** 2 <= most * min(errors.values()) ** 2


@pytest.mark.parametrize(
    "widths",
    [
        np.ones(103),
        np.arange(1.0, 1001) ** -1,
        np.arange(1.0, 1001) ** -3,
        np.concatenate([np.full(2, 100.0), np.ones(30)]),
        np.concatenate([np.full(3, 250_000.0), np.ones(100)]),
        np.ones(3),
    ],
    ids=["equal", "flat", "steep", "few", "far wider", "three"],
)
def test_elsewhere_the_single_laws_are_as_they_were(widths):
    plan = planned(widths)
    assert plan.mechanism in ("box", "ball", "gaussian")
    assert "mixed" not in plan.considered


def test_it_is_for_a_stated_epsilon_and_delta_of_one_vector_alone():
    for words in ({"noise": "gaussian"}, {"noise": "norm"}, {"delta": 0}, {"statistic": "describe"}):
        assert planned(**words).mechanism != "mixed"
    for budget in (es.Budget(mu=0.2), es.Budget(rho=0.02)):
        plan = es.plan(es.Box(np.zeros(102), AGES), n=1000, statistic="mean", budget=budget, **PLAIN)
        assert plan.mechanism == "gaussian"
    assert planned(privacy_id="who", max_rows=3, per_person="rows").mechanism != "mixed"
    assert planned(privacy_id="who", max_rows=3).mechanism == "mixed"  # everybody is one row


def test_named_columns_in_relative_units_keep_one_law():
    bounds = {f"x{j}": (0.0, float(width)) for j, width in enumerate(AGES)}
    plan = es.plan(es.Box(bounds), n=1000, statistic="mean", **TERMS, **PLAIN)
    assert plan.mechanism == "ball"
    equal = es.plan(es.Box(bounds), n=1000, statistic="mean", weights="equal", **TERMS, **PLAIN)
    assert equal.mechanism == "mixed"


# The guarantee ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.003, 0.1, 1.0, 7.0, 19.0])
@pytest.mark.parametrize("delta", [1e-19, 1e-6, 1e-2])
def test_both_parts_keep_to_the_stated_budget_and_spend_it(epsilon, delta):
    firsts, mus = splits(epsilon, delta)
    for first, estimate in zip(firsts[::5].tolist(), mus[::5].tolist(), strict=True):
        mu = mu_beside(first, epsilon, delta)
        assert mu == pytest.approx(estimate, rel=1e-6)
        both = es.Privacy(mu, 0.0, pure=(first,))
        assert both.delta(epsilon) <= delta
        assert both.epsilon(delta) <= epsilon
        assert es.Privacy(mu * (1 + 1e-6), 0.0, pure=(first,)).delta(epsilon) > delta


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.statistic}-{plan.neighbors}-{plan.stds.size}")
def test_every_plan_is_within_its_stated_budget(plan):
    assert plan.privacy.epsilon(TERMS["delta"]) <= TERMS["epsilon"]
    assert plan.privacy.delta(TERMS["epsilon"]) <= TERMS["delta"]
    assert plan.privacy.mu > 0
    assert len(plan.privacy.pure) == 1


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.statistic}-{plan.neighbors}-{plan.stds.size}")
def test_a_hundredth_too_little_noise_is_refused_in_either_part(plan):
    law = plan.law
    short = [dataclasses.replace(law, units=law.units * 0.99)]
    for place in range(len(law.pure.scales)):
        scales = list(law.pure.scales)
        scales[place] *= 0.99
        short.append(dataclasses.replace(law, pure=dataclasses.replace(law.pure, scales=tuple(scales))))
    for less in short:
        with pytest.raises(es.UsageError, match="below what its guarantee needs"):
            dataclasses.replace(plan, law=less)
    for privacy in (
        dataclasses.replace(plan.privacy, mu=plan.privacy.mu * 0.99),
        dataclasses.replace(plan.privacy, pure=(plan.privacy.pure[0] * 0.99,)),
    ):
        with pytest.raises(es.UsageError):
            dataclasses.replace(plan, privacy=privacy)
        with pytest.raises(es.UsageError, match="below what its guarantee needs"):
            dataclasses.replace(plan, privacy=privacy, stated={})


def test_no_other_law_gives_such_a_guarantee_and_it_gives_no_other():
    plan = planned()
    for law, units in ((plan.law.pure, 0.0), (None, 1e18)):
        with pytest.raises(es.UsageError):
            dataclasses.replace(plan, law=law, noise_units=units)
    for privacy in (
        es.Privacy(plan.privacy.mu),
        es.Privacy.of_pure(plan.privacy.pure[0]),
        es.Privacy(plan.privacy.mu, pure=plan.privacy.pure * 2),
    ):
        with pytest.raises(es.UsageError, match="below what its guarantee needs"):
            dataclasses.replace(plan, privacy=privacy, stated={})
    with pytest.raises(es.UsageError, match="clamped rows"):
        dataclasses.replace(plan, clamped=False)


def test_a_coordinate_that_moves_further_needs_a_scale_of_its_own():
    """A wide column that is put in the place of a narrow one has too little noise."""
    saved = json.loads(planned().to_json())
    block = saved["law"]["pure"]["blocks"]["blocks"][0]
    block["columns"] = [2, *block["columns"][1:]]  # column 0 is now one of the Gaussian's
    with pytest.raises(es.UsageError, match="below what its guarantee needs"):
        es.Plan.from_json(json.dumps(saved))
    for places in ([0, 0], [0, 5000], [-1, 0]):
        block["columns"] = places
        with pytest.raises(es.UsageError):
            es.Plan.from_json(json.dumps(saved))


def test_the_body_without_some_entries_bounds_rows_without_them():
    """All kinds of cells of three columns, any entries left out: norm and diameter, by trying every pair of rows."""
    rng = np.random.default_rng(1)
    for trial in range(60):
        limits = rng.integers(1, 9, 3)
        rule = ("column", "row")[trial % 2]
        absences = tuple(rng.integers(0, 9, 3 if rule == "column" else 1).tolist())
        outside = tuple(rng.integers(0, 5, 3).tolist()) if trial % 3 else ()
        riders = Riders(rule, None, absences, None, outside)
        width = 3 + riders.width
        apart = frozenset(np.flatnonzero(rng.random(width) < 0.4).tolist())
        rows = np.array(_rows(limits, absences, outside, rule), float)
        rows[:, sorted(apart)] = 0.0
        body = body_without(limits, riders, apart)
        lengths = np.linalg.norm(rows, axis=1)
        apart_by = np.linalg.norm(rows[:, None] - rows[None], axis=2)
        assert lengths.max() <= float(body.norm) + 1e-9
        assert apart_by.max() <= float(body.diameter) + 1e-9
        assert apart_by.max() >= 0.7 * float(body.diameter) - 1e-9


def _rows(limits, absences, outside, rule):
    """Corner rows: every cell inside, outside or absent; or a row that is left out."""
    width = 3 + len(absences) + len(outside)
    found = []
    for kinds in itertools.product(range(5 if rule == "column" else 4), repeat=3):
        row = [0] * width
        for j, kind in enumerate(kinds):
            if kind == 4:
                row[3 + j] = absences[j]
                continue
            row[j] = int(limits[j]) * (1 if kind % 2 else -1)
            if outside and kind >= 2:
                row[3 + len(absences) + j] = outside[j]
        found.append(row)
    if rule == "row":
        left_out = [0] * width
        left_out[3] = absences[0]
        found.append(left_out)
    return found


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.statistic}-{plan.neighbors}-{plan.stds.size}")
def test_neighbors_move_each_part_by_no_more_than_it_claims(plan):
    """Integer sums of neighboring data, as the kernels make them: corners, cells outside, absent ones."""
    rng = np.random.default_rng(7)
    lower, upper = plan.rows.bounds()
    blocks, law = plan.law.pure.blocks, plan.law
    closest = 0.0
    for trial in range(40):
        first, second = (_corner(rng, lower, upper, trial) for _ in range(2)) if trial else (lower, upper)
        before = _sums(plan, first[None])
        after = _sums(plan, second[None]) if plan.neighbors == "replace" else np.zeros_like(before)
        moved = np.abs(before - after)
        loss = sum(
            moved[list(block.columns)].max() / scale
            for block, scale in zip(blocks.blocks, law.pure.scales, strict=True)
        )
        normal = np.ones(moved.size, bool)
        normal[sorted(law.apart)] = False
        assert loss <= plan.privacy.pure[0] * (1 + 1e-12)
        assert np.linalg.norm(moved[normal]) / law.units <= plan.privacy.mu * (1 + 1e-12)
        closest = max(closest, np.linalg.norm(moved[normal]) / law.units / plan.privacy.mu)
    assert closest > 0.8


def _corner(rng, lower, upper, trial):
    row = np.where(rng.random(lower.size) < 0.5, lower, upper)
    if trial % 2:
        row = np.where(rng.random(lower.size) < 0.3, 2 * upper + 1, row)
    if trial % 3 == 1:
        row = np.where(rng.random(lower.size) < 0.3, np.nan, row)
    return row


def _sums(plan, rows):
    sums = accumulate(plan.row_map, [np.ascontiguousarray(rows)]).sums.to_float()
    return np.append(sums, plan.count_units * len(rows)) if plan.count_units else sums


# The noise ----------------------------------------------------------------------------------------------


def holds(covered, runs=RUNS, level=LEVEL):
    """Whether so many covered truths are what the level has, but for one alarm in 10^9."""
    low, high = binom.ppf([5e-10, 1 - 5e-10], runs, level)
    return low <= covered <= high


LAW = MixedLaw(BoxLaw(Blocks(1.0, (Block((3, 0), 0.5), Block((5,), 0.5)), 0.0), (2e6, 5e6)), 3e5)


@pytest.fixture(scope="module")
def noise():
    """Vectors of eight coordinates, one in each row, in units of their stds."""
    zeros = Wide.from_int64(np.zeros((RUNS, 8), np.int64))
    return np.abs(LAW.add(zeros, [], Stream.open(np.random.default_rng(11)))) / LAW.stds(8)


def test_each_coordinate_has_the_noise_of_its_own_law(noise):
    """At its own quantile every coordinate is covered at the level; with a tenth less or more noise it is not."""
    multiples = LAW.multiples(8, LEVEL)
    for j in range(8):
        found = [holds(np.sum(noise[:, j] * factor <= multiples[j])) for factor in (1, 0.9, 1 / 0.9)]
        assert found == [True, False, False], j
    assert np.corrcoef(noise.T)[1, 2] == pytest.approx(0, abs=0.06)
    assert np.corrcoef(noise.T)[0, 3] > 0.1  # a block shares its radius


def test_boxes_cover_all_wanted_coordinates_at_once(noise):
    for places in ([0, 1, 2, 3, 4, 5, 6, 7], [1, 2, 4], [0, 5], [3, 6]):
        wanted = np.zeros(8, bool)
        wanted[places] = True
        half = LAW.joint_multiples(wanted, LEVEL)
        assert not half[~wanted].any()
        inside = [np.sum((noise[:, wanted] * factor <= half[wanted]).all(axis=1)) for factor in (1, 0.9, 1 / 0.9)]
        assert [holds(count) for count in inside] == [True, False, False], places


def test_one_vector_and_counts_behind_it_are_drawn_as_many_are():
    """The whole of a release: sums of any size, a count of rows that follows."""
    law = planned(neighbors="add_remove").law
    width = 103
    sums = Wide.from_ints([1 << 90] * (width - 1))
    many = [law.add(sums, [1 << 80], Stream.open(np.random.default_rng(seed))) for seed in range(300)]
    moved = (np.array(many) - np.append(np.full(width - 1, 2.0**90), 2.0**80)) / law.stds(width)
    assert np.mean(moved[:, law._normal(width)] ** 2) == pytest.approx(1, rel=0.05)
    assert np.mean(moved[:, sorted(law.apart)] ** 2) == pytest.approx(1, rel=0.5)


@pytest.mark.parametrize("words", [PLAIN, {"neighbors": "add_remove", **PLAIN}, {"neighbors": "add_remove"}])
def test_releases_err_as_forecast_and_intervals_cover(words):
    runs, n = 1500, 1000
    plan = planned(**{"missing": "column", **words})
    assert plan.mechanism == "mixed"
    rows = np.random.default_rng(0).uniform(0, AGES, (n, AGES.size))
    truth, rng = rows.mean(axis=0), np.random.default_rng(5)
    releases = [plan.release(rows, rng) for _ in range(runs)]
    errors = np.array([release.value for release in releases]) - truth
    spans = np.array([release.confidence_interval(0.9) for release in releases])
    covered = np.sum((spans[..., 0] <= truth) & (truth <= spans[..., 1]), axis=0)
    for part in (slice(0, 2), slice(2, None)):
        stds = np.mean([release.noise_std for release in releases], axis=0)
        ratio = np.mean((errors[:, part] / stds[part]) ** 2)
        assert ratio == pytest.approx(1, abs=0.2 if part.start == 0 else 0.03)
    low, high = binom.ppf(1e-9, runs, 0.9), binom.isf(1e-9, runs, 0.93)
    assert ((low <= covered) & (covered <= high)).all()
    regions = np.mean([release.confidence_region(0.9).contains(truth) for release in releases[:400]])
    assert regions >= 0.85
    total = np.mean(np.sum(errors**2, axis=1))
    if plan.neighbors == "replace":
        assert total == pytest.approx(plan.expected_squared_error, rel=0.15)


# Files, texts, sums of guarantees -----------------------------------------------------------------------


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.statistic}-{plan.neighbors}-{plan.stds.size}")
def test_plans_and_releases_are_read_back(plan):
    again = es.Plan.from_json(plan.to_json())
    assert again.law == plan.law
    assert again.privacy == plan.privacy
    assert np.array_equal(again.stds, plan.stds)
    rows = np.zeros((1000, plan.d))
    release = again.release(rows, np.random.default_rng(0))
    read = es.from_json(release.to_json())
    assert np.array_equal(read.value, release.value)
    assert np.allclose(read.confidence_interval(0.9), release.confidence_interval(0.9))
    assert np.array_equal(plan.release(rows, np.random.default_rng(0)).value, release.value)


def test_doctored_files_are_refused():
    saved = json.loads(planned().to_json())

    def refused(change):
        doctored = json.loads(json.dumps(saved))
        change(doctored)
        with pytest.raises(es.UsageError):
            es.Plan.from_json(json.dumps(doctored))

    refused(lambda plan: plan["law"].update(units=plan["law"]["units"] * 0.99))
    refused(lambda plan: plan["law"].update(units=0.0))
    refused(lambda plan: plan["law"]["pure"].update(kind="ball"))
    refused(lambda plan: plan["law"]["pure"].update(more=1))
    refused(lambda plan: plan["law"].pop("pure"))
    refused(lambda plan: plan["stated"].update(epsilon=0.99))
    refused(lambda plan: plan["stated"].update(epsilon=1.01))
    refused(lambda plan: plan["stated"].update(delta=0.0))
    refused(lambda plan: plan.update(stated={"mu": plan["privacy"]["mu"]}))
    refused(lambda plan: plan["privacy"].update(mu=plan["privacy"]["mu"] * 1.01))
    refused(lambda plan: plan["privacy"].update(slack=1e-9))


def test_the_text_says_what_it_is_what_others_give_and_what_ten_cost(tmp_path):
    plan = planned()
    text = str(plan)
    assert "pure epsilon in blocks for the widest columns, Gaussian for the others" in text
    assert "gaussian" in text
    assert "ten releases like this" in text
    release = plan.release(np.zeros((1000, 102)), np.random.default_rng(0))
    release.report(tmp_path / "report.html")
    assert "for the widest columns and Gaussian for the others" in (tmp_path / "report.html").read_text()


def test_ten_releases_compose_as_ten_pure_steps_beside_one_gaussian():
    plan = planned()
    ten = compose([plan.privacy] * 10)
    assert ten.mu == pytest.approx(plan.privacy.mu * math.sqrt(10))
    assert ten.pure == plan.privacy.pure * 10
    assert ten.epsilon(1e-5) < 10


def test_a_ledger_charges_it_and_refuses_what_is_too_much(tmp_path):
    """By the law where caps have both parts; else at the stated point of its curve."""
    ledger = es.Ledger(tmp_path / "ledger.db")
    ledger.init("survey", epsilon=2.0, delta=1e-5)
    rows, box = np.zeros((1000, 102)), es.Box(np.zeros(102), AGES)
    for _ in range(2):
        release = es.mean(rows, box, ledger=ledger, dataset="survey", **TERMS, **PLAIN)
        assert release.plan.mechanism == "mixed"
    with pytest.raises(es.BudgetRefused):
        es.mean(rows, box, ledger=ledger, dataset="survey", **TERMS, **PLAIN)
    assert len(ledger.history("survey")) >= 3
