"""The sums of groups: those of each group's rows by themselves, whatever the layout, the order and the threads."""

import numpy as np
import pyarrow as pa
import pytest

from ellipsum.kernels.accumulate import accumulate
from ellipsum.kernels.blocks import Columns
from ellipsum.kernels.grouped import GroupedKernel, grouped_kernel
from ellipsum.row_maps.auxiliary_counts import AuxiliaryCounts
from ellipsum.row_maps.histograms import ColumnHistograms, SideBySide
from ellipsum.row_maps.maps import ClampedMap, EllipsoidMap, Prepared
from ellipsum.sources import open_source
from ellipsum.sources.group_codes import KeyTable
from ellipsum.sources.group_sums import GroupAdder
from ellipsum.sources.selection import Selection

BITS = 20


def rows(seed=0, n=400, d=5):
    rng = np.random.default_rng(seed)
    data = rng.normal(0, 1, (n, d))
    data[rng.random((n, d)) < 0.1] = np.nan
    data[3, 1], data[7, 2], data[9] = np.inf, 1e300, np.nan
    return data


def clamped(auxiliary):
    half = [2.0**BITS] * 5
    return ClampedMap([0.1] * 5, half, [1 << BITS] * 5, ([-0.9] * 5, [1.1] * 5), grid_bits=BITS, auxiliary=auxiliary)


def ellipsoid(auxiliary):
    return EllipsoidMap([0.1] * 5, scale=[0.3, 0.4, 0.5, 0.0, 0.6], grid_bits=BITS, auxiliary=auxiliary)


def matrix(auxiliary):
    turn = np.linalg.qr(np.random.default_rng(5).normal(size=(5, 5)))[0]
    return EllipsoidMap([0.1] * 5, matrix=turn * 0.5, grid_bits=BITS, auxiliary=auxiliary)


SHARES = np.full(5, 1 / 32)
SQUARES = ((1 << BITS) - 2, 1000, 0, 1 << BITS, 77)
MAPS = {
    "clamped column": clamped(AuxiliaryCounts("column", None, (700, 800, 0, 900, 1000))),
    "clamped row": clamped(AuxiliaryCounts("row", None, (0,))),
    "clamped center": clamped(AuxiliaryCounts("center")),
    "clamped fill": clamped(AuxiliaryCounts("fill", np.full(5, 0.25))),
    "squares column": clamped(AuxiliaryCounts("column", None, (700, 800, 0, 900, 1000), squares=SQUARES)),
    "squares row": clamped(AuxiliaryCounts("row", None, (0,), squares=SQUARES)),
    "squares center": clamped(AuxiliaryCounts("center", squares=SQUARES)),
    "squares fill": clamped(AuxiliaryCounts("fill", np.full(5, 0.25), squares=SQUARES)),
    "ellipsoid column": ellipsoid(AuxiliaryCounts("column", None, (700, 800, 0, 900, 1000), SHARES)),
    "ellipsoid row": ellipsoid(AuxiliaryCounts("row", None, (0,))),
    "ellipsoid center": ellipsoid(AuxiliaryCounts("center")),
    "matrix column": matrix(AuxiliaryCounts("column", None, (700, 800, 0, 900, 1000), SHARES)),
    "matrix row": matrix(AuxiliaryCounts("row", None, (0,))),
}
BINS = ColumnHistograms(5, range(5), [np.linspace(-1, 1, 4 + j) for j in range(5)])
MAPS["side by side"] = SideBySide([MAPS["squares column"], BINS])
MAPS["side by side row"] = SideBySide([MAPS["squares row"], Prepared(BINS, np.nan, drops=True)])


def one_by_one(row_map, data, codes, groups):
    """Each group's sums and counts by the map's own kernel; rows that are left out count nowhere."""
    sums = [accumulate(row_map, [data[codes == g]], 1).sums.to_ints() for g in range(groups)]
    kept = codes >= 0
    auxiliary = getattr(row_map, "parts", [row_map])[0].auxiliary
    if auxiliary.missing == "row":
        kept = kept & np.isfinite(data).all(axis=1)
    return np.array(sums), np.bincount(codes[kept], minlength=groups)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("layout", ["rows", "columns", "singles", "transposed"])
def test_groups_have_the_sums_of_their_rows(name, layout):
    row_map, data = MAPS[name], rows()
    codes = np.random.default_rng(1).integers(-1, 7, len(data))
    block = data
    if layout == "columns":
        block = Columns([np.ascontiguousarray(column) for column in data.T])
    elif layout == "singles":
        with np.errstate(over="ignore"):
            block = data.astype(np.float32)
        data = block
    elif layout == "transposed":
        block = np.asfortranarray(data)
    low, high = np.zeros((7, row_map.width), np.int64), np.zeros((7, row_map.width), np.int64)
    counts = np.zeros(7, np.int64)
    grouped_kernel(row_map)(block, codes, low, high, counts)
    wanted, kept = one_by_one(row_map, data, codes, 7)
    assert (low + (high << 48) == wanted).all()
    assert (counts == kept).all()


def test_sums_are_carried_before_they_overflow():
    row_map = MAPS["clamped center"]
    kernel = GroupedKernel(row_map)
    kernel._often = 3  # every fourth row of a group
    data, codes = rows(n=1000), np.random.default_rng(2).integers(0, 3, 1000)
    low, high = np.zeros((3, 5), np.int64), np.zeros((3, 5), np.int64)
    low += (1 << 60) + 5
    kernel(data, codes, low, high, np.zeros(3, np.int64))
    wanted, _ = one_by_one(row_map, data, codes, 3)
    exact = high.astype(object) * (1 << 48) + low.astype(object)
    assert (exact == wanted.astype(object) + (1 << 60) + 5).all()
    assert (np.abs(low) < 1 << 52).all()


def test_threads_and_order_change_nothing():
    rng = np.random.default_rng(3)
    n = 300_000
    table = pa.table({"a": rng.random(n), "b": rng.random(n), "g": rng.integers(0, 5000, n)})
    table = table.append_column("t", pa.array([f"k{g % 97}" for g in table["g"].to_pylist()]))
    row_map = ClampedMap([0.5] * 2, [2.0**40] * 2, [1 << 39] * 2, ([0] * 2, [1] * 2), grid_bits=40)
    found = []
    for data, threads in ((table, 1), (table, 3), (table.take(rng.permutation(n)), 2)):
        source = open_source(data, Selection(["a", "b"], by=("t", "g")))
        sums = source.total_by(row_map, None, threads)
        order = np.lexsort([np.array(cells.to_pylist()) for cells in sums.labels])
        picked = sums.chosen(order)
        found.append([[cells.to_pylist() for cells in picked.labels], picked.rows.tolist(), picked.sums.to_float()])
    for other in found[1:]:
        assert other[:2] == found[0][:2]
        assert (other[2] == found[0][2]).all()
    assert sum(found[0][1]) == n


def test_merging_adds_what_was_carried():
    row_map = MAPS["clamped center"]
    adders = [GroupAdder(GroupedKernel(row_map), row_map.width, KeyTable(("integer",))) for _ in range(2)]
    data = rows(n=600)
    keys = np.random.default_rng(4).integers(0, 50, 600)
    for adder, part in ((adders[0], slice(0, 300)), (adders[1], slice(300, 600))):
        adder.add([pa.array(keys[part])], data[part])
        adder.high[:10] += 7
    adders[0].take(adders[1].sums())
    sums = adders[0].sums()
    assert sums.rows.sum() == 600
    wanted, _ = one_by_one(row_map, data, keys, 50)
    labels = np.array(sums.labels[0].to_pylist())
    extra = sums.sums.high - (wanted[labels] - sums.sums.low >> 48)
    assert ((sums.sums.low - wanted[labels]) % (1 << 48) == 0).all()
    assert extra.min() >= 0
    assert extra.sum() == 2 * 10 * 7 * 5


@pytest.mark.parametrize("kinds", [("integer",), ("text",), ("text", "integer"), ("integer", "text", "real")])
def test_numbers_of_keys_are_found_again(kinds):
    rng = np.random.default_rng(6)
    cells = {
        "integer": pa.array(rng.integers(-3, 3, 500), mask=rng.random(500) < 0.1),
        "text": pa.array(
            [None if i == 0 else b"\x00" * i for i in rng.integers(0, 5, 500).tolist()], pa.large_binary()
        ),
        "real": pa.array(rng.choice([0.5, -1e300, 5e-324], 500)),
    }
    labels = [cells[kind] for kind in kinds]
    keys = KeyTable(kinds)
    codes = np.concatenate(
        [keys.codes([column.slice(start, 125) for column in labels]) for start in range(0, 500, 125)]
    )
    given = list(zip(*[column.to_pylist() for column in labels], strict=True))
    known = list(zip(*[column.to_pylist() for column in keys.labels()], strict=True))
    assert len(set(known)) == len(known) == keys.size
    for code, key in zip(codes.tolist(), given, strict=True):
        assert code == -1 if None in key else known[code] == key


def test_listed_keys_are_all_there_are():
    cells = pa.array([b"b", b"a", None], pa.large_binary())
    keys = KeyTable(("text",))
    assert keys.enter([cells]).tolist() == [0, 1, 2]
    assert keys.codes([pa.array([b"a", None, b"c", b"", b"b"], pa.large_binary())]).tolist() == [1, 2, -1, -1, 0]
    assert keys.labels()[0].to_pylist() == [b"b", b"a", None]
    pair = KeyTable(("integer", "text"))
    assert pair.enter([pa.array([0, None]), cells.slice(1)]).tolist() == [0, 1]
    found = pair.codes([pa.array([0, 0, None, None]), pa.array([b"a", None, b"a", None], pa.large_binary())])
    assert found.tolist() == [0, -1, -1, 1]


def test_many_texts_are_told_apart():
    keys = KeyTable(("text",))
    texts = [f"key {i}".encode() for i in range(20_000)]
    codes = keys.codes([pa.array(texts, pa.large_binary())])
    assert codes.tolist() == list(range(20_000))
    assert keys.codes([pa.array(texts[::-1], pa.large_binary())]).tolist() == list(range(20_000))[::-1]
