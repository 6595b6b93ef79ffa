"""Absent cells and what lies outside: the kernels against a plain reference, and bodies against every pair of rows."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import ellipsum as es
from ellipsum.kernels.accumulate import accumulate
from ellipsum.kernels.blocks import Columns
from ellipsum.row_maps.auxiliary_counts import AuxiliaryCounts, free_units, whole_shares
from ellipsum.row_maps.maps import ClampedMap, EllipsoidMap

BITS = 40
GRID = 2.0**BITS


def ellipsoid(d, rule, matrix=None, pull=0.97, octaves=5):
    shares = whole_shares(np.arange(1.0, d + 1), (True,) * d) if rule == "column" else None
    absences = {"column": free_units(2 * shares, BITS) if shares is not None else (), "row": (7,)}
    fill = np.linspace(-1, 1, d) if rule == "fill" else None
    auxiliary = AuxiliaryCounts(
        rule, fill, absences.get(rule, ()), shares, free_units(2 * (1 - pull**2), BITS), octaves, pull
    )
    center = np.linspace(-0.5, 0.5, d)
    if matrix is None:
        return EllipsoidMap(center, scale=np.linspace(0.3, 0.9, d), grid_bits=BITS, auxiliary=auxiliary)
    return EllipsoidMap(center, matrix=matrix, grid_bits=BITS, auxiliary=auxiliary)


def clamped(d, rule):
    lower, upper = np.linspace(-2, -1, d), np.linspace(0.5, 3, d)
    center, half = (lower + upper) / 2, (upper - lower) / 2
    scale = np.full(d, GRID / 4)
    limits = np.rint(scale * half).astype(np.int64)
    absences = {"column": tuple((1.7 * limits).astype(int).tolist()), "row": (11,)}.get(rule, ())
    fill = np.linspace(-1, 0.4, d) if rule == "fill" else None
    outside = tuple((0.2 * limits).astype(int).tolist())
    auxiliary = AuxiliaryCounts(rule, fill, absences, None, outside, outside_rows=13)
    return ClampedMap(center, scale, limits, (lower, upper), grid_bits=BITS, auxiliary=auxiliary)


def odd_rows(n, d, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)) * rng.choice([0.1, 1.0, 4.0], size=(n, 1))
    rows[rng.random((n, d)) < 0.03] = np.nan
    rows[rng.random((n, d)) < 0.01] = np.inf
    rows[rng.random((n, d)) < 0.01] = 1e300
    rows[rng.random((n, d)) < 0.005] = -1.7e308
    return rows


def one_row(row_map, row):
    """The integer row of one row, in plain Python."""
    auxiliary, d = row_map.auxiliary, row_map.columns
    absent = ~np.isfinite(row)
    out = np.zeros(row_map.width, object)
    out[:] = 0
    if auxiliary.missing == "row" and absent.any():
        out[row_map.values] = auxiliary.absences[0]
        return out
    fill = auxiliary.fill if auxiliary.fill is not None else row_map.center
    filled = np.where(absent, fill, row)
    places = row_map.values + len(auxiliary.absences)
    if auxiliary.missing == "column":
        out[row_map.values : places] = np.where(absent, auxiliary.absences, 0)
    if isinstance(row_map, ClampedMap):
        with np.errstate(all="ignore"):
            value = np.clip((filled - row_map.center) * row_map.scale, -row_map.limits, row_map.limits)
        value = np.where(absent & (auxiliary.missing == "column"), 0, np.rint(value))
        beyond = ~absent & ((row < row_map.lower) | (row > row_map.upper))
        out[:d] = [int(v) for v in value]
        out[places : places + d] = np.where(beyond, auxiliary.outside, 0)
        out[places + d] = auxiliary.outside_rows * int(beyond.any())
        return out
    taken = float(auxiliary.shares[absent].sum()) if auxiliary.missing == "column" else 0.0
    offsets = [Fraction(x) - Fraction(c) for x, c in zip(filled.tolist(), row_map.center.tolist(), strict=True)]
    maps = np.diag(row_map.scale) if row_map.matrix is None else row_map.matrix
    y = [sum(Fraction(b) * o for b, o in zip(line, offsets, strict=True)) for line in maps.tolist()]
    square = sum(v * v for v in y) / Fraction(1 - taken)
    factor = Fraction(2) ** BITS
    if square > 1:
        root = math.isqrt(int(square * 2**200)) / Fraction(2) ** 100
        factor = Fraction(auxiliary.pull) * 2**BITS / root
        octave = min(int((math.log2(square.numerator) - math.log2(square.denominator)) // 2), auxiliary.octaves - 1)
        out[places + octave] = auxiliary.outside[0]
    out[: row_map.values] = [round(v * factor) for v in y]
    return out


RULES = ("column", "row", "center", "fill")


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("d", [1, 3, 8, 11])
@pytest.mark.parametrize("kind", ["ellipsoid", "matrix", "clamped"])
def test_kernels_count_as_the_reference_does(kind, d, rule):
    """Counts exactly; values to within what floating point may move a row on the grid."""
    if kind == "clamped":
        row_map = clamped(d, rule)
    else:
        matrix = np.random.default_rng(1).normal(size=(d, d)) / 2 if kind == "matrix" else None
        row_map = ellipsoid(d, rule, matrix)
    rows = odd_rows(150, d)
    wanted = sum(one_row(row_map, row) for row in rows)
    for block in (rows, np.asfortranarray(rows), Columns(list(np.ascontiguousarray(rows.T))), rows[:, ::-1][:, ::-1]):
        partial = accumulate(row_map, [block[:70], block[70:]])
        found = exact(partial.sums)
        assert partial.rows == 150
        assert found[row_map.values :] == list(wanted[row_map.values :])
        far = [abs(a - b) for a, b in zip(found[: row_map.values], wanted[: row_map.values], strict=True)]
        assert max(far) <= 150 * (1 + GRID * 2.0**-44)


@pytest.mark.parametrize("d", [1, 2, 3, 8, 11, 70])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["ellipsoid", "clamped"])
def test_what_a_row_adds_does_not_depend_on_its_neighbors(kind, rule, d):
    """[S1] Rows a hair inside and outside, in vectors and beside a row that makes the kernel look again."""
    row_map = clamped(d, rule) if kind == "clamped" else ellipsoid(d, rule)
    if kind == "clamped":
        edges = [row_map.lower, row_map.upper]
    else:
        ray = 1 / row_map.scale / math.sqrt(d)
        edges = [row_map.center - ray, row_map.center + ray]
    hair = [1 - 1e-6, 1 - 2.0**-52, 1, 1 + 2.0**-52, 1 + 2.0**-45, 1 + 2.0**-40, 1 + 2.0**-30, 1 + 2.0**-19, 1 + 1e-5]
    rows = [row_map.center + (edge - row_map.center) * factor for edge in edges for factor in hair]
    rows += [np.nextafter(edge, way) for edge in edges for way in (-np.inf, np.inf)]
    odd = [np.full(d, np.nan), np.full(d, np.inf), np.full(d, 1e300), row_map.center]
    alone = {i: exact(accumulate(row_map, [row[None]]).sums) for i, row in enumerate([*rows, *odd])}
    for i, row in enumerate(rows):
        for j, other in enumerate(odd, len(rows)):
            block = np.tile(row, (130, 1))
            block[77] = other
            wanted = [129 * a + b for a, b in zip(alone[i], alone[j], strict=True)]
            for laid in (block, np.asfortranarray(block), Columns(list(np.ascontiguousarray(block.T)))):
                assert exact(accumulate(row_map, [laid]).sums) == wanted, (i, j)


def test_single_precision_puts_nothing_outside():
    """Unit vectors and bounds that are rounded to singles are inside; a thousandth of a percent beyond is not."""
    rng = np.random.default_rng(0)
    for d in (2, 100, 768):
        vectors = rng.normal(size=(500, d))
        vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
        assert (np.linalg.norm(vectors.astype(float), axis=1) > 1).any()
        auxiliary = AuxiliaryCounts("center", None, (), None, (1,), 3)
        ball = EllipsoidMap(np.zeros(d), scale=np.ones(d), grid_bits=BITS, auxiliary=auxiliary)
        assert exact(accumulate(ball, [vectors]).sums)[d:] == [0, 0, 0]
        assert exact(accumulate(ball, [vectors * np.float32(1.00001)]).sums)[d:] == [500, 0, 0]
    plan = es.plan("sum", es.Box([0.1, -7.3], [0.3, 0.7]), n=9, count_clipped=True, budget=es.Budget(mu=1.0))
    corners = np.array(list(itertools.product((0.1, 0.3), (-7.3, 0.7)))).astype(np.float32)
    assert (corners.astype(float) > [0.3, 0.7]).any()
    assert exact(accumulate(plan.row_map, [corners]).sums)[-3:] == [0, 0, 0]
    beyond = corners + np.float32(1e-5)
    assert all(count > 0 for count in exact(accumulate(plan.row_map, [beyond]).sums)[-3:])


def exact(wide):
    return [int(h) * 2 ** wide_bits() + int(low) for h, low in zip(wide.high, wide.low, strict=True)]


def wide_bits():
    from ellipsum.numerics.wide_integers import LOW_BITS

    return LOW_BITS


def each_row(row_map, rows):
    return np.array([exact(accumulate(row_map, [row[None]]).sums) for row in rows], dtype=object)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["ellipsoid", "clamped"])
def test_no_row_leaves_the_body(kind, rule):
    """Every pair of extreme rows: absent in every combination, at, inside and far outside the region."""
    d = 3
    row_map = clamped(d, rule) if kind == "clamped" else ellipsoid(d, rule)
    scale = row_map.scale if kind == "ellipsoid" else np.ones(d)
    rows = []
    for absent in itertools.product((False, True), repeat=d):
        for direction in itertools.product((-1, 0, 1), repeat=d):
            for length in (0.7, 0.99, 1.0, 1.01, 30.0):
                row = row_map.center + length * np.array(direction) / scale / max(1, math.sqrt(np.abs(direction).sum()))
                rows.append(np.where(absent, np.nan, row))
                if kind == "clamped":
                    edge = np.where(np.array(direction) > 0, row_map.upper, row_map.lower)
                    rows.append(np.where(absent, np.nan, row_map.center + length * (edge - row_map.center)))
    integers = each_row(row_map, np.unique(np.array(rows), axis=0)).astype(float) / GRID
    norm, diameter = float(row_map.body.norm) / GRID, float(row_map.body.diameter) / GRID
    lengths = np.sqrt((integers**2).sum(1))
    apart = np.sqrt(((integers[:, None] - integers[None]) ** 2).sum(-1))
    assert lengths.max() <= norm * (1 + 1e-12)
    assert apart.max() <= diameter * (1 + 1e-12)
    assert apart.max() > 0.9 * diameter  # nor is the body much too large


def test_free_counts_cost_nothing():
    """[S10] With the units of `free_units` the body is the ball's own."""
    for rule in ("column", "row", "center"):
        plain = EllipsoidMap(np.zeros(4), scale=np.ones(4), grid_bits=BITS)
        shares = whole_shares(np.ones(4), (True, True, False, True)) if rule == "column" else None
        units = free_units(2 * 0.97**2 * shares, BITS) if rule == "column" else ()
        units = free_units(2 + 0.97**2, BITS) if rule == "row" else units
        auxiliary = AuxiliaryCounts(rule, None, units, shares, free_units(2 * (1 - 0.97**2), BITS), 12, 0.97)
        counted = EllipsoidMap(np.zeros(4), scale=np.ones(4), grid_bits=BITS, auxiliary=auxiliary)
        assert float(counted.body.diameter / plain.body.diameter) == pytest.approx(1, abs=1e-15)


def test_wrong_auxiliary_counts_are_refused():
    for wrong in (
        AuxiliaryCounts("column", None, (1,), np.zeros(2)),
        AuxiliaryCounts("column", None, (1, 1), np.array([0.3, 0.3])),
        AuxiliaryCounts("column", None, (1, 1), np.array([0.1, np.nan])),
        AuxiliaryCounts("column", None, (1, -1), np.array([0.25, 0.25])),
        AuxiliaryCounts("row", None, (1, 1)),
        AuxiliaryCounts("fill", np.zeros(3)),
        AuxiliaryCounts("center", None, (), None, (1,), 0),
        AuxiliaryCounts("center", None, (), None, (1,), 3, 0.2),
    ):
        with pytest.raises(es.UsageError):
            EllipsoidMap(np.zeros(2), scale=np.ones(2), grid_bits=BITS, auxiliary=wrong)
