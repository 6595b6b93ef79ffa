"""Row maps of the learning rounds: pure functions of the row, within their bounds, equal to plain Python."""

import math
from fractions import Fraction

import numpy as np
import pytest

from ellipsum.errors import UsageError
from ellipsum.kernels.accumulate import accumulate
from ellipsum.kernels.table import kernel_for
from ellipsum.learning.maps import (
    AbsoluteSum,
    CoordinateHistogram,
    Count,
    NormHistogram,
    OuterSum,
    ShellSum,
)
from ellipsum.regions.ellipsoid import Ellipsoid

D = 5
EDGES = np.array([0.1, 0.3, 0.5, 1.0, 2.0])
AXES = np.linalg.qr(np.random.default_rng(1).normal(size=(D, D)))[0]
SCALE = np.array([0.5, 0.1, 0.2, 0.3, 0.4])
DIAGONAL = Ellipsoid(np.linspace(-1, 1, D), SCALE)
TURNED = Ellipsoid(np.linspace(-1, 1, D), SCALE, AXES)
BITS = 30


def maps(ellipsoid):
    return {
        "count": Count(D),
        "norms": NormHistogram([(ellipsoid, EDGES)]),
        "three norms": NormHistogram([(ellipsoid, EDGES), (DIAGONAL, EDGES[:2]), (TURNED, EDGES * 3)]),
        "weighted norms": NormHistogram([(ellipsoid, EDGES), (ellipsoid, EDGES[2:3])], (3, 2)),
        "coordinates": CoordinateHistogram(np.add.outer(np.arange(D), EDGES)),
        "distances": CoordinateHistogram(np.add.outer(np.arange(D), EDGES), folded=True),
        "absolutes": AbsoluteSum(ellipsoid, BITS),
        "shell": ShellSum(ellipsoid, 0.5, 1.5, BITS),
        "products": OuterSum(ellipsoid),
    }


NAMES = list(maps(DIAGONAL))


def rows(n=300, seed=0):
    x = np.random.default_rng(seed).standard_t(2, (n, D))
    x[3, 1], x[4, 2], x[5, 0] = np.nan, np.inf, -np.inf
    x[6], x[7, 0], x[8] = 1e308, -1.7e308, np.nan
    x[9], x[10] = DIAGONAL.center, 1e-310
    return x


def integers(row_map, x):
    total = np.zeros(row_map.width, np.int64)
    kernel_for(row_map)(x, total)
    return total


# --- a reference in plain Python, row by row ------------------------------------------------------------


def plain_row(ellipsoid, x):
    """y = B (x - c), by the order of operations that the proofs state."""
    offsets = [float(v) - float(c) if math.isfinite(v) else 0.0 for v, c in zip(x, ellipsoid.center, strict=True)]
    if ellipsoid.axes is None:
        return [o * float(b) for o, b in zip(offsets, ellipsoid.scale, strict=True)]
    matrix = ellipsoid.matrix
    y = [0.0] * len(matrix)
    for j, o in enumerate(offsets):
        for i in range(len(y)):
            y[i] += float(matrix[i, j]) * o
    return y


def plain_norm(y):
    total = 0.0
    for v in y:
        total += v * v
    return math.sqrt(total)


def plain_integers(name, ellipsoid, x):
    y = plain_row(ellipsoid, x)
    r, grid = plain_norm(y), 2.0**BITS
    if name == "norms":
        place = sum(e < r for e in EDGES)
        return [int(i == place) for i in range(len(EDGES) + 1)]
    if name == "absolutes":
        factor = grid / r if r * r > 1 else grid
        return [round(abs(v) * factor) for v in y]
    if name == "shell":
        factor = (min(r, 1.5) - 0.5) * (grid / (1.5 - 0.5)) / r if r > 0.5 else 0.0
        return [round(v * factor) for v in y]
    factor = 2.0**20 / r if r * r > 1 else 2.0**20
    q = [round(v * factor) for v in y]
    return [(5 if i == j else 7) * q[i] * q[j] for i in range(D) for j in range(i, D)]


@pytest.mark.parametrize("ellipsoid", [DIAGONAL, TURNED], ids=["diagonal", "turned"])
@pytest.mark.parametrize("name", ["norms", "absolutes", "shell", "products"])
def test_maps_equal_plain_python_to_the_last_bit(name, ellipsoid):
    x = rows()
    ordinary = np.delete(x, [6, 7], axis=0)  # these overflow, and are checked below
    row_map = maps(ellipsoid)[name]
    for row in ordinary:
        assert integers(row_map, row[None]).tolist() == plain_integers(name, ellipsoid, row.tolist())


@pytest.mark.parametrize("some", [[0], [4], [1, 3], [0, 1, 2, 3, 4]])
@pytest.mark.parametrize("ellipsoid", [DIAGONAL, TURNED], ids=["diagonal", "turned"])
def test_bins_that_are_added_up_are_those_of_norms_worked_out_anew(ellipsoid, some):
    """The same object has the same norms; an equal one, or edges that the first does not have, are worked out."""
    x, again = rows(), Ellipsoid(ellipsoid.center, ellipsoid.scale, ellipsoid.axes)
    added, anew = (NormHistogram([(ellipsoid, EDGES), (other, EDGES[some])], (3, 2)) for other in (ellipsoid, again))
    assert (added.finer, anew.finer) == ([None, 0], [None, None])
    assert np.array_equal(integers(added, x), integers(anew, x))
    assert NormHistogram([(ellipsoid, EDGES), (ellipsoid, [0.7])]).finer == [None, None]
    for counts in added.split(integers(added, x)):
        assert counts.sum() == len(x)


@pytest.mark.parametrize("name", ["coordinates", "distances"])
def test_coordinates_equal_plain_python(name):
    x = rows()
    row_map = maps(DIAGONAL)[name]
    found = row_map.table(integers(row_map, x))
    for j in range(D):
        there = x[np.isfinite(x[:, j]), j]
        there = abs(there) if name == "distances" else there
        assert len(there) < len(x)
        assert found[j].tolist() == np.bincount(np.searchsorted(EDGES + j, there), minlength=6).tolist()


@pytest.mark.parametrize("ellipsoid", [DIAGONAL, TURNED], ids=["diagonal", "turned"])
def test_rows_beyond_the_number_range_are_clipped_along_their_direction(ellipsoid):
    x = np.array([[1e308, -1e308, 1e308, 1.7e308, -1.7e308]])
    direction = np.array(plain_row(ellipsoid, (x[0] * 1e-200).tolist())) / 1e100
    direction /= np.linalg.norm(direction)
    assert integers(AbsoluteSum(ellipsoid, BITS), x) / 2.0**BITS == pytest.approx(abs(direction), abs=1e-8)
    assert integers(ShellSum(ellipsoid, 0.5, 1.5, BITS), x) / 2.0**BITS == pytest.approx(direction, abs=1e-8)
    assert integers(NormHistogram([(ellipsoid, EDGES)]), x)[-1] == 1
    products = OuterSum(ellipsoid)
    outer = products.matrix(integers(products, x) / 2.0**products.grid_bits)
    assert outer == pytest.approx(np.outer(direction, direction), abs=2.0**-20)  # two factors, each off by 2^-21


@pytest.mark.parametrize("ellipsoid", [DIAGONAL, TURNED], ids=["diagonal", "turned"])
@pytest.mark.parametrize("name", NAMES)
def test_sums_depend_on_the_multiset_of_rows_alone(name, ellipsoid):
    """Order, position, blocks, layout, threads and dtype of the copy do not matter."""
    x, row_map = rows(), maps(ellipsoid)[name]
    wanted = integers(row_map, x)
    each = sum(integers(row_map, row[None]) for row in x)
    assert np.array_equal(each, wanted)
    padded = np.full((600, 2 * D + 1), 7.0)
    padded[::2, 1::2] = x
    fixed = x.copy()
    fixed.flags.writeable = False
    for other in (x[::-1], np.asfortranarray(x), padded[::2, 1::2], fixed):
        assert np.array_equal(integers(row_map, other), wanted)
    for size in (1, 7, 64):
        blocks = [x[i : i + size] for i in range(0, len(x), size)]
        assert accumulate(row_map, blocks, threads=2).sums.to_ints() == wanted.tolist()
    single = np.random.default_rng(2).normal(size=(50, D)).astype(np.float32)
    assert np.array_equal(integers(row_map, single), integers(row_map, single.astype(np.float64)))


def squared(vector):
    return sum(int(v) ** 2 for v in vector)


def adversaries():
    g = np.random.default_rng(5)
    far = g.normal(size=(200, D)) * 10.0 ** g.uniform(-3, 12, (200, 1))
    axes = np.concatenate([np.eye(D), -np.eye(D), AXES.T, -AXES.T])
    near = np.concatenate([axes / b for b in (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)])
    return np.concatenate([rows(), far, near + DIAGONAL.center, 1e9 * axes])


@pytest.mark.parametrize("ellipsoid", [DIAGONAL, TURNED], ids=["diagonal", "turned"])
@pytest.mark.parametrize("name", NAMES)
def test_no_row_exceeds_the_bounds_and_some_nearly_attain_them(name, ellipsoid):
    """In exact arithmetic; a bound a tenth too small would fail, one a tenth too large would show."""
    row_map = maps(ellipsoid)[name]
    found = [integers(row_map, row[None]).tolist() for row in adversaries()]
    longest = max(squared(q) for q in found)
    assert longest <= row_map.body.norm**2
    assert longest >= Fraction(99, 100) ** 2 * row_map.body.norm**2
    distinct = [list(q) for q in {tuple(q) for q in found}]
    array = np.array(distinct, dtype=object)
    widest = max(squared(p) for i in range(len(array)) for p in array[i + 1 :] - array[i]) if len(array) > 1 else 0
    assert widest <= row_map.body.diameter**2
    if name not in ("count", "signed", "three norms"):
        assert widest >= Fraction(99, 100) ** 2 * row_map.body.diameter**2


def test_products_of_many_rows_at_the_bound_are_exact():
    """More rows than one square of doubles holds, all alike and of the largest products there are."""
    for x in (np.tile([1e6, 0.0, 0.0, 0.0, 0.0], (9_001, 1)), np.tile([1e6, -1e6, 0.0, 0.0, 0.0], (9_001, 1))):
        row_map = OuterSum(Ellipsoid(np.zeros(D), np.ones(D)))
        assert integers(row_map, x).tolist() == (9_001 * integers(row_map, x[:1])).tolist()


def test_matrix_undoes_the_triangle():
    x = np.random.default_rng(3).normal(size=(40, D))
    row_map = OuterSum(DIAGONAL)
    found = row_map.matrix(integers(row_map, x) / 2.0**40)
    y = (x - DIAGONAL.center) * DIAGONAL.scale
    z = y / np.maximum(1, np.linalg.norm(y, axis=1))[:, None]
    assert found == pytest.approx(z.T @ z, abs=40 * 2.0**-20)


@pytest.mark.parametrize(
    "make",
    [
        lambda: NormHistogram([(DIAGONAL, [1.0, 1.0])]),
        lambda: NormHistogram([(DIAGONAL, [1.0, 2.0**191])]),
        lambda: NormHistogram([(DIAGONAL, [1.0])], (0,)),
        lambda: NormHistogram([(DIAGONAL, [1.0])], (1, 1)),
        lambda: NormHistogram([(DIAGONAL, [2.0**-191, 1.0])]),
        lambda: ShellSum(DIAGONAL, 1.0, 1.0),
        lambda: ShellSum(DIAGONAL, 0.0, 1.0),
        lambda: CoordinateHistogram([[2.0, 1.0]]),
        lambda: AbsoluteSum(Ellipsoid(DIAGONAL.center, np.full(D, np.inf))),
    ],
)
def test_impossible_maps_are_refused(make):
    with pytest.raises(UsageError):
        make()
