"""[K5] Values and counts of absences whose sums and differences get the noise."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import ellipsum as es
from ellipsum.kernels.accumulate import accumulate
from ellipsum.noise import Stream
from ellipsum.noise.block_law import BlockLaw, box_std, choose_blocks
from ellipsum.numerics.wide_integers import Wide
from ellipsum.plans.noise_selection import plan_statistic
from ellipsum.request.request import Request

RELATIONS = ("replace", "add_remove")
pytestmark = pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")


def planned(widths, neighbors="replace", statistic="mean", n=500, **words):
    bounds = es.Box([0.0] * len(widths), list(widths))
    budget = es.Budget(epsilon=1, delta=0).as_typed()
    request = Request(statistic, bounds, budget, neighbors=neighbors, noise="knorm", missing="skip", **words)
    plan = plan_statistic(request.sized(n, len(widths)))
    assert isinstance(plan.law, BlockLaw)
    return plan


def integer_rows(plan, rows):
    """What single rows add, with sums and differences in the places of pairs."""
    found = [accumulate(plan.row_map, [np.array([row])]).sums.to_ints() for row in rows]
    for row in found:
        for first, second in plan.law.pairs:
            row[first], row[second] = row[first] + row[second], row[first] - row[second]
    return np.array(found, object)


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("statistic", ["mean", "describe"])
def test_no_two_rows_are_further_apart_than_the_noise_is_for(statistic, neighbors):
    """Every pair of rows of cells that are absent, at, inside and outside their bounds; and what one row adds."""
    plan = planned([1.0, 3.0], neighbors, statistic)
    assert plan.law.pairs == ((0, 2), (1, 3))
    cells = (np.nan, -1.0, 0.0, 0.3, 0.5, 1.0, 9.0)
    rows = integer_rows(plan, [(a, 3 * b) for a, b in itertools.product(cells, cells)])
    if plan.count_units:
        rows = np.column_stack([rows, [plan.count_units] * len(rows)])
    far = np.abs(rows[:, None] - rows[None]).max(axis=(0, 1)) if neighbors == "replace" else np.abs(rows).max(axis=0)
    for block, scale in zip(plan.law.blocks.blocks, plan.law.scales, strict=True):
        moved = max(int(far[j]) for j in block.columns)
        assert moved <= Fraction(scale) * Fraction(block.epsilon)
        assert moved >= 0.999 * scale * block.epsilon
    assert sum(Fraction(block.epsilon) for block in plan.law.blocks.blocks) <= 1


def drawn(plan, rows, runs, seed=0):
    sums = accumulate(plan.row_map, [rows]).sums
    if plan.count_units:
        sums = sums.join(Wide.from_ints([len(rows) * plan.count_units]))
    tiled = Wide(np.tile(sums.high, (runs, 1)), np.tile(sums.low, (runs, 1)))
    return plan.noise_law.add(tiled, [], Stream.open(np.random.default_rng(seed))) - np.array(sums.to_float())


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("widths", [[1.0], [1.0, 1.0], [1.0, 2.0, 30.0]])
def test_noise_has_the_stds_and_multiples_that_are_stated(widths, neighbors):
    """A noise of 0.9 std is rejected; value and count are uncorrelated; sums are as they were without noise."""
    runs = 40_000
    plan = planned(widths, neighbors)
    rows = np.random.default_rng(1).random((500, len(widths)))
    rows[:30, 0] = np.nan
    noise = drawn(plan, rows, runs) / np.where(plan.stds > 0, plan.stds, 1.0)
    assert np.abs(noise.mean(axis=0)).max() < 5 / math.sqrt(runs)
    assert np.abs(noise.std(axis=0) - 1).max() < 0.03
    for first, second in plan.law.pairs:
        assert abs(np.corrcoef(noise[:, first], noise[:, second])[0, 1]) < 5 / math.sqrt(runs) * 2
    for level in (0.5, 0.95, 0.999):
        within = (np.abs(noise) <= plan.law.multiples(plan.stds.size, level)).mean(axis=0)
        assert np.abs(within - level).max() < 5 * math.sqrt(level * (1 - level) / runs)
    wanted = np.zeros(plan.stds.size, bool)
    wanted[: len(widths)] = True
    inside = (np.abs(noise) <= plan.law.joint_multiples(wanted, 0.9))[:, : len(widths)].all(axis=1).mean()
    assert inside >= 0.9 - 5 * 0.3 / math.sqrt(runs)


def test_one_column_counts_its_gaps_for_nothing():
    """Its value has the noise of Laplace's mechanism, and the count of absences the same in rows."""
    plan = planned([1.0], n=1000, count_clipped=False)
    assert plan.noise_std[0] * 1000 == pytest.approx(math.sqrt(2), rel=1e-6)
    assert plan.absence_stds[0] == pytest.approx(math.sqrt(8), rel=1e-6)


@pytest.mark.parametrize("neighbors", RELATIONS)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_intervals_cover_means_of_columns_with_gaps(d, neighbors):
    rng = np.random.default_rng(d)
    rows = rng.random((500, d)) ** 3
    rows[rng.random(rows.shape) < 0.1] = np.nan
    plan, truth = planned([1.0] * d, neighbors), np.nanmean(rows, axis=0)
    held = []
    for seed in range(1500):
        low, high = plan.release(rows, np.random.default_rng(seed)).confidence_interval(0.9).T
        held.append((low <= truth) & (truth <= high))
    assert np.mean(held) > 0.9 - 4 * math.sqrt(0.09 / 1500)
    assert np.mean(held) < 0.94


def test_pairs_that_prove_nothing_are_refused():
    plan = planned([1.0, 1.0])
    law = plan.law
    for pairs in (((0, 3), (1, 2)), ((0, 2), (0, 3)), ((0, 1),), ((2, 4),), ((0, 2), (0, 2))):
        with pytest.raises(es.UsageError):
            replace(plan, law=replace(law, pairs=pairs))
    with pytest.raises(es.UsageError):
        replace(plan, law=replace(law, scales=tuple(0.9 * scale for scale in law.scales)))
    with pytest.raises(es.UsageError):  # an absence that moves its pair further than a value does
        replace(plan, auxiliary=replace(plan.auxiliary, absences=plan.auxiliary.absences * 2))
    far = es.Box([100.0, 100.0], [101.0, 101.0])
    budget = es.Budget(epsilon=1, delta=0).as_typed()
    apart = plan_statistic(Request("sum", far, budget, noise="knorm", missing="skip").sized(500, 2))
    assert not apart.law.pairs  # where gaps cost much more than values they have blocks of their own
    blocks = choose_blocks([1, 1, 1, 1], [9, 9, 1, 1], 1.0)
    split = replace(law, blocks=blocks, scales=tuple(1e30 for _ in blocks.blocks))
    if len(blocks.blocks) > 1:
        with pytest.raises(es.UsageError):
            replace(plan, law=split)


def test_partners_stand_in_one_block():
    blocks = choose_blocks([1.0, 0.2, 1.0], [1.0, 1.0, 1.0], 1.0, {0: 3, 1: 4})
    place = {j: i for i, block in enumerate(blocks.blocks) for j in block.columns}
    assert place[0] == place[3]
    assert place[1] == place[4]
    assert sorted(place) == [0, 1, 2, 3, 4]
    error = sum(
        (box_std(b.size) / b.epsilon) ** 2 * sum([1.0, 0.04, 1.0, 1.0, 0.04][j] for j in b.columns)
        for b in blocks.blocks
    )
    assert blocks.error == pytest.approx(error)


def test_saved_plans_and_releases_keep_their_pairs():
    plan = planned([1.0, 2.0])
    assert es.from_json(plan.to_json()) == plan
    release = plan.release(np.full((500, 2), 0.5), np.random.default_rng(0))
    assert es.from_json(release.to_json()).to_json() == release.to_json()
