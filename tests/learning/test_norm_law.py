"""The law of norms from noisy counts."""

import numpy as np
import pytest

from ellipsum.learning.auto import _beside
from ellipsum.learning.norm_law import LOG_PRIOR, _table, _tails, _with_hump, fit_norm_law
from ellipsum.learning.state import Shape, State, choose_radius
from ellipsum.rows import NormLaw
from ellipsum.rows.learned import STEP

EDGES = np.exp2(np.arange(-6.0, 20.1, 0.5))


def _found(norms, noise_std, seed=3):
    counts = np.histogram(norms, np.concatenate([[0.0], EDGES, [np.inf]]))[0].astype(float)
    counts += noise_std * np.random.default_rng(seed).standard_normal(counts.size)
    return fit_norm_law(counts, noise_std, EDGES, norms.size, float(np.median(norms)))


def test_every_member_is_a_law():
    table = _table()
    assert table.shape[1] == len(LOG_PRIOR)
    assert (np.diff(table, axis=0) >= 0).all()
    assert np.abs(table[[0, -1]].T - [0.0, 1.0]).max() < 1e-3


@pytest.mark.parametrize("noise_std", [1.0, 14.0])
@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: np.abs(rng.standard_normal(1000)),
        lambda rng: np.abs(rng.exponential(1, 1000) - 0.8),
        lambda rng: np.abs(rng.lognormal(0, 1.5, 1000) - 1.3),
    ],
    ids=["normal", "exponential", "lognormal"],
)
def test_quantiles_of_tails(draw, noise_std):
    """Within an octave at the 95th percentile, where a bin's count is of the size of its noise."""
    norms = draw(np.random.default_rng(5))
    law = _found(norms, noise_std)
    for q in (0.5, 0.8, 0.95):
        assert abs(np.log2(law.quantile(q) / np.quantile(norms, q))) < 1


def test_a_hump_far_beyond_is_a_law_by_itself():
    rng = np.random.default_rng(6)
    norms = np.where(rng.random(1000) < 0.6, 0.9, 2.0**12 * rng.lognormal(0, 1, 1000))
    law = _found(norms, 14.0)
    assert law.median < 2
    assert abs(law.beyond(2.0**8) - 0.4) < 0.1
    assert abs(np.log2(law.quantile(0.95) / np.quantile(norms, 0.95))) < 1


def test_rows_of_one_norm_do_not_decide_the_tail():
    """Two fifths of the rows are zero, at one norm, the others log-normal. Fitted together, the tail was a third."""
    rng = np.random.default_rng(8)
    rows = rng.lognormal(size=(10_000, 4)) * (rng.random((10_000, 4)) < 0.2)
    norms = np.linalg.norm(rows - 0.3, axis=1)
    edges = np.exp2(np.arange(-4.0, 12.1, 0.25))
    counts = np.histogram(norms, np.concatenate([[0.0], edges, [np.inf]]))[0] + 10 * rng.standard_normal(edges.size + 1)
    law = fit_norm_law(counts, 10.0, edges, 10_000, float(np.median(norms)))
    for q in (0.9, 0.98):
        radius = np.quantile(norms, q)
        assert 0.7 < law.excess(radius) / np.maximum(norms - radius, 0).mean() < 2


def test_rows_that_all_have_one_norm_are_still_a_law():
    counts = np.zeros(EDGES.size + 1)
    counts[12] = 1000.0
    law = fit_norm_law(counts, 14.0, EDGES, 1000.0, float(EDGES[11]))
    assert abs(np.log2(law.median / EDGES[11])) < 1


def test_one_loud_bin_at_the_magnitude_is_noise():
    """Five stds of noise in the last bin were taken for ten rows there, and the radius went up to them."""
    counts = (
        np.histogram(np.abs(np.random.default_rng(9).standard_normal(1000)), np.concatenate([[0], EDGES, [np.inf]]))[0]
        + 0.0
    )
    counts[-2] += 5 * 14.0
    law = fit_norm_law(counts, 14.0, EDGES, 1000.0, 0.67)
    assert law.beyond(2.0**8) < 1e-4


def test_noise_alone_makes_no_hump():
    rng = np.random.default_rng(7)
    norms = np.abs(rng.standard_normal(1000))
    for seed in range(20):
        assert _found(norms, 14.0, seed).beyond(2.0**8) < 0.01


def test_a_hump_lies_where_its_rows_are_and_not_at_the_loudest_bin_beyond():
    """Seven bins with a hundredth of the rows each, and noise of four stds in one bin far out."""
    log_edges = np.log2(EDGES)
    rest = np.where((log_edges >= 4.0) & (log_edges < 7.5), 0.01, 0.0)
    rest = np.append(rest, 0.0)
    rest[-4] = 0.0144
    shares = rest + np.where(np.arange(rest.size) == np.searchsorted(log_edges, 0.0), 0.93, 0.0)
    grid = np.arange(log_edges[0] - 1, log_edges[-1] + 1, STEP)
    mass = np.where(grid == 0.0, 1.0, 0.0)
    assert _with_hump(mass, rest, shares, 0.0036, log_edges, grid, 0.0)[grid > 14].sum() < 0.002


def test_noise_alone_makes_no_far_tail():
    """Of neighboring bins many windows are looked at: 4.5 stds of noise for the loudest would be one in 300."""
    rng = np.random.default_rng(9)
    beyond = np.arange(4.0, 32.0, 0.25)
    nothing = np.zeros(beyond.size)
    found = [_tails(nothing, rng.standard_normal(beyond.size), 1.0, beyond)[beyond > 9].any() for _ in range(3_000)]
    assert sum(found) <= 2


def test_where_counts_are_mostly_noise_what_is_expected_counts():
    """442 rows under noise of 42 in every bin: without a place to expect, the middle is astray now and then."""
    edges = np.exp2(np.arange(-6.0, 8.1, 0.25))
    rng = np.random.default_rng(8)
    true = np.histogram(rng.lognormal(0, 0.7, 442), np.concatenate([[0.0], edges, [np.inf]]))[0]
    medians = []
    for _ in range(40):
        counts = true + 42 * rng.standard_normal(true.size)
        medians.append([fit_norm_law(counts, 42.0, edges, 442, at, 30.0).median for at in (1.0, None)])
    expected, anywhere = np.abs(np.log2(medians)).T
    assert expected.max() < 2.5
    assert anywhere.max() > 3


def test_a_tail_that_would_move_nothing_widens_no_early_round():
    """A step that is known to be off moves the center less: to reach a far tail would drown it in noise."""
    grid = np.arange(-4.0, 9.0, 0.125)
    mass = np.where(np.abs(grid) < 0.2, 0.95, np.where(grid == 8.0, 0.05, 0.0))
    shape = Shape(np.ones(4))
    state = State(np.zeros(4), np.full(4, 0.01), shape, NormLaw(grid, mass / mass.sum()))
    doubt = lambda radius: 0.1 * state.law.excess(radius) ** 2  # noqa: E731
    assert choose_radius(state, 0.1, 400, state.law.ladder, doubt=doubt)[1] < 4
    assert choose_radius(state, 0.1, 400, state.law.ladder, lambda r: 4 * doubt(r))[1] > 100


def test_a_hundredth_of_the_rows_far_off_enters_in_full():
    """120 rows of ten thousand, a hundred times as far as the others, under noise of 8.5 in every bin."""
    rng = np.random.default_rng(9)
    norms = np.where(np.arange(10_000) < 120, 100.0, 1.0) * np.sqrt(rng.chisquare(4, 10_000))
    beyond = np.quantile(norms, 0.95)
    true = np.maximum(norms - beyond, 0).mean()
    found = [_found(norms, 8.5, seed).excess(beyond) for seed in range(10)]
    assert 0.7 * true < np.median(found) < 1.3 * true


@pytest.mark.parametrize("d", [1, 2, 10, 30])
def test_norms_that_hardly_differ_tell_of_a_center_beside_the_rows(d):
    """As those of rows ten of their spreads away; normal rows about the center, even under noise, do not."""
    rng = np.random.default_rng(10)
    rows = rng.standard_normal((5_000, d))
    away = np.zeros(d)
    away[0] = 10 * np.sqrt(d)
    edges = np.exp2(np.arange(-4.0, 8.0, 1 / 8))

    def found(rows, noise):
        counts = np.bincount(np.searchsorted(edges, np.linalg.norm(rows, axis=1)), minlength=edges.size + 1)
        return fit_norm_law(counts + noise * rng.standard_normal(counts.size), noise, edges, len(rows))

    assert _beside(found(rows + away, 5.0), d)
    assert not any(_beside(found(rows, 20.0), d) for _ in range(5))
