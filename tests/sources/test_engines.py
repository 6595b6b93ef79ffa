"""Engines: what `EngineSource` makes of any engine that can fold, shown on one that folds lists in this process."""

import itertools
import pickle

import numpy as np
import pyarrow as pa
import pytest
from opening import session_on
from scipy.stats import chi2

import ellipsum as es
from ellipsum.friendly.calls import some_rows
from ellipsum.noise import public_words
from ellipsum.releases.learning_record import METHODS
from ellipsum.sources import open_source
from ellipsum.sources.engine import CountFold, EngineSource, SubsetFold, SumFold, check_version, read_blocks
from ellipsum.sources.selection import Selection
from ellipsum.sources.spark.source import _merged

BUDGET = {"epsilon": 1, "delta": 1e-6}


class Lists(EngineSource):
    """A frame of Arrow tables, one a partition; parts are merged in a random tree and everything is pickled."""

    def __init__(self, parts, columns=None, seed=0):
        self.parts = parts
        self.order = np.random.default_rng(seed)
        schema = parts[0].schema
        super().__init__(schema.names, lambda i: schema.field(i).type, Selection(columns))

    def fold(self, fold, progress=None):
        names = [self.available[i] for i in self.places]
        found = []
        for index, part in enumerate(self.parts):
            there = pickle.loads(pickle.dumps(fold))
            found.append(there.map(index, iter(part.select(names).to_batches(max_chunksize=37))))
        while len(found) > 1:
            self.order.shuffle(found)
            take = int(self.order.integers(1, len(found) + 1))
            found = [*found[take:], fold.merge(iter(found[:take]))]
        return found[0] if found else None


class Blocks(Lists):
    """The same, which also gives results per block, its partitions in any order."""

    def each(self, work, most_rows, progress=None):
        for part in self.order.permutation(len(self.parts)):
            there = pickle.loads(pickle.dumps(work))
            batches = self.parts[part].select(list(self.chosen)).to_batches(max_chunksize=37)
            for block in read_blocks(batches, self.layout):
                for start in range(0, len(block), most_rows):
                    yield work.unpack(there.packed(block[start : start + most_rows]))


def table_of(rows=500, seed=1):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=rows)
    return pa.table(
        {
            "a": pa.array(values, mask=rng.random(rows) < 0.1),
            "b": pa.array(rng.integers(0, 100, rows)),
            "c": pa.array(values > 0),
            "text": pa.array(["x"] * rows),
        }
    )


def cut(table, parts):
    ends = np.linspace(0, table.num_rows, parts + 1).astype(int)
    return [table.slice(a, b - a) for a, b in itertools.pairwise(ends)]


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")  # half of b is clamped, and counted
@pytest.mark.parametrize("parts", [1, 2, 11, 600])
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
def test_any_cut_gives_the_local_release(parts, neighbors):
    table, rows = table_of(), es.Box([-1, 0, 0], [1, 50, 1])
    how = {**BUDGET, "neighbors": neighbors, "n": 500, "columns": ["a", "b", "c"]}
    local = es.mean(table, rows, rng=np.random.default_rng(2), **how)
    remote = es.mean(Lists(cut(table, parts), ["a", "b", "c"]), rows, rng=np.random.default_rng(2), **how)
    assert remote.to_json() == local.to_json()
    assert local.counts.outside_rows > 100


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")  # most of b is clamped
def test_descriptions_travel_as_other_maps_do():
    table, rows = table_of(), es.Box([-9, -9, 0], [9, 9, 9])
    how = {**BUDGET, "columns": ["a", "b", "c"]}
    for more in ({}, {"missing": "drop_row", "covariance": True}):
        local = es.describe(table, rows, rng=np.random.default_rng(2), **how, **more)
        frame = Lists(cut(table, 3), ["a", "b", "c"])
        assert es.describe(frame, rows, rng=np.random.default_rng(2), **how, **more).to_json() == local.to_json()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("method", METHODS)
def test_learning_on_a_frame_is_learning_on_its_rows(method, neighbors):
    """Every round's row map survives the journey (`Lists` pickles it), and the rounds see the same sums."""
    if (method, neighbors) == ("friendly_core", "add_remove"):
        pytest.skip("friendly averages are for replace")
    rng = np.random.default_rng(4)
    data = pa.table({name: rng.normal(3, scale, 2000) for name, scale in zip("abc", (1, 2, 9), strict=True)})
    how = {**BUDGET, "neighbors": neighbors, "n": 2000}
    unknown = es.Unknown(100, method=method)
    here, there = (
        es.learn(source, unknown, rng=np.random.default_rng(2), **how) for source in (data, Lists(cut(data, 5)))
    )
    assert there.to_json() == here.to_json()


def test_people_are_not_served_by_an_engine_that_does_not_gather():
    with pytest.raises(es.UsageError, match="privacy_id is not supported on a frame of this engine"):
        es.mean(Lists(cut(table_of(), 2), ["a", "b"]), es.Ball(9), privacy_id="text", **BUDGET)


def test_sums_beyond_64_bits_survive_the_journey():
    row_map = es.plan("sum", es.Ball(1), n=3, d=2, missing="none", count_clipped=False, **BUDGET).row_map
    fold = SumFold(row_map, None)
    from ellipsum.kernels.accumulate import Partial
    from ellipsum.numerics.wide_integers import Wide

    first = Partial(2**40, Wide.from_ints([2**100 + 1, -(2**100) - 3]))
    other = Partial(1, Wide.from_ints([-5, 2**47 - 1]))
    total = fold.unpack(fold.merge([fold.pack(first), fold.pack(other)]))
    assert total.rows == 2**40 + 1
    assert total.sums.to_ints() == [2**100 - 4, -(2**100) - 3 + 2**47 - 1]
    with pytest.raises(es.DataError, match="width"):
        fold.unpack(bytes(8))


def test_no_part_is_longer_than_it_says():
    table = Lists(cut(table_of(), 4), ["a", "b"])
    row_map = es.plan("sum", es.Ball(1), n=500, d=2, **BUDGET).row_map
    for fold in (SumFold(row_map, table.layout), CountFold(), SubsetFold(table.layout, bytes(32), 60, (1 << 64) - 1)):
        assert len(table.fold(fold)) == fold.part_bytes


def test_local_tables_go_the_local_way():
    data = np.random.default_rng(0).normal(size=(40, 3))
    row_map = es.plan("sum", es.Ball(1), n=40, d=3, **BUDGET).row_map
    local = open_source(data, Selection()).total(row_map)
    remote = open_source(Lists(cut(pa.table(dict(zip("xyz", data.T, strict=True))), 3)), Selection()).total(row_map)
    assert local.rows == remote.rows == 40
    assert local.sums.equals(remote.sums)


def test_columns_follow_the_schema_alone():
    parts = cut(table_of(), 2)
    with pytest.raises(es.UsageError, match="'text' of data is of type string"):
        Lists(parts)
    opened = Lists(parts, ["b", "a"])
    assert opened.columns == ("b", "a")
    assert open_source(opened, Selection(["b", "a"])) is opened
    with pytest.raises(es.UsageError, match="other columns"):
        open_source(opened, Selection(["a"]))
    with pytest.raises(es.UsageError, match="rows themselves"):
        opened.every()


def test_subsets_are_uniform_whatever_the_partitions():
    """100 of 400 rows, 400 times, over partitions of very different sizes: each row equally often."""
    table = pa.table({"x": np.arange(400.0)})
    frame = Lists([table.slice(0, 1), table.slice(1, 0), table.slice(1, 300), table.slice(301)])
    counts, trials, p = np.zeros(400), 400, 100 / 400
    for i in range(trials):
        rows = frame.sample(100, i.to_bytes(32, "little"))[0][:, 0]
        assert len(np.unique(rows)) == 100
        counts[rows.astype(int)] += 1
    # A row's count has variance trials p (1 - p); their sum is fixed, so the scaled square sum has 399 degrees.
    statistic = np.sum((counts - trials * p) ** 2) / (trials * p * (1 - p)) * 399 / 400
    assert chi2.ppf(1e-5, 399) < statistic < chi2.isf(1e-5, 399)
    assert np.array_equal(np.sort(frame.sample(1000, bytes(32))[0][:, 0]), np.arange(400.0))


def test_subsets_do_not_look_at_the_rows():
    """The places that are drawn are the same whatever the cells hold."""
    seed = bytes(range(32))
    places = Lists(cut(pa.table({"x": np.arange(300.0)}), 4)).sample(50, seed)[0][:, 0].astype(int)
    other = np.random.default_rng(3).normal(size=300)
    other[::7] = np.nan
    drawn = Lists(cut(pa.table({"x": other}), 4)).sample(50, seed)[0][:, 0]
    assert np.array_equal(drawn, other[places], equal_nan=True)


def test_a_limit_that_was_too_low_is_lifted():
    frame = Lists(cut(pa.table({"x": np.arange(300.0)}), 4))
    frame._limit = lambda size: 0
    assert len(frame.sample(50, bytes(32))[0]) == 50
    low = SubsetFold(frame.layout, bytes(32), 50, 0)
    assert len(low.rows(frame.fold(low))) == 0


def test_the_order_of_a_frames_rows_is_drawn_anew_even_where_all_are_taken():
    """[T9] Keyed by something fixed, it would be a function of partitions, which one row may change."""
    frame = Lists(cut(pa.table({"x": np.arange(300.0)}), 4))
    drawn = [some_rows(session_on(frame), None).read()[:, 0] for _ in range(2)]
    assert not np.array_equal(*drawn)
    for rows in drawn:
        assert np.array_equal(np.sort(rows), np.arange(300.0))
        assert (np.diff(rows) < 0).any()


def test_friendly_means_of_frames_use_a_subset_and_say_so():
    rng = np.random.default_rng(5)
    data = pa.table({name: rng.normal(size=3000) + 100 for name in "ab"})
    frame = Lists(cut(data, 5))
    whole = es.friendly_mean(frame, 8.0, max_rows=3000, rng=np.random.default_rng(1), epsilon=2, delta=1e-6)
    local = es.friendly_mean(data, 8.0, max_rows=3000, rng=np.random.default_rng(1), epsilon=2, delta=1e-6)
    assert np.array_equal(whole.value, local.value)
    some = es.friendly_mean(frame, 8.0, max_rows=1500, epsilon=2, delta=1e-6)
    assert some.plan.describe().endswith("(a random subset of 1,500 of 3,000 rows)")


def test_projections_of_frames_are_made_there_and_written_here(tmp_path):
    table, known = table_of(), es.Box([-1, 0, 0], [1, 50, 1])
    how = {"epsilon": 1e12, "delta": 1e-6, "columns": ["a", "b", "c"], "matrix": np.eye(3)}
    frame = Blocks(cut(table, 6), ["a", "b", "c"])
    with pytest.raises(es.UsageError, match="Missing argument output"):
        es.project(frame, 3, known, **how)
    with pytest.raises(es.UsageError, match="rows themselves"):
        es.project(Lists(cut(table, 6), ["a", "b", "c"]), 3, known, output=tmp_path / "f.parquet", **how)
    there = es.project(frame, 3, known, output=tmp_path / "f.parquet", **how)
    here = es.project(table, 3, known, **how)
    assert there.n == here.n == 500
    assert here.ordered
    assert not there.ordered
    for j in range(3):  # the noise is far smaller than the steps of b, and than the spread of a
        assert np.abs(np.sort(there.value[:, j]) - np.sort(here.value[:, j])).max() < 12 * here.noise_std < 0.01


def test_parts_that_come_twice_are_refused():
    fold = SumFold(es.plan("sum", es.Ball(5), n=3, d=1, missing="none", count_clipped=False, **BUDGET).row_map, None)
    part = bytes(24)
    assert _merged(fold, [(0, b"", part), (9, b"", part), (0, b"\x02", part)])[0] == b"\x03\x02"
    assert _merged(fold, []) is None
    for again in ((2, b""), (0, b"\x04")):
        with pytest.raises(es.DataError, match="twice"):
            _merged(fold, [(0, b"\x05", part), (1, b"", part), (*again, part)])


def test_another_version_is_refused():
    check_version(es.__version__)
    with pytest.raises(es.DataError, match="Install the same"):
        check_version("0.0.0")


def test_public_words_are_a_function_of_seed_and_place():
    words = public_words(bytes(32), 5, 7)
    assert np.array_equal(words[3:], public_words(bytes(32), 8, 4))
    assert not np.array_equal(words, public_words(bytes([1] * 32), 5, 7))
