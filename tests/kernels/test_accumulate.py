"""The integer rows: exact against a plain reference, bounded for every row, and blind to order and layout."""

import itertools
import math
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import tracemalloc
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ellipsum.errors import UsageError
from ellipsum.kernels import accumulate as accumulating
from ellipsum.kernels.accumulate import Partial, accumulate, kernel_for
from ellipsum.kernels.blocks import Columns
from ellipsum.numerics.wide_integers import Wide
from ellipsum.row_maps.maps import EllipsoidMap, clipped_norm_bound, sqrt_upper
from ellipsum.util.threads import count_cores

GRID_BITS = 40


# --- a plain reference: Python floats in the same order ----------------------------------------------------


def squared_norm(values):
    """Eight lanes; the rest of the last vector in the lanes it fills from the right; a tree of sums."""
    values = values + [0.0] * (8 - len(values))
    lanes = [0.0] * 8
    whole = len(values) // 8 * 8
    for j in range(whole):
        lanes[j % 8] += values[j] * values[j]
    for i, value in enumerate(values[whole:]):
        lanes[8 - (len(values) - whole) + i] += value * value
    for half in (4, 2, 1):
        lanes = [lanes[i] + lanes[i + half] for i in range(half)]
    return lanes[0]


def clip_and_round(values, grid_bits):
    square = squared_norm(values)
    grid = 2.0**grid_bits
    factor = grid / math.sqrt(square) if square > 1.0 else grid
    return [round(value * factor) for value in values]


def near(pairs):
    """The products of pairs, all times one power of two that brings the largest near 2^200."""
    parts = [(math.frexp(a), math.frexp(b)) for a, b in pairs]
    top = max((a[1] + b[1] for a, b in parts if a[0] * b[0] != 0), default=0)
    return [math.ldexp(a[0] * b[0], a[1] + b[1] - top + 200) for a, b in parts]


def reference_diagonal(row, center, scale, grid_bits):
    kept = [x if math.isfinite(x) and b != 0 else c for x, c, b in zip(map(float, row), center, scale, strict=True)]
    values = [(x - c) * b for x, c, b in zip(kept, center, scale, strict=True)]
    if not squared_norm(values) < math.inf:
        values = near([(0.5 * x - 0.5 * c, b) for x, c, b in zip(kept, center, scale, strict=True)])
    return clip_and_round(values, grid_bits)


def reference_matrix(row, center, matrix, grid_bits):
    """For rows that do not overflow."""
    offsets = [x - c if math.isfinite(x) else 0.0 for x, c in zip(map(float, row), center, strict=True)]
    products = [0.0] * (-(-len(matrix) // 16) * 16)
    for j, offset in enumerate(offsets):
        for i in range(len(matrix)):
            products[i] += matrix[i][j] * offset
    return clip_and_round(products, grid_bits)[: len(matrix)]


def integer_row(row_map, row):
    total = np.zeros(row_map.width, np.int64)
    kernel_for(row_map)(np.asarray(row)[None, :], total)
    return [int(v) for v in total]


def square_length(row):
    return sum(v * v for v in row)


def random_rows(rows, columns, seed=0, odd=True):
    """Rows inside, on and far outside the ball, some with odd entries."""
    generator = np.random.default_rng(seed)
    data = generator.standard_normal((rows, columns)) * 10.0 ** generator.integers(-3, 3, (rows, 1))
    if odd and rows > 3:
        data[generator.integers(0, rows, 3), generator.integers(0, columns, 3)] = [np.nan, np.inf, -np.inf]
        data[generator.integers(0, rows)] *= 1e300
    return data


def as_singles(data):
    with np.errstate(over="ignore"):
        return data.astype(np.float32)


def diagonal_map(columns, seed=1, grid_bits=GRID_BITS):
    generator = np.random.default_rng(seed)
    scale = generator.uniform(0.1, 2, columns) / math.sqrt(columns)
    return EllipsoidMap(generator.standard_normal(columns), scale, grid_bits=grid_bits)


def matrix_map(height, columns, seed=2, grid_bits=GRID_BITS):
    generator = np.random.default_rng(seed)
    matrix = generator.standard_normal((height, columns)) / columns
    return EllipsoidMap(generator.standard_normal(columns), matrix=matrix, grid_bits=grid_bits)


def sums(row_map, data, threads=1):
    return accumulate(row_map, [data], threads).sums.to_ints()


MAPS = [
    diagonal_map(1), diagonal_map(3), diagonal_map(8), diagonal_map(13), diagonal_map(100),
    matrix_map(1, 1), matrix_map(5, 3), matrix_map(16, 20), matrix_map(37, 301),
]  # fmt: skip
NAMES = [f"{'diagonal' if m.matrix is None else 'matrix'}{m.columns}x{m.width}" for m in MAPS]
every_map = pytest.mark.parametrize("row_map", MAPS, ids=NAMES)


# --- equality with the reference ---------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [1, 2, 7, 8, 9, 15, 16, 17, 31, 100])
def test_diagonal_rows_equal_the_reference(columns):
    row_map = diagonal_map(columns)
    data = random_rows(21, columns, seed=columns)
    wanted = [reference_diagonal(row, row_map.center.tolist(), row_map.scale.tolist(), GRID_BITS) for row in data]
    assert [integer_row(row_map, row) for row in data] == wanted
    assert sums(row_map, data) == [sum(column) for column in zip(*wanted, strict=True)]


@pytest.mark.parametrize(("height", "columns"), [(1, 1), (3, 9), (16, 4), (17, 31), (40, 300)])
def test_matrix_rows_equal_the_reference(height, columns):
    row_map = matrix_map(height, columns)
    data = random_rows(11, columns, seed=columns, odd=False)
    data[3, 0], data[4, -1] = np.nan, np.inf
    matrix = row_map.matrix.tolist()
    wanted = [reference_matrix(row, row_map.center.tolist(), matrix, GRID_BITS) for row in data]
    assert [integer_row(row_map, row) for row in data] == wanted
    assert sums(row_map, data) == [sum(column) for column in zip(*wanted, strict=True)]


def test_far_from_the_origin_the_very_numbers_of_the_norm_are_rounded():
    """x and c agree in all but their last bits: a fused evaluation in one loop only would break the bound."""
    columns = 19
    generator = np.random.default_rng(5)
    center = generator.uniform(1, 2, columns) * 1e15
    row_map = EllipsoidMap(center, generator.uniform(0.3, 3, columns), grid_bits=44)
    data = center + generator.integers(-9, 9, (40, columns)) * 0.125
    for row in data:
        wanted = reference_diagonal(row, center.tolist(), row_map.scale.tolist(), 44)
        found = integer_row(row_map, row)
        assert found == wanted
        assert square_length(found) <= row_map.body.norm**2


any_float = st.floats(allow_nan=True, allow_infinity=True, width=64)
finite = st.floats(allow_nan=False, allow_infinity=False, width=64)


@st.composite
def rows_and_maps(draw):
    columns = draw(st.integers(1, 20))
    entries = st.one_of(any_float, st.floats(-4, 4), st.sampled_from([0.0, 1.0, -1.0, 5e-324, 1.7e308, -1.7e308]))
    row = draw(hnp.arrays(np.float64, columns, elements=entries))
    center = draw(hnp.arrays(np.float64, columns, elements=st.one_of(finite, st.floats(-4, 4))))
    scale = draw(hnp.arrays(np.float64, columns, elements=st.one_of(finite, st.floats(0, 2))))
    return row, center, scale, draw(st.integers(0, 48))


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows_and_maps())
def test_every_row_keeps_to_the_norm_bound_and_the_reference(case):
    row, center, scale, grid_bits = case
    row_map = EllipsoidMap(center, scale, grid_bits=grid_bits)
    found = integer_row(row_map, row)
    assert square_length(found) <= row_map.body.norm**2
    assert found == reference_diagonal(row, center.tolist(), scale.tolist(), grid_bits)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows_and_maps(), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_every_matrix_row_keeps_to_the_norm_bound(case, height, seed):
    row, center, scale, grid_bits = case
    matrix = np.random.default_rng(seed).uniform(-1, 1, (height, row.size)) * scale
    row_map = EllipsoidMap(center, matrix=matrix, grid_bits=grid_bits)
    found = integer_row(row_map, row)
    assert square_length(found) <= row_map.body.norm**2
    assert max(map(abs, found)) < 2 ** (grid_bits + 1)


@pytest.mark.parametrize("columns", [1, 2, 8, 11, 64])
def test_adversarial_rows_keep_to_the_norm_bound(columns):
    generator = np.random.default_rng(columns)
    row_map = EllipsoidMap(np.zeros(columns), np.ones(columns), grid_bits=48)
    for _ in range(60):
        direction = generator.standard_normal(columns)
        direction /= np.linalg.norm(direction)
        for length in (1.0, np.nextafter(1.0, 2), np.nextafter(1.0, 0), 3.0, 1e150, 1e200, 1e-200, 1e-310):
            assert square_length(integer_row(row_map, direction * length)) <= row_map.body.norm**2


# --- the sensitivity -----------------------------------------------------------------------------------------


@every_map
def test_clipped_rows_reach_the_bounds(row_map):
    """Fails if the clip is skipped, and if the norm bound or the diameter is halved."""
    direction = np.random.default_rng(8).standard_normal(row_map.columns)
    there = integer_row(row_map, row_map.center + 1e6 * direction)
    back = integer_row(row_map, row_map.center - 1e6 * direction)
    apart = square_length([a - b for a, b in zip(there, back, strict=True)])
    assert Fraction(99, 100) * row_map.body.norm**2 < square_length(there) <= row_map.body.norm**2
    assert Fraction(99, 100) * row_map.body.diameter**2 < apart <= row_map.body.diameter**2


@every_map
def test_rows_inside_the_ball_are_rounded_and_not_scaled(row_map):
    offset = np.random.default_rng(9).uniform(-0.01, 0.01, row_map.columns)
    row = row_map.center + offset
    factor = row_map.matrix if row_map.scale is None else np.diag(row_map.scale)
    wanted = factor @ (row - row_map.center) * 2.0**GRID_BITS
    # half a unit for rounding; the two products differ by at most columns rounding errors of their terms
    slack = 0.5 + row_map.columns * 2.0 ** (GRID_BITS - 52) * (np.abs(factor) @ np.abs(offset)).max()
    assert np.abs(np.array(integer_row(row_map, row)) - wanted).max() <= slack


def test_the_bound_is_the_stated_one_rounded_up():
    for width in (1, 2, 3, 4, 10**6):
        exact_part = 2**44 * (1 + Fraction(width + 8, 2**52))
        half_root = clipped_norm_bound(width, 44) - exact_part
        assert 4 * half_root**2 >= width
        assert 4 * (half_root - Fraction(1, 2**32)) ** 2 < width
    assert sqrt_upper(0) == 0
    assert sqrt_upper(9) == 3


def test_only_the_rounding_of_many_small_entries_needs_the_square_root():
    """Entries just above half a unit all round up: without the sqrt(d)/2 term the bound would be broken."""
    columns = 4000
    row_map = EllipsoidMap(np.zeros(columns), np.ones(columns), grid_bits=5)
    found = integer_row(row_map, np.full(columns, 1.0))
    assert square_length(found) == columns  # 2^5 / sqrt(4000) = 0.506 rounds to 1
    assert square_length(found) > (2**5 * 1.9) ** 2
    assert square_length(found) <= row_map.body.norm**2


# --- odd entries -----------------------------------------------------------------------------------------------


@every_map
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_an_odd_entry_counts_as_the_center(row_map, odd):
    data = random_rows(30, row_map.columns, seed=3, odd=False)
    for j in {0, row_map.columns // 2, row_map.columns - 1}:
        holed, mended = data.copy(), data.copy()
        holed[5:20, j], mended[5:20, j] = odd, row_map.center[j]
        assert sums(row_map, holed) == sums(row_map, mended)
        assert sums(row_map, holed.astype(np.float32).astype(float)) == sums(row_map, holed.astype(np.float32))


def test_overflowing_rows_are_clipped_along_their_direction():
    row_map = EllipsoidMap([0.0, 0.0, 0.0], [1.0, 2.0, 0.0], grid_bits=30)
    assert integer_row(row_map, [1.2e308, 0.8e308, 1.0]) == integer_row(row_map, [1.2e3, 0.8e3, 1.0])
    assert integer_row(row_map, [-1.7e308, 1.7e308, np.inf]) == integer_row(row_map, [-1e3, 1e3, 0])
    steep = EllipsoidMap([0.0, 0.0], [1e300, 1e-300], grid_bits=30)
    assert integer_row(steep, [1e-140, 1e308]) == [2**30, 0]
    apart = EllipsoidMap([-1.7e308, 1.7e308], [1.0, 1.0], grid_bits=30)  # x - c itself overflows
    assert integer_row(apart, [1.7e308, -1.7e308]) == [round(2**30 / 2**0.5), -round(2**30 / 2**0.5)]


def test_overflowing_rows_of_a_matrix_are_clipped_along_their_direction():
    matrix = np.array([[1.0, 2.0], [0.5, -1.0], [3.0, 0.0]])
    row_map = EllipsoidMap([0.0, 0.0], matrix=matrix, grid_bits=30)
    assert integer_row(row_map, [1.2e308, 0.8e308]) == integer_row(row_map, [1.2e3, 0.8e3])
    assert integer_row(row_map, [1.2e308, np.nan]) == integer_row(row_map, [1.2e3, 0.0])
    scaled = EllipsoidMap([0.0, 0.0], matrix=matrix * 1e307, grid_bits=30)
    assert integer_row(scaled, [12.0, 8.0]) == integer_row(row_map, [1.2e3, 0.8e3])
    steep = EllipsoidMap([0.0, 0.0], matrix=np.diag([1e300, 1e-300]), grid_bits=30)
    assert integer_row(steep, [1e-140, 1e308]) == [2**30, 0]


def test_unused_columns_do_not_touch_the_others():
    """Even where x - c overflows in a column of scale zero, the row is not taken for a long one."""
    center, scale = [-1.7e308, 0.0, 0.0], [0.0, 1.0, 1.0]
    for row_map in (
        EllipsoidMap(center, scale, grid_bits=20),
        EllipsoidMap(center, matrix=np.diag(scale), grid_bits=20),
    ):
        for odd in (0.0, 1.7e308, np.inf, np.nan):
            assert integer_row(row_map, [odd, 0.25, -0.5]) == [0, 2**18, -(2**19)]
            assert integer_row(row_map, [odd, 3e200, -4e200]) == integer_row(row_map, [0.0, 3.0, -4.0])


def test_columns_of_scale_zero_give_zero():
    row_map = EllipsoidMap(np.zeros(9), [0.0] * 8 + [1.0], grid_bits=20)
    for odd in (0.0, 1e308, -np.inf, np.nan, 5.0):
        row = np.full(9, odd)
        row[8] = 0.5
        assert integer_row(row_map, row) == [0] * 8 + [2**19]


@every_map
def test_inputs_are_not_modified(row_map):
    data = random_rows(30, row_map.columns)
    for block in (data, np.asfortranarray(data), as_singles(data)):
        before = block.copy()
        block.flags.writeable = False
        accumulate(row_map, [block], 1)
        np.testing.assert_array_equal(block, before)


# --- the sum is blind to order, blocks, threads and layout ------------------------------------------------------


@every_map
def test_order_and_blocks_make_no_difference(row_map):
    data = random_rows(103, row_map.columns)
    wanted = sums(row_map, data)
    generator = np.random.default_rng(0)
    assert sums(row_map, generator.permutation(data)) == wanted
    for size in (1, 2, 3, 5, 8, 13, 50):
        blocks = [data[i : i + size] for i in range(0, 103, size)]
        assert accumulate(row_map, blocks, 1).sums.to_ints() == wanted
    one_by_one = [integer_row(row_map, row) for row in data]
    assert [sum(column) for column in zip(*one_by_one, strict=True)] == wanted


@every_map
def test_copies_of_a_row_are_the_row_times_their_number(row_map):
    for row in random_rows(7, row_map.columns, seed=4):
        single = integer_row(row_map, row)
        for copies in (7, 8, 24, 33):
            assert sums(row_map, np.tile(row, (copies, 1))) == [copies * v for v in single]


@every_map
def test_a_row_is_the_same_wherever_it_lies(row_map):
    row = random_rows(2, row_map.columns, seed=6)[0]
    single = integer_row(row_map, row)
    for place in range(20):
        block = np.tile(row_map.center, (20, 1))  # the others are zero
        block[place] = row
        assert sums(row_map, block) == single
        block[(place + 1) % 20, 0] = np.nan  # the group's other path
        assert sums(row_map, block) == single


@every_map
def test_memory_layout_makes_no_difference(row_map):
    data = random_rows(61, row_map.columns)
    columns = row_map.columns
    wide = np.full((61, columns + 7), 1e9)
    wide[:, 3 : 3 + columns] = data
    steps = np.full((61, 2 * columns), 1e9)
    steps[:, ::2] = data
    packed = np.zeros(61, [("flag", "i1"), ("row", "f8", (columns,))])
    packed["row"] = data
    layouts = {
        "fortran": np.asfortranarray(data),
        "padded": wide[:, 3 : 3 + columns],
        "strided columns": steps[:, ::2],
        "every other row": np.repeat(data, 2, axis=0)[::2],
        "backwards": np.ascontiguousarray(data[::-1])[::-1],
        "columns backwards": np.ascontiguousarray(data[:, ::-1])[:, ::-1],
        "unaligned": packed["row"],
        "big endian": data.astype(">f8"),
        "long double": data.astype(np.longdouble),
    }
    wanted = sums(row_map, data)
    for name, layout in layouts.items():
        assert sums(row_map, layout) == wanted, name
    repeated = np.broadcast_to(data[0], (19, columns))
    assert sums(row_map, repeated) == [19 * v for v in integer_row(row_map, data[0])]


@every_map
def test_other_number_types_equal_their_cast_to_double(row_map):
    generator = np.random.default_rng(0)
    data = generator.integers(-50, 50, (200, row_map.columns))
    for kind in (np.float32, np.float16, np.int8, np.int64, np.int32):
        assert sums(row_map, data.astype(kind)) == sums(row_map, data.astype(float)), kind
    flags = data > 0
    assert sums(row_map, flags) == sums(row_map, flags.astype(float))
    singles = as_singles(random_rows(200, row_map.columns))
    assert sums(row_map, singles) == sums(row_map, singles.astype(float))


def test_masked_entries_are_missing():
    row_map = diagonal_map(9)
    data = random_rows(20, 9, odd=False)
    mask = np.random.default_rng(0).random(data.shape) < 0.2
    wanted = sums(row_map, np.where(mask, row_map.center, data))
    assert sums(row_map, np.ma.masked_array(data, mask)) == wanted
    whole = np.round(data).astype(int)
    wanted = sums(row_map, np.where(mask, row_map.center, whole))
    assert sums(row_map, np.ma.masked_array(whole, mask)) == wanted


def test_a_mapped_file_is_read_in_place(tmp_path):
    data = as_singles(random_rows(3000, 9))
    data.tofile(tmp_path / "rows")
    mapped = np.memmap(tmp_path / "rows", np.float32, "r", shape=data.shape)
    row_map = diagonal_map(9)
    assert sums(row_map, mapped) == sums(row_map, data)
    assert sums(row_map, mapped, 2) == sums(row_map, data)


@pytest.mark.parametrize("row_map", [diagonal_map(5), diagonal_map(100), matrix_map(7, 30)])
@pytest.mark.parametrize("threads", [2, 3, 7])
def test_thread_count_makes_no_difference(row_map, threads):
    data = random_rows(3_000_000 // row_map.columns, row_map.columns)
    wanted = accumulate(row_map, [data], 1)
    found = accumulate(row_map, [data], threads)
    assert found.sums.equals(wanted.sums)
    assert found.rows == wanted.rows == len(data)
    small_blocks = (data[i : i + 5000] for i in range(0, len(data), 5000))
    assert accumulate(row_map, small_blocks, threads).sums.equals(wanted.sums)


def test_two_calls_at_once():
    row_map = diagonal_map(20)
    data = random_rows(100_000, 20)
    wanted = sums(row_map, data)
    found = []
    callers = [threading.Thread(target=lambda: found.append(sums(row_map, data, 2))) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert found == [wanted] * 4


def _forked(pipe, row_map, data):
    pipe.send(sums(row_map, data, 2))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_after_a_fork():
    row_map = diagonal_map(20)
    data = random_rows(100_000, 20)
    wanted = sums(row_map, data, 2)  # threads have run before the fork
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=_forked, args=(there, row_map, data))
    child.start()
    assert here.poll(60)
    assert here.recv() == wanted
    child.join()


_ELSEWHERE = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from test_accumulate import diagonal_map, matrix_map, random_rows, sums
for row_map in (diagonal_map(100), diagonal_map(5), matrix_map(37, 301)):
    print(sums(row_map, random_rows(103, row_map.columns)))
"""


@pytest.mark.slow
def test_a_plainer_processor_finds_the_same_integers(tmp_path):
    """Compiled for the oldest processor of the kind, without wide vectors or fused operations."""
    here = Path(__file__).parent
    plain = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE, str(here)],
        env={**os.environ, **plain},
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = [
        str(sums(row_map, random_rows(103, row_map.columns)))
        for row_map in (diagonal_map(100), diagonal_map(5), matrix_map(37, 301))
    ]
    assert done.stdout.splitlines() == wanted


# --- long sums ---------------------------------------------------------------------------------------------------


class Frequent(EllipsoidMap):
    """Flushes every few rows."""

    def __init__(self, *args, every, **kwargs):
        super().__init__(*args, **kwargs)
        self.rows_per_flush = every


@pytest.mark.parametrize("every", [1, 3, 8, 1000])
@pytest.mark.parametrize("threads", [1, 2])
def test_flushing_makes_no_difference(every, threads):
    plain = diagonal_map(20)
    data = random_rows(3000 if every < 8 else 20_000, 20)
    often = Frequent(plain.center, plain.scale, grid_bits=GRID_BITS, every=every)
    assert sums(often, data, threads) == sums(plain, data)


def served_by(monkeypatch, add):
    """Every map is run by add(block, total)."""

    class Kernel:
        takes_columns = False

        def __call__(self, block, total):
            add(block, total)

    monkeypatch.setattr(accumulating, "kernel_for", lambda row_map: Kernel())


def test_sums_beyond_64_bits(monkeypatch):
    """Each flush holds nearly 2^62, and the sum passes 2^64 many times over."""

    class Huge(EllipsoidMap):
        kind = "huge"

        def __init__(self):
            super().__init__([0.0], [1.0], grid_bits=0)
            self.rows_per_flush = 1

    def add(block, total):
        total += 2**62 - 1

    served_by(monkeypatch, add)
    found = accumulate(Huge(), [np.zeros((1000, 1))], 1)
    assert found.sums.to_ints() == [1000 * (2**62 - 1)]
    assert found.rows == 1000


def test_rows_per_flush_cannot_overflow():
    for grid_bits in (0, 1, 20, 48):
        for width in (1, 10**6):
            row_map = EllipsoidMap(np.zeros(width), np.ones(width), grid_bits=grid_bits)
            largest = math.floor(clipped_norm_bound(width, grid_bits) - sqrt_upper(width, 32) / 2 + Fraction(1, 2))
            assert row_map.rows_per_flush * largest < 2**63
            assert row_map.rows_per_flush == 2**62 // 2**grid_bits


def test_partials_merge_to_the_whole():
    row_map = diagonal_map(10)
    data = random_rows(50, 10)
    first, second = accumulate(row_map, [data[:20]], 1), accumulate(row_map, [data[20:]], 1)
    whole = accumulate(row_map, [data], 1)
    for merged in (first.merge(second), second.merge(first), Partial.empty(10).merge(whole)):
        assert merged.rows == 50
        assert merged.sums.equals(whole.sums)
    with pytest.raises(UsageError, match="same width"):
        first.merge(Partial(1, Wide.zeros(11)))


# --- shapes, memory, interrupts ------------------------------------------------------------------------------------


def test_no_rows():
    for row_map in (diagonal_map(3), diagonal_map(20), matrix_map(4, 5)):
        for blocks in ([], [np.zeros((0, row_map.columns))], [np.zeros((0, row_map.columns), int)]):
            found = accumulate(row_map, blocks)
            assert found.rows == 0
            assert found.sums.to_ints() == [0] * row_map.width


def test_a_million_columns():
    row_map = diagonal_map(10**6)
    data = random_rows(9, 10**6)
    found = accumulate(row_map, [data]).sums
    one_by_one = Partial.empty(10**6)
    for row in data:
        one_by_one = one_by_one.merge(accumulate(row_map, [row[None, :]], 1))
    assert found.equals(one_by_one.sums)
    single = accumulate(row_map, [data[:1]], 1).sums
    length = sum(int(v) ** 2 for v in single.to_ints())
    assert length <= row_map.body.norm**2


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int32, bool])
@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_stays_small(threads, kind, order):
    """Buffers of a thread: at most 2^16 doubles of copies, the totals and the queue; never the whole array."""
    data = np.zeros((200_000, 40), kind, order=order)
    row_map = diagonal_map(40)
    accumulate(row_map, [data[:50]], threads)
    tracemalloc.start()
    try:
        accumulate(row_map, [data], threads)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < threads * 1.5e6  # the array as doubles: 64 MB


def test_few_blocks_are_in_flight():
    """A source that is read in blocks is never held whole."""
    row_map = diagonal_map(10)
    size, threads = 20_000, 2
    tracemalloc.start()
    try:
        accumulate(row_map, (np.zeros((size, 10)) for _ in range(100)), threads)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < (2 * threads + 4) * size * 80 + 1e6


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interrupted_source_leaves_no_thread_behind(error):
    def blocks():
        for _ in range(5):
            yield np.zeros((20_000, 10))
        if error is KeyboardInterrupt:
            signal.raise_signal(signal.SIGINT)
        raise error

    before = threading.active_count()
    with pytest.raises(error):
        accumulate(diagonal_map(10), blocks(), 3)
    assert threading.active_count() == before


def test_an_error_in_a_worker_is_raised(monkeypatch):
    class Broken(EllipsoidMap):
        kind = "broken"

    def add(block, total):
        raise RuntimeError("broken")

    served_by(monkeypatch, add)
    with pytest.raises(RuntimeError, match="broken"):
        accumulate(Broken([0.0] * 10, [1.0] * 10, grid_bits=3), [np.zeros((400_000, 10))], 2)


def test_wrong_arguments_are_named():
    with pytest.raises(UsageError, match="grid_bits must be <= 48"):
        EllipsoidMap([0.0], [1.0], grid_bits=49)
    with pytest.raises(UsageError, match="exactly one of scale and matrix"):
        EllipsoidMap([0.0], grid_bits=4)
    with pytest.raises(UsageError, match="exactly one of scale and matrix"):
        EllipsoidMap([0.0], [1.0], [[1.0]], grid_bits=4)
    with pytest.raises(UsageError, match="scale must have 1 entries"):
        EllipsoidMap([0.0], [1.0, 1.0], grid_bits=4)
    with pytest.raises(UsageError, match="matrix must have 1 columns"):
        EllipsoidMap([0.0], matrix=[[1.0, 1.0]], grid_bits=4)
    with pytest.raises(UsageError, match="matrix must be finite"):
        EllipsoidMap([0.0], matrix=[[np.nan]], grid_bits=4)
    with pytest.raises(UsageError, match="table of numbers"):
        EllipsoidMap([0.0], matrix=[["a"]], grid_bits=4)
    row_map = EllipsoidMap([0.0], [1.0], grid_bits=4)
    for block in (np.zeros(3), np.zeros((3, 2)), np.zeros((2, 1, 1))):
        with pytest.raises(UsageError, match="with 1 columns"):
            accumulate(row_map, [block])
    for block in ([[1.0]], np.array([["a"]]), np.array([[1j]]), np.array([[None]])):
        with pytest.raises(UsageError, match="real numbers"):
            accumulate(row_map, [block])
    with pytest.raises(UsageError, match="threads must be"):
        accumulate(row_map, [], 0)
    assert count_cores() >= 1


@every_map
def test_maps_survive_pickling(row_map):
    copy = pickle.loads(pickle.dumps(row_map))
    data = random_rows(20, row_map.columns)
    assert sums(copy, data) == sums(row_map, data)
    assert copy.body.norm == row_map.body.norm
    for name in ("scale", "matrix"):
        np.testing.assert_array_equal(getattr(copy, name), getattr(row_map, name))


def test_matrix_is_kept_as_given():
    matrix = np.random.default_rng(0).standard_normal((37, 5))
    row_map = EllipsoidMap(np.zeros(5), matrix=matrix, grid_bits=4)
    np.testing.assert_array_equal(row_map.matrix, matrix)
    assert row_map.width == 37
    assert row_map.scale is None


# --- rows that lie column by column ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("columns", [1, 2, 7, 8, 9, 10, 16, 23, 100, 1024, 1025])
def test_columns_give_the_integers_of_rows(columns, kind):
    rng = np.random.default_rng(columns)
    rows = 64 * 3 + 8 * 2 + 5
    data = rng.normal(size=(rows, columns)).astype(kind)
    data[3, 0], data[70, columns // 2], data[71, -1] = np.nan, np.inf, -np.inf
    data[200, :] = np.finfo(kind).max
    scale = np.abs(rng.normal(size=columns)) * columns**-0.5 * 0.8
    scale[columns // 3] = 0 if columns > 2 else 1
    data[130, columns // 3] = np.inf
    row_map = EllipsoidMap(rng.normal(size=columns), scale, grid_bits=40)
    expected = accumulate(row_map, [data[i : i + 1].copy() for i in range(rows)], threads=1)
    apart = Columns([np.ascontiguousarray(data[:, j]) for j in range(columns)])
    for block in (apart, np.asfortranarray(data)):
        for threads in (1, 2):
            found = accumulate(row_map, [block], threads)
            assert found.rows == rows
            assert found.sums.to_ints() == expected.sums.to_ints()
        pieces = [block[a:b] for a, b in itertools.pairwise((0, 1, 63, 64, 65, 130, rows))]
        assert accumulate(row_map, pieces, 1).sums.to_ints() == expected.sums.to_ints()


def test_columns_under_a_matrix_and_other_maps_equal_rows():
    rng = np.random.default_rng(3)
    data = rng.normal(size=(301, 5))
    apart = Columns(list(np.ascontiguousarray(data.T)))
    row_map = EllipsoidMap(np.zeros(5), matrix=rng.normal(size=(3, 5)), grid_bits=30)
    assert accumulate(row_map, [apart], 1).sums.to_ints() == accumulate(row_map, [data], 1).sums.to_ints()


def test_columns_look_like_a_block():
    data = np.arange(12.0).reshape(4, 3)
    block = Columns(list(np.ascontiguousarray(data.T)))
    assert (block.shape, block.size, block.nbytes, len(block), block.ndim) == ((4, 3), 12, 96, 4, 2)
    assert np.array_equal(np.asarray(block[1:][:2]), data[1:3])
    assert np.array_equal(block[1:][np.array([2, 0])], data[[3, 1]])
    assert len(block[4:]) == 0
    assert np.asarray(block, np.float32).dtype == np.float32
