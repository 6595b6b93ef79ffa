"""[L7] and [L8]: every round is charged before it reads, has the noise of its charge, and all fit the guarantee."""

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import ellipsum as es
from ellipsum.learning.rounds import Rounds
from ellipsum.noise import law as gaussian
from ellipsum.noise import shift_for, vectors
from ellipsum.regions.ellipsoid import Ellipsoid
from ellipsum.request.people import People
from ellipsum.request.request import Request
from ellipsum.row_maps.histograms import ColumnHistograms, NormHistogram, SignedParts
from ellipsum.session import Account, Reading, Session
from ellipsum.sources import Selection
from ellipsum.sources.arrays import ArrayTable

ROWS = 50
DATA = np.random.default_rng(0).normal(size=(ROWS, 2))
GAUSSIAN, PURE = es.Privacy(1.0), es.Privacy.of_pure(1.0)
BESIDE = es.Privacy(0.5, pure=(0.7,))
MANY = [np.arange(1.0, 4000.0)] * 2


def opened(privacy=GAUSSIAN, n=ROWS, data=DATA, people=None, seed=1):
    session = Session.open(data, Selection(None), people, Reading(np.random.default_rng(seed)))
    request = Request("mean", es.Unknown(10.0), None, neighbors=privacy.neighbors, n=n)
    guarantee = replace(privacy, unit="row" if people is None else "person")
    plan = SimpleNamespace(request=request, privacy=guarantee)
    return session, lambda entered: Rounds(entered, plan, None, 10, entered.source)


def rounds_of(privacy=GAUSSIAN, **words):
    context, make = opened(privacy, **words)
    with context as session:
        yield make(session)


def histogram(edges=MANY):
    return ColumnHistograms(2, range(2), edges)


def spread(privacy, share):
    """The noise of bins that no row is in, over what the charge calls for."""
    relation = privacy.neighbors
    for rounds in rounds_of(privacy):
        values, std = rounds.sum("look", histogram(), share)
        empty = np.concatenate([part[10:-1] for part in histogram().split(values)])
        if rounds.is_pure:
            wanted = math.sqrt(2) * (4 if relation == "replace" else 2) / (share * privacy.pure[0])
        else:
            wanted = (2 if relation == "replace" else math.sqrt(2)) / math.sqrt(share * privacy.mu**2)
        assert std == pytest.approx(wanted, rel=1e-9)
        return float(empty.std()) / wanted


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("privacy", [GAUSSIAN, PURE, BESIDE])
def test_noise_is_the_sensitivity_over_the_charge_and_not_a_tenth_less(privacy, relation, monkeypatch):
    """8,000 bins: the std of the noise is found within 3%, for Laplace noise too."""
    privacy = es.Privacy(privacy.mu, 0.0, relation, "row", privacy.pure)
    assert spread(privacy, 0.25) == pytest.approx(1, abs=0.05)
    weak = lambda sums, std, _, *stream: es_noise(sums, 0.9 * std, shift_for(0.9 * std), *stream)  # noqa: E731
    monkeypatch.setattr(gaussian, "add_noise", weak)
    less = lambda s, runs, *t: es_blocks(s, replace(runs, scales=0.9 * runs.scales), *t)  # noqa: E731
    monkeypatch.setattr(vectors, "add_block_noise", less)
    assert spread(privacy, 0.25) != pytest.approx(1, abs=0.05)


es_noise, es_blocks = gaussian.add_noise, vectors.add_block_noise


def test_a_charge_of_half_is_a_guarantee_of_half():
    """What the account is charged is what the noise covers: mu * std >= sensitivity, epsilon * scale >= l1 distance."""
    for privacy in (GAUSSIAN, PURE, BESIDE):
        for rounds in rounds_of(privacy):
            row_map = histogram()
            _, std = rounds.sum("look", row_map, Fraction(1, 4))
            (step,) = rounds.steps
            charged = rounds._account._charged
            assert charged == [step.privacy]
            if rounds.is_pure:
                scale = Fraction(std) / Fraction(math.sqrt(2))
                assert scale * Fraction(charged[0].pure[0]) >= 2 * row_map.l1 * Fraction(1 - 2**-50)
            else:
                assert Fraction(std) * Fraction(charged[0].mu) >= row_map.body.diameter


def test_gaussian_and_pure_shares_add_up():
    for rounds in rounds_of(GAUSSIAN):
        for _ in range(4):
            rounds.sum("a", histogram(), Fraction(1, 8))
        rest = rounds.remaining()
        rounds.charge_release(rest, 2)
        assert sum(Fraction(step.privacy.mu) ** 2 for step in rounds.steps) <= 1
        assert rest.mu == pytest.approx(math.sqrt(0.5))
    for rounds in rounds_of(PURE):
        rounds.sum("a", histogram(), 0.3)
        assert rounds.remaining().pure[0] == pytest.approx(0.7)
    for rounds in rounds_of(BESIDE):
        rounds.sum("a", histogram(), 1)
        assert rounds.left == 0
        assert rounds.remaining().pure == (0.7,)
        assert rounds.remaining().mu == 0


@pytest.mark.parametrize("share", [0, -0.1, 1.0001, Fraction(3, 2)])
def test_a_round_beyond_what_is_left_is_refused_and_nothing_is_read(share, monkeypatch):
    monkeypatch.setattr(ArrayTable, "batches", lambda *parts: pytest.fail("rows were read"))
    for rounds in rounds_of():
        with pytest.raises(es.BudgetRefused):
            rounds.sum("a", histogram(), share)
        assert not rounds.steps


def test_the_account_refuses_what_was_not_reserved():
    """Whatever rounds ask: the account is the last to say no."""
    account = Account(GAUSSIAN, np.random.default_rng(0))
    with pytest.raises(es.BudgetRefused):
        account.stream()  # nothing was charged
    account.charge(es.Privacy(0.8), "one")
    with pytest.raises(es.BudgetRefused):
        account.charge(es.Privacy(0.7), "two")
    account.charge(es.Privacy(0.59), "two")
    account.stream()
    account.stream()
    with pytest.raises(es.BudgetRefused):
        account.stream()  # one for each charge
    with pytest.raises(es.BudgetRefused):
        account.charge(es.Privacy(0.2), "three")
    pure = Account(BESIDE, np.random.default_rng(0))
    with pytest.raises(es.BudgetRefused):
        pure.charge(es.Privacy.of_pure(0.71), "release")
    pure.charge(es.Privacy(0.5), "rounds")
    pure.charge(es.Privacy.of_pure(0.7), "release")
    with pytest.raises(es.BudgetRefused):
        pure.charge(es.Privacy.of_pure(1e-9), "again")


def test_rounds_that_ignore_what_is_left_are_stopped_by_the_account(monkeypatch):
    """A planted bug: rounds that never count what they spent."""
    for rounds in rounds_of():
        for _ in range(2):
            rounds.left = Fraction(1)
            rounds.sum("a", histogram(), 0.49)
        rounds.left = Fraction(1)
        with pytest.raises(es.BudgetRefused, match="reserved"):
            rounds.sum("a", histogram(), 0.49)


def test_each_round_is_charged_before_it_reads(monkeypatch):
    order = []
    charge, total = Account.charge, Session.total
    monkeypatch.setattr(Account, "charge", lambda *parts: (order.append("charge"), charge(*parts))[1])
    monkeypatch.setattr(Session, "total", lambda *parts: (order.append("read"), total(*parts))[1])
    for rounds in rounds_of():
        rounds.sum("a", histogram(), 0.1)
        rounds.sums(("b", histogram(), 0.1), ("c", histogram(), 0.1))
        stream = rounds.charge_release(rounds.remaining(), 2)
        assert stream is not None
    assert order == ["charge", "read", "charge", "charge", "read", "charge"]


def test_pure_rounds_sum_counts_alone():
    for rounds in rounds_of(PURE):
        with pytest.raises(es.UsageError, match="count rows"):
            rounds.sum("a", SignedParts(Ellipsoid(np.zeros(2), np.ones(2))), 0.1)
        rounds.sum("b", NormHistogram(Ellipsoid(np.zeros(2), np.ones(2)), [1.0]), 0.1)


def test_a_private_number_of_rows_is_counted_first():
    for rounds in rounds_of(es.Privacy(50.0, neighbors="add_remove"), n=None):
        assert [step.name for step in rounds.steps] == ["count"]
        assert rounds.n == pytest.approx(ROWS, abs=2)
    table = np.column_stack([DATA, np.arange(ROWS) // 5])
    people = People(2, "rows", 5)
    for rounds in rounds_of(es.Privacy(50.0), n=10, data=table, people=people):
        assert rounds.n == pytest.approx(ROWS, abs=5)
        assert rounds.privacy.unit == "person"
        assert rounds.std(histogram(), 0.25) == pytest.approx(5 * 2 / 25)
    for rounds in rounds_of(PURE, n=10, data=table, people=people):
        assert rounds.std(histogram(), 0.25) == pytest.approx(math.sqrt(2) * 5 * 4 / 0.25)


def test_under_replace_the_promised_number_of_rows_must_come():
    for rounds in rounds_of(n=ROWS + 1):
        with pytest.raises(es.UsageError, match="rows"):
            rounds.sum("a", histogram(), 0.1)
