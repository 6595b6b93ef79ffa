"""Groups on an engine: any cut into partitions gives the local release, to the last bit."""

import itertools
import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import ellipsum as es
from ellipsum.api import make_plan
from ellipsum.privacy.budget import Budget
from ellipsum.request.bins import Bins
from ellipsum.request.groups import Groups
from ellipsum.request.request import Request
from ellipsum.sources import open_source
from ellipsum.sources.engine import EngineSource
from ellipsum.sources.selection import Selection

BUDGET = {"epsilon": 1, "delta": 1e-6}
ROWS = es.Box({"a": (0, 1), "b": (-5, 5)})


class Lists(EngineSource):
    """A frame of Arrow tables, one a partition; parts are merged in a random tree and everything is pickled."""

    def __init__(self, parts, by, seed=0, selection=Selection(["a", "b"])):  # noqa: B008 (it is frozen)
        self.parts = parts
        self.order = np.random.default_rng(seed)
        schema = parts[0].schema
        super().__init__(schema.names, lambda i: schema.field(i).type, replace(selection, by=by))

    def fold(self, fold, progress=None):
        names = [self.available[i] for i in (*self.places, *self.by_places)]
        found = []
        for index, part in enumerate(self.parts):
            there = pickle.loads(pickle.dumps(fold))
            found.append(there.map(index, iter(part.select(names).to_batches(max_chunksize=37))))
        while len(found) > 1:
            self.order.shuffle(found)
            take = int(self.order.integers(1, len(found) + 1))
            found = [*found[take:], fold.merge(iter(found[:take]))]
        return found[0] if found else None


def table_of(n=900):
    rng = np.random.default_rng(1)
    a = rng.random(n)
    a[::7] = np.nan
    cities = rng.choice(["Oslo", "Tromsø", "日本", None], n)
    return pa.table({"a": a, "b": rng.normal(0, 3, n), "city": pa.array(cities), "year": rng.integers(2020, 2022, n)})


@pytest.mark.parametrize("parts", [1, 5])
@pytest.mark.parametrize("keys", [None, {"city": ["Oslo", None], "year": [2020, 1999]}])
def test_any_cut_gives_the_local_release(parts, keys):
    table = table_of()
    by = ("city", "year")
    cuts = np.linspace(0, len(table), parts + 1).astype(int)
    frame = Lists([table.slice(a, b - a) for a, b in itertools.pairwise(cuts)], by)
    words = {"by": es.Groups(list(by), keys=keys), "columns": ["a", "b"], "noise": "gaussian", **BUDGET}
    here = es.sum(table, ROWS, rng=np.random.default_rng(2), **words)
    there = es.sum(frame, ROWS, rng=np.random.default_rng(2), **words)
    assert there == here
    assert len(here.keys) == (6 if keys is None else 4)


def test_sums_that_were_carried_survive_the_journey():
    from ellipsum.numerics.wide_integers import Wide
    from ellipsum.sources.engine import _pack_groups, _unpack_groups
    from ellipsum.sources.group_sums import GroupSums

    high, low = np.array([[1 << 50, -3]]), np.array([[5, (1 << 48) - 1]])
    sums = GroupSums([pa.array([7])], ("integer",), np.array([3]), Wide(high, low))
    back = _unpack_groups(_pack_groups(sums), ("integer",), 2)
    assert (back.sums.high == high).all()
    assert (back.sums.low == low).all()
    assert back.rows.tolist() == [3]


def test_what_an_engine_does_not_serve_is_refused_in_words():
    table = table_of().append_column("who", pa.array(np.arange(900) % 50))
    frame = Lists([table], ("city",))
    with pytest.raises(es.UsageError, match="privacy_id"):
        frame.grouped(None, 1, None)
    with pytest.raises(es.UsageError, match="opened with other columns"):
        open_source(frame, Selection(["a", "b"], by=("year",)))
    with pytest.raises(es.UsageError, match="no public order"):
        es.sum(frame, ROWS, by=np.arange(900), **BUDGET)


@pytest.mark.parametrize("parts", [1, 5])
@pytest.mark.parametrize("groups", [None, Groups("city", ["Oslo", None])])
@pytest.mark.parametrize("statistic", ["count", "histogram"])
def test_counts_of_any_cut_are_the_local_ones(statistic, groups, parts):
    """Text columns too: cells are coded where the partitions are."""
    table, bins = table_of(), Bins({"a": [0, 0.5, 1]}, {"year": [2020, 1999]})
    bounds = bins if statistic == "histogram" else None
    request = Request(statistic, bounds, Budget(**BUDGET).as_typed(), "add_remove", 900, groups=groups)
    plan = make_plan(request.sized(900, None if bounds else 1))
    cuts = np.linspace(0, len(table), parts + 1).astype(int)
    selection = Selection.of_request(request)
    by = () if groups is None else groups.by
    frame = Lists([table.slice(a, b - a) for a, b in itertools.pairwise(cuts)], by, selection=selection)
    assert plan.release(frame, np.random.default_rng(2)) == plan.release(table, np.random.default_rng(2))
