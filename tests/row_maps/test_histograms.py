"""[L1] to [L6]: integer rows are functions of their row, and no rows are longer or further apart than is said."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from ellipsum.kernels.accumulate import accumulate
from ellipsum.regions.ellipsoid import Ellipsoid
from ellipsum.row_maps.histograms import (
    ColumnHistograms,
    Count,
    Directions,
    NormHistogram,
    SecondMoments,
    SideBySide,
    SignedParts,
)
from ellipsum.row_maps.maps import Prepared

COLUMNS = 3
EDGES = [np.array([-1.0, 0.0, 2.0]), np.array([0.5]), np.array([-5.0, 5.0])]
OUTER = [
    np.array([True, False, False, True, False]),
    np.array([True, True, False]),
    np.array([True, False, True, False]),
]
ROUND = Ellipsoid(np.array([0.1, -0.2, 0.0]), np.array([1.0, 0.5, 2.0]))
TURNED = Ellipsoid(np.zeros(3), np.array([1.0, 0.25]), np.linalg.qr(np.random.default_rng(0).normal(size=(3, 2)))[0])


def maps():
    histograms = ColumnHistograms(COLUMNS, range(3), EDGES)
    found = {
        "count": Count(COLUMNS),
        "histograms": histograms,
        "some columns": ColumnHistograms(COLUMNS, [2, 0], [EDGES[2], EDGES[0]]),
        "by the root": ColumnHistograms(COLUMNS, range(3), EDGES, OUTER, "root"),
        "by the number": ColumnHistograms(COLUMNS, range(3), EDGES, OUTER, "number"),
        "prepared": Prepared(histograms, 0.0, -4.0, 4.0),
        "side by side": SideBySide([histograms, SignedParts(ROUND)]),
    }
    for name, region in (("round", ROUND), ("turned", TURNED)):
        found |= {
            f"norms, {name}": NormHistogram(region, [0.5, 1.0, 4.0]),
            f"signed, {name}": SignedParts(region),
            f"directions, {name}": Directions(region, [0.5, 1.0, 4.0]),
            f"moments, {name}": SecondMoments(region),
        }
    return found


def rows():
    """Corners, signs, edges, rows far out and missing entries: where norms and distances are largest."""
    entries = [-6.0, -1.0, 0.0, 0.5, 6.0]
    grid = np.array(list(itertools.product(entries, repeat=COLUMNS)))
    odd = [[np.nan] * 3, [np.nan, 1.0, -6.0], [np.inf, -np.inf, 0.0], [1e300, -1e300, 1e300], [-1e300, 1e300, -1e300]]
    axes = np.vstack([np.eye(3), -np.eye(3), TURNED.axes.T, -TURNED.axes.T]) * 100
    return np.vstack([grid, odd, axes, np.random.default_rng(1).normal(size=(40, 3)) * 3])


def integer_rows(row_map):
    return np.array([accumulate(row_map, [row[None]]).sums.to_ints() for row in rows()], object)


def squared(row):
    return sum(int(entry) ** 2 for entry in row)


@pytest.mark.parametrize("name", maps())
def test_no_row_is_longer_and_no_two_are_further_apart(name):
    row_map = maps()[name]
    found = integer_rows(row_map)
    norm, diameter = row_map.body.norm, row_map.body.diameter
    assert row_map.body.sensitivity("add_remove") == norm
    assert row_map.body.sensitivity("replace") == diameter
    longest = max(squared(row) for row in found)
    assert longest <= norm**2
    apart = 0
    for i, row in enumerate(found):
        apart = max(apart, max(squared(row - other) for other in found[i:]))
    assert apart <= diameter**2
    if name not in ("count", "side by side"):  # the bounds are reached: none is twice what it needs to be
        assert longest > 0.5 * norm**2
        assert apart > (0.4 if "moments" in name else 0.45) * diameter**2
    if hasattr(row_map, "l1"):
        assert max(sum(map(abs, map(int, row))) for row in found) <= row_map.l1
        assert max(sum(map(abs, map(int, row - found[0]))) for row in found) <= 2 * row_map.l1


def test_a_bound_of_one_tenth_less_would_be_found():
    """The brute force has rows that come within a tenth of every bound of histograms."""
    for name in ("histograms", "some columns", "by the root", "norms, round"):
        row_map = maps()[name]
        found = integer_rows(row_map)
        apart = max(squared(row - other) for row in found for other in found)
        assert apart > (Fraction(9, 10) * row_map.body.diameter) ** 2
        assert max(map(squared, found)) > (Fraction(9, 10) * row_map.body.norm) ** 2


def test_histograms_count_what_they_say():
    data = np.array([[-2.0, 0.4, 9.0], [-1.0, 0.5, np.nan], [2.0, np.inf, -5.0]])
    row_map = ColumnHistograms(COLUMNS, range(3), EDGES)
    parts = row_map.split(np.array(accumulate(row_map, [data]).sums.to_ints(), float))
    assert [part.tolist() for part in parts] == [[1, 1, 0, 1, 0], [1, 1, 1], [0, 1, 1, 1]]


def test_divided_counts():
    data = np.array([[-2.0, 0.4, 9.0], [0.5, 0.4, 0.0]])
    for divided, weight in (("root", 1 / math.sqrt(3)), ("number", 1 / 3)):
        row_map = ColumnHistograms(COLUMNS, range(3), EDGES, OUTER, divided)
        values = np.ldexp(np.array(accumulate(row_map, [data]).sums.to_ints(), float), -row_map.grid_bits)
        first, second, third = row_map.split(values)
        assert first[0] == pytest.approx(weight, abs=1e-6)
        assert second[0] == pytest.approx(weight + 1, abs=1e-6)
        assert third[2] == pytest.approx(weight, abs=1e-6)


def test_parts_directions_and_moments():
    data = np.random.default_rng(2).normal(size=(500, 3)) * [1, 2, 0.1]
    y = (data - ROUND.center) * ROUND.scale
    length = np.linalg.norm(y, axis=1)
    clipped = y / np.maximum(length, 1)[:, None]
    signed = SignedParts(ROUND)
    values = np.ldexp(np.array(accumulate(signed, [data]).sums.to_ints(), float), -signed.grid_bits)
    up, down = signed.split(values)
    assert np.allclose(up - down, clipped.sum(axis=0))
    assert np.allclose(up + down, np.abs(clipped).sum(axis=0))
    shells = Directions(ROUND, [0.5, 1.0])
    values = shells.split(np.ldexp(np.array(accumulate(shells, [data]).sums.to_ints(), float), -shells.grid_bits))
    unit = y / length[:, None]
    assert np.allclose(values[0], unit[(length >= 0.5) & (length < 1)].sum(axis=0))
    assert np.allclose(values[1], unit[length >= 1].sum(axis=0))
    moments = SecondMoments(ROUND)
    values = np.ldexp(np.array(accumulate(moments, [data]).sums.to_ints(), float), -moments.grid_bits)
    assert np.allclose(moments.matrix(values), clipped.T @ clipped, atol=1e-2)


@pytest.mark.parametrize("name", maps())
def test_sums_do_not_depend_on_order_blocks_or_threads(name):
    row_map, data = maps()[name], rows()
    whole = accumulate(row_map, [data], threads=1).sums.to_ints()
    mixed = np.random.default_rng(3).permutation(data)
    assert accumulate(row_map, [mixed[:7], np.asfortranarray(mixed[7:])], threads=2).sums.to_ints() == whole


@pytest.mark.parametrize(
    "edges",
    [
        np.linspace(-5, 5, 1025)[1:-1],
        np.arange(7.0),
        [0.3],
        [1e16, 1e16 + 2, 1e16 + 4],
        [-1e308, 0, 1e308],
        [0, 1, 1.4, 3],
    ],
)
def test_evenly_spaced_edges_are_found_as_others_are(edges):
    """Values on edges, beside them, and far away."""
    edges = np.array(edges, float)
    near = np.concatenate([np.nextafter(edges, -np.inf), edges, np.nextafter(edges, np.inf)])
    drawn = np.random.default_rng(0).uniform(-7, 7, 500)
    values = np.concatenate([near, drawn, [-1e308, 1e308, 0.0, -0.0, 5e-324, np.nan, np.inf]])
    row_map = ColumnHistograms(1, [0], [edges])
    bins = np.where(np.isfinite(values), np.searchsorted(edges, values, side="right"), edges.size + 1)
    wanted = np.bincount(bins, minlength=edges.size + 2).tolist()
    assert accumulate(row_map, [values[:, None]]).sums.to_ints() == wanted
    uneven = [0, 1, 1.4, 3], [-1e308, 0, 1e308], [0.3]
    assert (row_map.scales[0] > 0) == (edges.tolist() not in map(list, uneven))
