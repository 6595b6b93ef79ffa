"""The account of a session: it gives no more than it reserved, and no noise for what was not charged [U5][P5]."""

import numpy as np
import pytest
from opening import session_on

import ellipsum as es

X = np.zeros((10, 1))
CAP = es.Privacy(1.0, 1e-6)


@pytest.fixture
def account():
    return session_on(X).reserve(CAP, "a test")


def test_parts_are_charged_up_to_what_was_reserved(account):
    for _ in range(4):
        account.charge(es.Privacy(0.5, 2.5e-7), "a part")
    with pytest.raises(es.BudgetRefused, match="the last part requests more than the rest"):
        account.charge(es.Privacy(1e-6), "the last part")


@pytest.mark.parametrize(
    "part",
    [
        es.Privacy(np.nextafter(1.0, 2.0)),
        es.Privacy(0.5, 1.1e-6),
        es.Privacy.of_pure(1e-3),
        es.Privacy(0.9, 0.0, "replace", "row", (1e-3,)),
    ],
)
def test_what_exceeds_the_cap_is_refused(account, part):
    with pytest.raises(es.BudgetRefused, match="more than the rest"):
        account.charge(part, "a part")
    with pytest.raises(es.BudgetRefused, match="Charge another step first"):
        account.stream()


def test_pure_parts_add_up():
    account = session_on(X).reserve(es.Privacy.of_pure(1.0), "a test")
    account.charge(es.Privacy.of_pure(0.5), "a part")
    account.charge(es.Privacy.of_pure(0.5), "a part")
    with pytest.raises(es.BudgetRefused):
        account.charge(es.Privacy.of_pure(1e-9), "a part")


def test_there_is_one_stream_for_each_charge(account):
    with pytest.raises(es.BudgetRefused, match="Charge another step first"):
        account.stream()
    words = []
    for _ in range(2):
        account.charge(es.Privacy(0.5), "a part")
        words.append(account.stream().words(0, 1).tolist())
        with pytest.raises(es.BudgetRefused, match="Charge another step first"):
            account.stream()
    assert words[0] != words[1]  # the same noise twice would show what differs


def test_a_part_for_another_relation_or_unit_is_refused(account):
    for part in (es.Privacy(0.1, 0.0, "add_remove"), es.Privacy(0.1, 0.0, "replace", "person")):
        with pytest.raises(es.UsageError, match="do not compose"):
            account.charge(part, "a part")
