"""Squares beside clamped values: the kernel against a plain reference, and the body against the whole curve."""

import itertools
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_auxiliary_counts import RULES, each_row, exact, odd_rows

import ellipsum as es
from ellipsum.kernels.accumulate import accumulate, kernel_for
from ellipsum.kernels.blocks import Columns
from ellipsum.row_maps.auxiliary_counts import WIDEST, AuxiliaryCounts, free_squares
from ellipsum.row_maps.maps import FINE, ClampedMap, clamped_body, sqrt_upper, squared_cells

BITS = 40
GRID = 2.0**BITS


def squared(d, rule, limits=None, squares=None, products=0):
    lower, upper = np.linspace(-2, -1, d), np.linspace(0.5, 3, d)
    center, half = (lower + upper) / 2, (upper - lower) / 2
    limits = np.rint(GRID / 4 * half).astype(np.int64) if limits is None else np.array(limits)
    absences = {"column": tuple((1.7 * limits).astype(int).tolist()), "row": (11,)}.get(rule, ())
    fill = np.linspace(-1, 0.4, d) if rule == "fill" else None
    outside = tuple((0.2 * limits).astype(int).tolist())
    auxiliary = AuxiliaryCounts(rule, fill, absences, None, outside, outside_rows=17)
    squares = free_squares(limits, auxiliary, True) if squares is None else squares
    auxiliary = replace(auxiliary, squares=squares, products=products)
    return ClampedMap(center, limits / half, limits, (lower, upper), grid_bits=BITS, auxiliary=auxiliary)


def square_of(row_map, row):
    """The squares of one row, in plain Python."""
    auxiliary = row_map.auxiliary
    absent = ~np.isfinite(row)
    if auxiliary.missing == "row" and absent.any():
        return np.zeros(row_map.columns, object)
    filled = np.where(absent, row_map.center if auxiliary.fill is None else auxiliary.fill, row)
    squares = []
    for j, x in enumerate(filled.tolist()):
        if absent[j] and auxiliary.missing == "column":
            squares.append(0)
            continue
        limit = int(row_map.limits[j])
        q = round(max(-float(limit), min(float(limit), (x - float(row_map.center[j])) * float(row_map.scale[j]))))
        share = q / limit
        squares.append(round(auxiliary.squares[j] * (1.0 - share * share)))
    return np.array(squares, object)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("d", [1, 3, 8, 11, 70])
def test_the_kernel_adds_what_the_reference_does(d, rule, dtype):
    """Bit by bit, in every layout; what stands before the squares is the clamp's own."""
    row_map = squared(d, rule)
    with np.errstate(over="ignore"):
        rows = odd_rows(150, d).astype(dtype)
    rows[:40] = np.where(np.isfinite(rows[:40]), rows[:40], 0)
    wanted = sum(square_of(row_map, row) for row in rows.astype(float)).tolist()
    auxiliary = row_map.auxiliary
    plain = replace(auxiliary, squares=auxiliary.squares[:0])
    bounds = row_map.lower, row_map.upper
    clamp = ClampedMap(row_map.center, row_map.scale, row_map.limits, bounds, grid_bits=BITS, auxiliary=plain)
    before = exact(accumulate(clamp, [rows]).sums)
    for block in (rows, np.asfortranarray(rows), Columns(list(np.ascontiguousarray(rows.T))), rows[:, ::-1][:, ::-1]):
        for again in (row_map, pickle.loads(pickle.dumps(row_map))):
            assert exact(accumulate(again, [block[:70], block[70:]]).sums) == before + wanted


@pytest.mark.parametrize("d", [2, 3, 8, 11])
@pytest.mark.parametrize("rule", RULES)
def test_what_a_row_adds_does_not_depend_on_its_neighbors(rule, d):
    """[S1] Cells a hair inside and outside, beside rows that are absent or far away."""
    row_map = squared(d, rule)
    hair = [0, 1e-9, 0.5, 1 - 2.0**-41, 1 - 2.0**-52, 1, 1 + 2.0**-45, 1 + 2.0**-19, 1 + 1e-5, 9]
    rows = [row_map.center + (edge - row_map.center) * f for edge in (row_map.lower, row_map.upper) for f in hair]
    odd = [np.full(d, np.nan), np.full(d, np.inf), np.full(d, 1e300), row_map.center]
    alone = {i: exact(accumulate(row_map, [row[None]]).sums) for i, row in enumerate([*rows, *odd])}
    for i, row in enumerate(rows):
        for j, other in enumerate(odd, len(rows)):
            block = np.tile(row, (130, 1))
            block[77] = other
            wanted = [129 * a + b for a, b in zip(alone[i], alone[j], strict=True)]
            for laid in (block, np.asfortranarray(block), Columns(list(np.ascontiguousarray(block.T)))):
                assert exact(accumulate(row_map, [laid]).sums) == wanted, (i, j)


def products_of(row_map, row):
    """The products of one row, in plain Python."""
    auxiliary, limits = row_map.auxiliary, row_map.limits.astype(float)
    absent = ~np.isfinite(row)
    if auxiliary.missing == "row" and absent.any():
        return np.zeros(auxiliary.pairs, object)
    filled = np.where(absent, row_map.center if auxiliary.fill is None else auxiliary.fill, row)
    with np.errstate(all="ignore"):
        y = (np.rint(np.clip((filled - row_map.center) * row_map.scale, -limits, limits)) / limits).tolist()
    return np.array([round(auxiliary.products * (a * b)) for a, b in itertools.combinations(y, 2)], object)


@pytest.mark.parametrize("rule", ["row", "center", "fill"])
@pytest.mark.parametrize("d", [2, 3, 8, 11])
def test_products_are_what_the_reference_has(d, rule):
    """[S12] Bit by bit in every layout, and no row or pair of rows leaves the body."""
    row_map = squared(d, rule, products=(1 << 38) + 7)
    rows = odd_rows(150, d)
    rows[:40] = np.where(np.isfinite(rows[:40]), rows[:40], 0)
    wanted = sum(products_of(row_map, row) for row in rows).tolist()
    for block in (rows, np.asfortranarray(rows), Columns(list(np.ascontiguousarray(rows.T)))):
        found = exact(accumulate(row_map, [block[:70], block[70:]]).sums)
        assert found[-len(wanted) :] == wanted
    half = (row_map.upper - row_map.lower) / 2
    corners = [row_map.center + half * np.array(signs) for signs in itertools.product((-1, 1), repeat=d)][:64]
    integers = each_row(row_map, [*corners, row_map.center, np.full(d, np.nan), *rows[:20]]).astype(float) / GRID
    assert np.sqrt((integers**2).sum(1)).max() <= float(row_map.body.norm) / GRID * (1 + 1e-12)
    apart = np.sqrt(((integers[:, None] - integers[None]) ** 2).sum(-1)).max()
    assert apart <= float(row_map.body.diameter) / GRID * (1 + 1e-12)


def curve(limit, square):
    """Every cell (q, s) of a column, by the kernel."""
    row_map = squared(1, "center", [limit], (square,))
    q = np.arange(-limit, limit + 1)
    cells = row_map.center + q[:, None] / row_map.scale
    kernel, found = kernel_for(row_map), np.zeros((len(q), row_map.width), np.int64)
    for cell, total in zip(cells, found, strict=True):
        kernel(cell[None], total)
    assert (found[:, 0] == q).all()
    return found[:, [0, -1]]


@pytest.mark.parametrize("ratio", [0.01, 0.5, 1.0, 1.5, 1.66, 2.0, 3.0])
@pytest.mark.parametrize("limit", [1, 2, 7, 100, FINE, pytest.param(5000, marks=pytest.mark.slow)])
def test_no_cell_leaves_the_body(limit, ratio):
    """[S11] All pairs of a whole curve, rounding included, in integers; and free is free exactly."""
    square = max(1, int(limit * ratio))
    cells = curve(limit, square)
    parts = squared_cells(np.array([limit]), np.array([square]))
    length, apart = (sum(int(part[0]) ** 2 for part in cell) for cell in parts)
    assert (cells**2).sum(1).max() <= length
    step = max(1, len(cells) // 700)
    some = np.unique(np.concatenate([cells[::step], cells[:20], cells[-20:], cells[limit - 10 : limit + 11]]), axis=0)
    far = ((cells[:, None] - some[None]) ** 2).sum(-1).max()
    assert far <= apart
    if limit >= FINE and square * WIDEST.denominator <= limit * WIDEST.numerator:
        assert far == apart == 4 * limit**2
    if limit >= FINE and square <= limit - 2:
        assert length == limit**2
    if limit >= FINE and ratio == 2.0:  # beyond the widest, charged for: the curve itself is further apart
        assert far > 4.1 * limit**2


def test_the_widest_square_is_below_the_root_and_near_it():
    root = math.sqrt((11 + 5 * math.sqrt(5)) / 8)
    assert 0.99 * root < WIDEST < root


@pytest.mark.parametrize("rule", RULES)
def test_whole_rows_stay_in_the_body(rule):
    """Every pair of rows of three columns: absent in every combination, along the curve, at and beyond the limits."""
    row_map = squared(3, rule)
    places = (-3.0, -1.0, -0.6, -0.236, 0.0, 0.236, 1.0, 3.0, np.nan)
    half = (row_map.upper - row_map.lower) / 2
    rows = [row_map.center + half * np.array(cell) for cell in itertools.product(places, repeat=3)]
    integers = each_row(row_map, rows).astype(float) / GRID
    norm, diameter = float(row_map.body.norm) / GRID, float(row_map.body.diameter) / GRID
    apart = np.sqrt(((integers[:, None] - integers[None]) ** 2).sum(-1))
    assert np.sqrt((integers**2).sum(1)).max() <= norm * (1 + 1e-12)
    assert apart.max() <= diameter * (1 + 1e-12)
    assert apart.max() > 0.9 * diameter


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("rule", RULES)
def test_free_squares_cost_nothing(rule, alone):
    """The body with them is the body without, in exact arithmetic: the norm too where it matters."""
    limits = np.array([1 << 40, 12345, 0])
    absences = {"column": tuple((np.sqrt(3) * limits * 0.9999).astype(int).tolist()), "row": (1 << 40,)}.get(rule, ())
    fill = np.zeros(3) if rule == "fill" else None
    plain = AuxiliaryCounts(rule, fill, absences, None, (1 << 37, 2000, 0))
    free = AuxiliaryCounts(rule, fill, absences, None, plain.outside, squares=free_squares(limits, plain, alone))
    assert clamped_body(limits, free).diameter == clamped_body(limits, plain).diameter
    if not alone:
        assert clamped_body(limits, free).norm == clamped_body(limits, plain).norm
    more = AuxiliaryCounts(rule, fill, absences, None, plain.outside, squares=2 * free.squares)
    assert clamped_body(limits, more).diameter > clamped_body(limits, plain).diameter


def body_by_cells(limits, auxiliary):
    """The squared norm and diameter of `clamped_body`, in Python's whole numbers."""
    norm = diameter = 0
    nothing = [0] * len(limits)
    columns = (
        limits,
        auxiliary.absences.tolist() if auxiliary.missing == "column" else nothing,
        auxiliary.outside.tolist() or nothing,
        auxiliary.squares.tolist() or nothing,
    )
    for limit, absent, out, square in zip(*columns, strict=True):
        length, apart = limit**2 + square**2, 4 * limit**2 + square**2
        if limit >= FINE:
            length = max(limit**2, (square + 2) ** 2) if square else limit**2
            apart = 4 * limit**2 if square * WIDEST.denominator <= limit * WIDEST.numerator else apart
        norm += max(length + out**2, absent**2)
        diameter += max(apart + out**2, length + out**2 + absent**2)
    return norm, diameter


units = st.one_of(st.integers(0, 2**46 - 1), st.sampled_from([0, 1, FINE - 1, FINE, 2**46 - 1]))
cells = st.tuples(st.integers(0, 2**48 - 1), st.integers(0, 2**62 - 1), st.integers(0, 2**62 - 1), units)


@given(st.lists(cells, min_size=1, max_size=6), st.booleans(), st.integers(0, 7), st.integers(1, 20_000))
def test_the_body_is_the_sum_over_cells(columns, alike, kinds, times):
    columns = [columns[0]] * times if alike else columns
    limits, absences, outside, squares = (list(part) for part in zip(*columns, strict=True))
    rule, absences = ("column", absences) if kinds & 1 else ("center", [])
    auxiliary = AuxiliaryCounts(
        rule, None, absences, None, outside if kinds & 2 else [], squares=squares if kinds & 4 else []
    )
    body, (norm, diameter) = clamped_body(np.array(limits), auxiliary), body_by_cells(limits, auxiliary)
    assert body.norm == sqrt_upper(norm)
    assert body.diameter == sqrt_upper(diameter)


def test_wrong_squares_are_refused():
    limits, bounds = [1 << 40] * 2, ([-1.0] * 2, [1.0] * 2)
    for wrong in ((1,), (1, -1), (1, 1 << 46), (1, 1.5)):
        with pytest.raises(es.UsageError):
            ClampedMap([0, 0], [2.0**40] * 2, limits, bounds, grid_bits=40, auxiliary=AuxiliaryCounts(squares=wrong))
    counted = AuxiliaryCounts("column", None, (1, 1), squares=(1, 1), products=1)
    for wrong in (
        AuxiliaryCounts(products=1),
        counted,
        AuxiliaryCounts(squares=(1, 1), products=1 << 46),
        AuxiliaryCounts(products=-1),
    ):
        with pytest.raises(es.UsageError):
            ClampedMap([0, 0], [2.0**40] * 2, limits, bounds, grid_bits=40, auxiliary=wrong)
