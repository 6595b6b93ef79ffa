"""Statistics over people's rows: what is summed, what one person can change, and what nobody sees."""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ellipsum as es
from ellipsum.request.people import People
from ellipsum.session import Session
from ellipsum.sources import Selection

HUGE = es.Budget(mu=1e7)
RELATIONS = ["replace", "add_remove"]
ROWS = {
    "box": (es.Box([-1, 2], [1, 6]), {"count_clipped": True}),
    "ball": (es.Ball(3.0, [0.0, 4.0]), {"count_clipped": True}),
    "normal": (es.Normal([0.0, 4.0], std=[0.5, 1.0]), {}),
    "whole rows": (es.Normal([0.0, 4.0], std=[0.5, 1.0]), {"missing": "drop_row"}),
}


def rng(seed=0):
    return np.random.default_rng(seed)


def visits(people=200, seed=1):
    """1 to 9 rows a person, in any order; those of people with more than three are all alike."""
    generator = rng(seed)
    each = generator.integers(1, 10, people)
    who = np.repeat(np.arange(people), each)
    rows = generator.uniform([-1, 2], [1, 6], (who.size, 2))
    alike = np.repeat(generator.uniform([-1, 2], [1, 6], (people, 2)), each, axis=0)
    rows = np.where((each[who] > 3)[:, None], alike, rows)
    order = generator.permutation(who.size)
    return who[order], rows[order], each


def table(who, rows):
    return pa.table({"who": who, "a": rows[:, 0], "b": rows[:, 1]})


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("statistic", ["mean", "sum"])
def test_with_a_huge_budget_the_statistic_is_over_capped_rows(statistic, kind, relation):
    who, rows, each = visits()
    weights = np.minimum(each, 3)[who] / each[who]  # which three of equal rows are taken makes no difference
    total = (rows * weights[:, None]).sum(axis=0)
    known, how = ROWS[kind]
    if relation == "add_remove":
        how = {**how, "n": len(who)}
    made = getattr(es, statistic)(
        table(who, rows),
        known,
        privacy_id=es.People("who", per_person="rows", max_rows=3),
        neighbors=relation,
        budget=HUGE,
        **how,
    )
    wanted = total / weights.sum() if statistic == "mean" else total
    assert made.value == pytest.approx(wanted, rel=1e-4, abs=1e-4)
    assert made.privacy.unit == "person"
    assert made.row_count == pytest.approx(weights.sum(), abs=0.01)
    assert made.counts.rows == pytest.approx(np.full(2, weights.sum()), abs=0.01)
    assert es.from_json(made.to_json()).to_json() == made.to_json()


def test_gaps_are_those_of_rows():
    """A column is over the rows that have it, not over people."""
    who, rows, _ = visits()
    rows[rng(5).random(rows.shape) < 0.4] = np.nan
    terms = {"privacy_id": es.People("who", per_person="rows", max_rows=9), "budget": HUGE}
    made = es.mean(table(who, rows), ROWS["box"][0], **terms)
    assert made.value == pytest.approx(np.nanmean(rows, axis=0), abs=1e-4)
    assert made.counts.rows == pytest.approx(np.isfinite(rows).sum(axis=0), abs=0.01)


# Sensitivity --------------------------------------------------------------------------------------------


def integer_sums(plan, who, rows):
    """The exact sums before noise, with the count of rows that goes with them."""
    people = People("who", "rows", plan.people.max_rows)
    with Session.open(table(who, rows), Selection(("a", "b")), people) as session:
        partial = session.source.total(plan.row_map)
    return [*(partial.sums[j] for j in range(len(partial.sums))), partial.rows * plan.count_units]


def extremes(kind):
    """Rows that pull as far as rows can: ends of the region, outside it, and with cells missing."""
    center = np.array([0.0, 4.0])
    half = np.array([1.0, 2.0]) if kind == "box" else np.array([3.0, 6.0])
    nan = np.nan
    return [
        center + half,
        center - half,
        np.array([nan, nan]),
        center + half * [1e6, 0],
        np.array([nan, 4.0 + half[1]]),
    ]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("statistic", ["mean", "sum"])
def test_no_person_moves_the_sums_by_more_than_the_noise_supposes(statistic, kind, relation):
    """[U8] Two people who may have any of these rows, up to one more than the cap, beside others: every pair."""
    known, how = ROWS[kind]
    cap = 2
    plan = es.plan(
        statistic,
        known,
        n=3,
        neighbors=relation,
        privacy_id=es.People("who", per_person="rows", max_rows=cap),
        budget=es.Budget(mu=0.7),
        **how,
    )
    others = (np.array([5, 5, 6]), np.array([[0.5, 3.0], [0.0, 4.0], [np.nan, 4.5]]))
    ends = extremes(kind)
    sums = []
    for size in range(0 if relation == "add_remove" else 1, cap + 2):
        for chosen in itertools.combinations_with_replacement(range(len(ends)), size):
            hers = np.array([ends[i] for i in chosen]).reshape(-1, 2)
            who = np.concatenate([others[0], np.full(len(hers), 9)])
            sums.append((size, integer_sums(plan, who, np.vstack([others[1], hers]))))
    covered = (Fraction(plan.noise_units) * Fraction(plan.privacy.mu)) ** 2
    pairs = itertools.combinations(sums, 2)
    if relation == "add_remove":  # with her rows, or without her
        nobody = sums[0]
        assert nobody[0] == 0
        pairs = ((nobody, one) for one in sums[1:])
    furthest = max(sum((a - b) ** 2 for a, b in zip(one[1], other[1], strict=True)) for one, other in pairs)
    assert furthest <= covered
    assert furthest > Fraction(8, 10) ** 2 * covered  # nor is there much more noise than that


@pytest.mark.parametrize("cap", [1, 2, 5])
def test_noise_grows_with_the_cap(cap):
    for relation in RELATIONS:
        one, many = (
            es.plan(
                "mean",
                es.Box([-1, 2], [1, 6]),
                n=100,
                neighbors=relation,
                privacy_id=es.People("who", per_person="rows", max_rows=rows),
                budget=es.Budget(mu=1.0),
            )
            for rows in (1, cap)
        )
        assert many.noise_units >= one.noise_units * cap * (1 - 1e-12) * (0.8 if relation == "add_remove" else 1)
        needed = many.row_map.body.sensitivity(relation, many.count_units, cap)
        assert Fraction(many.noise_units) * Fraction(many.privacy.mu) >= needed


# What is public -----------------------------------------------------------------------------------------


def test_n_is_the_number_of_people_where_it_is_public():
    who, rows, each = visits()
    terms = {"privacy_id": es.People("who", per_person="rows", max_rows=3), "budget": es.Budget(mu=1.0)}
    made = es.mean(table(who, rows), ROWS["box"][0], **terms)
    assert made.plan.n == len(each)
    assert made.plan.count_units > 0
    assert not made.plan.public_rows
    plan = es.plan("mean", ROWS["box"][0], n=len(each), columns=["a", "b"], **terms)
    assert plan.release(table(who, rows)).plan.n == len(each)
    with pytest.raises(es.UsageError, match=f"{len(each) + 1} people, but the data has {len(each)}"):
        es.plan("mean", ROWS["box"][0], n=len(each) + 1, columns=["a", "b"], **terms).release(table(who, rows))


def test_a_plan_cannot_claim_a_smaller_cap_of_noise():
    plan = es.plan(
        "sum", ROWS["box"][0], n=9, privacy_id=es.People("who", per_person="rows", max_rows=2), budget=es.Budget(mu=1.0)
    )
    fields = plan.to_dict()
    fields["request"]["people"]["max_rows"] = 3
    with pytest.raises(es.UsageError, match="noise is below"):
        es.Plan.from_json(json.dumps(fields))


@pytest.mark.parametrize("kind", ["table", "parquet"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_progress_says_nothing_of_how_many_rows_people_have(tmp_path, relation, kind):
    told = []
    for rows_of_one in (1, 40_000):
        who = np.concatenate([np.arange(30_000), np.full(rows_of_one - 1, 7)])
        made = table(who, np.full((who.size, 2), 3.0) - [3.0, 0.0])
        if kind == "parquet":
            pq.write_table(made, tmp_path / "t.parquet", row_group_size=5000)
            made = tmp_path / "t.parquet"
        told.append([])
        es.mean(
            made,
            ROWS["box"][0],
            privacy_id=es.People("who", per_person="rows", max_rows=4),
            neighbors=relation,
            n=None if relation == "replace" else 30_000,
            budget=es.Budget(mu=1.0),
            progress=told[-1].append,
        )
    assert told[0] == told[1]
    assert told[0][-1] == pytest.approx(1.0)


def test_the_rows_that_count_do_not_follow_their_order():
    """[T7] Another order of the same rows, or other blocks, gives the same release to the last bit."""
    who, rows, _ = visits()
    rows = rng(9).uniform([-1, 2], [1, 6], rows.shape)  # now all different
    terms = {"privacy_id": es.People("who", per_person="rows", max_rows=2), "budget": es.Budget(mu=1.0)}
    wanted = es.mean(table(who, rows), ROWS["box"][0], rng=rng(), **terms).to_json()
    for seed in range(3):
        order = rng(seed).permutation(who.size)
        turned = table(who[order], rows[order])
        assert es.mean(turned, ROWS["box"][0], rng=rng(), **terms).to_json() == wanted
        batches = turned.to_batches(max_chunksize=37)
        assert es.mean(batches, ROWS["box"][0], rng=rng(), **terms).to_json() == wanted


# How many rows to count ---------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", RELATIONS)
def test_how_many_rows_people_have_is_counted_by_octave(relation):
    who, rows, each = visits(2000)
    found = es.suggest_max_rows(table(who, rows), "who", neighbors=relation, budget=HUGE)
    ends = np.array([0, *found.most[:-1], np.inf])
    wanted = [np.sum((each > low) & (each <= high)) for low, high in itertools.pairwise(ends)]
    assert found.people == pytest.approx(np.array(wanted, float), abs=0.01)
    assert found.privacy == es.Privacy(HUGE.mu, 0.0, relation, "person")
    assert found.max_rows in found.most
    assert found.std == pytest.approx((math.sqrt(2) if relation == "replace" else 1.0) / HUGE.mu, rel=1e-9)
    nobody = es.suggest_max_rows(table(who[:0], rows[:0]), "who", neighbors="add_remove", budget=HUGE, rng=rng())
    assert nobody.max_rows == 1


@pytest.mark.slow
def test_the_histogram_has_the_noise_that_it_states():
    who, rows, _ = visits(300)
    generator, repeats = rng(3), 200
    budget = es.Budget(mu=0.5)
    found = [es.suggest_max_rows(table(who, rows), "who", budget=budget, rng=generator) for _ in range(repeats)]
    exact = np.round(es.suggest_max_rows(table(who, rows), "who", budget=HUGE).people)
    z = np.array([(one.people - exact) / one.std for one in found])
    total, count = float((z**2).sum()), z.size
    assert abs(total / count - 1) < 6 * math.sqrt(2 / count)
    assert 6 * math.sqrt(2 / count) < 0.19  # 0.9 of the noise would show
    assert not found[0].secure
