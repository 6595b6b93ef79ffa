"""Few rows far beyond the others: counted while it seems worthwhile, reached for where found, told in doubt."""

import json
import math
import warnings
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import ellipsum as es
from ellipsum.learning.far import Far, Places, Tally, beyond
from ellipsum.learning.measure import Bins, Measure
from ellipsum.learning.rounds import Rounds
from ellipsum.learning.state import Shape, State
from ellipsum.releases.clipping_bias import perhaps_far
from ellipsum.rows import NormLaw
from ellipsum.session import Reading, Session
from ellipsum.sources import Selection, open_source

MU = es.Budget(mu=1.0)
N, D, MAGNITUDE = 1000, 10, 1e4


def rng(seed=0):
    return np.random.default_rng(seed)


def rows(far, away=MAGNITUDE):
    x = 10 + rng(1).normal(size=(N, D))
    x[:far] = away
    return x


def released(x, seed, **words):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", es.AccuracyWarning)
        return es.mean(x, **{"rows": es.Unknown(MAGNITUDE), "budget": MU, **words}, rng=rng(seed), threads=1)


def names(release):
    return [step["name"] for step in release.learned["rounds"]]


def looks(release):
    return [name for name in names(release) if name.startswith("far")]


def error(release, x):
    return float(np.linalg.norm(release.value - x.mean(axis=0)))


# --- counts again, without a pass [L12] -----------------------------------------------------------------


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_counts_of_the_latest_pass_are_those_that_another_pass_would_give(relation):
    """With next to no noise both are the exact counts, and no row is read for the second."""
    x = rng(3).normal(size=(2000, 3))
    session = Session(open_source(x, Selection()), None, Reading(rng(4), threads=1))
    rounds = Rounds(session, es.Budget(mu=1e5), relation, 2000)
    measure = Measure(rounds, 100.0)
    state = State(np.zeros(3), np.zeros(3), Shape(np.full(3, 0.01)), NormLaw(np.zeros(1), np.ones(1)))
    edges = [np.array([0.5, 1.0, 1.5]), np.array([0.25, 0.5, 1.0, 2.0])]
    measure.norms(state.center, [(state.shape, each) for each in edges], 0.01, [16, 16])
    latest = Bins(edges[1], edges[0].size + 1, 16)
    asked, weights = [edges[1][1:2], edges[1][1:]], [2, 3]
    direct, _ = measure.norms(state.center, [(state.shape, each) for each in asked], 0.01, weights)
    measure.norms(state.center, [(state.shape, each) for each in edges], 0.01, [16, 16])
    rounds.session.total = None  # whoever reads now fails
    spent = rounds.spent
    again, std = measure.norms_again(state, asked, latest, 0.01, weights, "far norms")
    assert rounds.spent - spent == Fraction(0.01)
    assert std == pytest.approx(math.sqrt(26 if relation == "replace" else 13) / (1e5 * 0.1), rel=1e-6)
    norms = np.linalg.norm(x * state.shape.b / measure.units, axis=1)
    for found, other, each in zip(again, direct, asked, strict=True):
        exact = np.bincount(np.searchsorted(each, norms), minlength=each.size + 1)
        assert exact.min() > 0
        assert np.allclose(found, exact, atol=0.01)
        assert np.allclose(other, exact, atol=0.01)
    assert rounds.history[-1].name == "far norms"


# --- what is made of counts -----------------------------------------------------------------------------


def test_the_number_beyond_an_edge_takes_both_counts_where_n_is_public():
    """(above - below + n) / 2 has half the variance of a count; more bins beyond the edge add little."""
    assert beyond(np.array([90.0, 14.0]), 3.0, 100.0) == Tally(12.0, 4.5)
    assert beyond(np.array([90.0, 14.0]), 3.0, None) == Tally(14.0, 9.0)
    assert beyond(np.array([90.0, 7.0, 7.0]), 3.0, 100.0).variance == pytest.approx(9 * 2 / 3)


def test_counts_are_joined_by_their_variances():
    joined = Tally(10.0, 4.0).joined(Tally(20.0, 12.0))
    assert joined.rows == pytest.approx(12.5)
    assert joined.variance == pytest.approx(3.0)
    assert joined.less(2.5).sure == pytest.approx(10 / math.sqrt(3))


def test_rows_are_placed_where_counts_say_and_spread_where_those_are_spread():
    spike, flat = np.zeros(20), np.zeros(20)
    spike[13], flat[5:11] = 30.0, 5.0
    for counts, inside in ((spike, slice(13, 14)), (flat, slice(4, 12))):
        places = Places(20, 30.0)
        places.take(counts, 4.0)
        assert places.shares.sum() == pytest.approx(1)
        assert places.shares[inside].sum() > 0.95
    unsure = Places(20, 30.0)
    unsure.take(spike, 400.0)
    assert unsure.shares[13] < 0.5


def test_a_count_beyond_tells_two_places_apart():
    """Thirty rows in the fifth bin or the fifteenth, as likely as not: the count from between them on decides."""
    either = np.zeros(20)
    either[[4, 14]] = 30.0
    for there, place in ((0.0, 4), (30.0, 14)):
        places = Places(20, 30.0)
        places.take(either, 25.0)
        middle = places.middle
        assert 4 < middle <= 14
        places.halve(middle, Tally(there, 25.0))
        assert places.shares[place] > 0.9
        assert places.middle is None


def test_far_rows_enter_the_law_at_the_far_end_of_their_bins():
    law = NormLaw(np.arange(0, 10, 1 / 16), np.eye(160)[16])
    far = Far(0.02, np.array([5.0, 6.0]), np.array([0.25, 0.75]))
    joined = far.joined(law)
    assert joined.mass.sum() == pytest.approx(1)
    assert joined.beyond(31.0) == pytest.approx(0.02)
    assert joined.beyond(33.0) == pytest.approx(0.015)
    assert far.moment(1) == pytest.approx(0.02 * (0.25 * 32 + 0.75 * 64))


# --- releases -------------------------------------------------------------------------------------------


def test_few_rows_at_the_magnitude_are_found_and_reached_for():
    """Unseen they move the mean by 791; reached for they leave noise of about 240, which the release states."""
    x = rows(25)
    for seed in range(4):
        found = released(x, seed)
        assert looks(found).count("far norms") == 1
        assert error(found, x) < 400
        assert 180 < np.linalg.norm(found.noise_std) < 320
        assert not found.warnings


def test_few_rows_at_a_hundred_spreads_are_found_without_reaching_for_the_magnitude():
    """Unseen they move the mean by 7.9; a region that reached for the magnitude would have noise of 240."""
    x = rows(25, 110.0)
    for seed in range(4):
        found = released(x, seed)
        assert "far norms" in names(found)
        assert error(found, x) < 5
        assert np.linalg.norm(found.noise_std) < 6


def test_nothing_is_looked_for_where_the_first_count_shows_nothing():
    """Half of all tables without far rows end so, and no table of this seed is asked again."""
    found = released(rows(0), 0)
    assert looks(found) == []
    assert found.warnings == ()
    assert "far" not in found.learned


def test_ordinary_rows_are_hardly_ever_asked_for_distances_and_never_reached_for():
    x = rows(0)
    asked = [looks(released(x, seed)) for seed in range(30)]
    assert sum(not look for look in asked) >= 8  # about half
    assert sum("far norms" in look for look in asked) <= 3  # about one in 30
    assert all(error(released(x, seed), x) < 0.1 for seed in range(3))


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_looks_are_charged(relation):
    """They are rounds in the history, and all rounds together spend the budget, no more."""
    found = released(rows(30), 1, neighbors=relation)
    assert "far norms" in looks(found)
    spent = sum(step["privacy"]["mu"] ** 2 for step in found.learned["rounds"])
    assert spent == pytest.approx(1.0, rel=1e-9)
    assert spent <= 1.0
    assert found.privacy.mu == 1.0
    for step in found.learned["rounds"]:
        if step["name"] == "far rows":
            assert step["width"] == 2
            assert step["privacy"]["mu"] ** 2 <= 0.0401


def test_the_plan_shows_what_the_last_histogram_and_the_first_count_take():
    shown = []
    found = released(rows(0), 0, approve=shown.append)
    (planned,) = [step.share for step in shown[0].rounds if step.name == "last norms"]
    last = [step["privacy"]["mu"] ** 2 for step in found.learned["rounds"] if step["name"] == "norms"][-1]
    assert planned == pytest.approx(last, rel=1e-9)


def test_pure_rounds_look_for_no_far_rows():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", es.AccuracyWarning)
        found = es.mean(rows(25), es.Unknown(MAGNITUDE), epsilon=8, delta=0, rng=rng(0), threads=1)
    assert looks(found) == []


def test_columns_of_one_value_in_most_rows_are_not_far_rows():
    """In units that shrank too far rows with a flag are far out, and reaching for them would drown the others."""
    g = rng(4)
    flags = (g.random((20_000, 3)) < 0.012).astype(float)
    x = np.column_stack([g.normal(5, 2, (20_000, 4)), g.exponential(3, (20_000, 2)), flags])
    known = es.Unknown(100, columns=[f"c{j}" for j in range(9)])
    for seed in range(3):
        found = released(x, seed, rows=known, budget=es.Budget(mu=0.12))
        assert "far norms" in looks(found)
        assert np.abs((found.value - x.mean(axis=0)) / x.std(axis=0)).max() < 0.5


# --- in doubt -------------------------------------------------------------------------------------------


def doubtful():
    """Ten rows at the magnitude, by noise that lets them be seen but not believed."""
    return released(rows(10), 1)


def test_rows_that_may_be_noise_are_told_and_the_warning_survives_a_file():
    found = doubtful()
    far = found.learned["far"]
    assert 3 < far["rows"] / far["std"] < 4.25
    (text,) = found.warnings
    assert text.startswith(f"about {far['rows']:.2g} rows may lie far beyond the others")
    assert "the mean may be off by up to" in text
    off = float(text.split("off by up to ")[1].split(". ")[0])
    assert np.abs(found.value - rows(10).mean(axis=0)).max() < off < 200
    again = es.from_json(found.to_json())
    assert again.warnings == found.warnings
    assert again.to_json() == found.to_json()
    with pytest.warns(es.AccuracyWarning, match="rows may lie far beyond the others"):
        es.mean(rows(10), es.Unknown(MAGNITUDE), budget=MU, rng=rng(1), threads=1)


@pytest.mark.parametrize(
    "change",
    [
        lambda far: far.pop("std"),
        lambda far: far.update(rows=-1.0),
        lambda far: far.update(radii=0.0),
        lambda far: far.update(more=1.0),
        lambda far: far.update(rows="many"),
    ],
)
def test_a_doctored_doubt_is_refused(change):
    saved = json.loads(doubtful().to_json())
    change(saved["learned"]["far"])
    with pytest.raises(es.UsageError):
        es.from_json(json.dumps(saved))


def fake(n, public, statistic="mean"):
    ellipsoid = SimpleNamespace(center=np.array([0.0, 10.0]))
    return SimpleNamespace(n=n, public_rows=public, statistic=statistic, ellipsoid=ellipsoid)


def counts(*have):
    return SimpleNamespace(rows=np.array(have, float))


def test_what_far_rows_may_move_is_their_number_times_the_magnitude():
    far = {"rows": 10.0, "std": 5.0, "radii": 100.0}
    asked = counts(400, 300), [200.0, 390.0], far
    (mean,) = perhaps_far(fake(1000, True), *asked)
    assert "off by up to 4 to 8, by column" in mean  # (10 + 2 * 5) rows, 200 and 400 away, over all 1000 rows
    (total,) = perhaps_far(fake(1000, True, "sum"), *asked)
    assert "off by up to 4e+03 to 8e+03, by column" in total
    assert perhaps_far(fake(1000, True), counts(400, 300), 200.0, None) == ()
