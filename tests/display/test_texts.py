"""Plans and releases in words: what is said of columns, missing entries, bounds, counts and warnings."""

from dataclasses import replace

import numpy as np
import pytest

import ellipsum as es
from ellipsum.display.texts import missing_words, plan_html

SPEND = {"epsilon": 8, "delta": 1e-6}
BOX = es.Box({"age": (0, 120), "income": (0, 5000)})
X = np.column_stack([np.linspace(20, 70, 900), np.linspace(1000, 4000, 900)])
GAPS = np.where(np.arange(900)[:, None] % 3 == 0, [np.nan, 0], 0) + X


def rng():
    return np.random.default_rng(0)


def test_a_plan_has_a_line_for_every_column():
    text = repr(es.plan(BOX, n=900, statistic="mean", **SPEND))
    age, income = (next(line for line in text.splitlines() if line.strip().startswith(name)) for name in BOX.columns)
    stds = es.plan(BOX, n=900, statistic="mean", **SPEND).noise_std
    assert "0 to 120" in age
    assert f"noise std {stds[0]:.3g}" in age
    assert "0 to 5000" in income
    assert f"noise std {stds[1]:.3g}" in income
    assert "weights         relative" in text
    assert "missing entries each column over the rows that have it, counts noisy" in text
    assert "plans a mean" not in text


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (es.Normal({"a": (1, 2)}), "1 ± 2"),
        (es.Normal([5.0, 6.0], cov=[[4.0, 1.0], [1.0, 9.0]]), "6 ± 3"),
        (es.Ball(3, center=[7.0, 8.0]), "center 8"),
        (es.Box([0, 1], [1, 3.5]), "1 to 3.5"),
    ],
)
def test_what_is_stated_of_a_column_is_shown(rows, said):
    assert said in repr(es.plan(rows, n=900, statistic="mean", **SPEND))


def test_at_most_twelve_columns_are_listed():
    plan = es.plan(es.Box(0, 1), n=900, d=40, **SPEND)
    assert "x12 " in repr(plan)
    assert "x13" not in repr(plan)
    assert "... 28 more" in repr(plan)
    assert "... 28 more columns" in plan_html(plan)
    assert "noise std" in repr(es.plan(es.Box(0, 1), n=900, d=12, **SPEND)).splitlines()[-1]


def test_a_plan_says_which_statistic_it_took():
    for rows in (BOX, es.Unknown(1e6, columns=BOX.columns)):
        assert repr(es.plan(rows, n=900, **SPEND)).splitlines()[0].startswith("Plan: sum of 2 columns")
        assert "(statistic='mean' plans a mean)" in repr(es.plan(rows, n=900, **SPEND)).splitlines()[0]
        assert "plans a mean" not in repr(es.plan(rows, n=900, statistic="mean", **SPEND))


def test_a_plan_without_n_still_lists_its_columns():
    text = repr(es.plan(BOX, neighbors="add_remove", statistic="mean", **SPEND))
    assert "give n=" in text
    assert "0 to 120" in text


def test_plans_as_html_escape_names():
    html = plan_html(es.plan(es.Box({"<script>": (0, 1), "b": (0, 2)}), n=9, **SPEND))
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "<td>0 to 2</td>" in html
    assert "relative" in html


def test_a_plan_whose_noise_drowns_the_answer_says_so():
    thin = es.plan(BOX, n=900, statistic="mean", epsilon=0.01, delta=1e-6)
    assert repr(thin).splitlines()[-1] == f"  warning: {thin.doubt}"
    assert f"warning: {thin.doubt}" in plan_html(thin)
    assert "warning" not in repr(es.plan(BOX, n=900, statistic="mean", **SPEND))


def test_weights_are_named():
    def words(**more):
        return repr(es.plan(es.Box([0, 0], [1, 2]), n=900, **more, **SPEND))

    assert "weights         equal" in words()
    assert "weights         relative" in words(weights="relative")
    assert "weights         as stated: 1, 5" in words(weights=[1, 5])
    assert "weights" not in repr(es.plan(es.Ball(1), n=900, d=2, **SPEND))
    assert "weights         equal" in repr(es.plan(es.Unknown(1), n=900, d=2, **SPEND))
    assert "weights         relative" in repr(es.plan(es.Unknown(1), n=900, columns=["a", "b"], **SPEND))


ROW = "rows with a missing entry are left out, their number noisy"
COLUMN = "each column over the rows that have it, counts noisy"
CENTER = "a missing entry counts as the center"
NOTHING = "a missing entry adds nothing"


@pytest.mark.parametrize(
    ("rows", "statistic", "missing", "said"),
    [
        (BOX, "mean", None, COLUMN),
        (BOX, "mean", "row", ROW),
        (BOX, "mean", "center", CENTER),
        (BOX, "mean", 0, "a missing entry counts as 0"),
        (BOX, "mean", np.array([1.5, 2]), "a missing entry counts as 1.5, 2"),
        (BOX, "sum", None, NOTHING),  # 0 is within the bounds: filled in, not counted
        (es.Box({"age": (10, 120)}), "sum", None, f"{NOTHING}, counts noisy"),
        (BOX, "sum", "center", CENTER),
        (es.Normal([0.0, 0.0], std=1.0), "sum", None, NOTHING),
        (es.Normal([0.0, 1.0], std=1.0), "sum", None, f"{NOTHING}, counts noisy"),
        (es.Ball(1, [0.0, 0.0]), "mean", None, ROW),
        (es.Ball(1, [0.0, 0.0]), "mean", "column", COLUMN),
        (es.Ball(1, [0.0, 0.0]), "sum", "center", CENTER),
    ],
)
def test_the_rule_for_missing_entries(rows, statistic, missing, said):
    plan = es.plan(rows, n=900, statistic=statistic, missing=missing, **SPEND)
    assert missing_words(plan) == said
    assert f"missing entries {said}" in repr(plan).splitlines()[2]
    assert missing_words(es.Plan.from_json(plan.to_json())) == said


def test_the_rule_where_no_type_can_be_missing():
    whole = X.astype(np.int64)
    for statistic in (es.mean, es.sum):
        for rows in (BOX, es.Normal({"age": (45, 15), "income": (2500, 900)})):
            assert missing_words(statistic(whole, rows, **SPEND).plan) == "none, by the columns' types"
    assert missing_words(es.mean(whole, es.Ball(5000), **SPEND).plan) == "none, by the columns' types"


def test_learning_names_its_rule():
    for missing, said in ((None, COLUMN), ("row", ROW), (0, "a missing entry counts as 0")):
        plan = es.plan(es.Unknown(1e6), n=900, d=2, statistic="mean", missing=missing, **SPEND)
        assert f"missing entries {said}" in repr(plan)


def test_a_release_shows_intervals_and_counts():
    made = es.mean(GAPS, BOX, rng=rng(), noise="gaussian", **SPEND)
    line = next(line for line in repr(made).splitlines() if line.strip().startswith("age"))
    low, high = made.confidence_interval(0.95)[0]
    assert f"(95%: {low:.2f} to {high:.2f}; error std {made.standard_error[0]:.3g}" in line
    assert f"{made.counts.rows[0]:.1f} ± {made.counts.stds[0]:.2g} rows" in line
    assert abs(made.counts.rows[0] - 600) < 7 * made.counts.stds[0]
    html = made._repr_html_()
    assert f"<td>{low:.2f} to {high:.2f}</td>" in html
    assert "<th>rows</th>" in html
    assert "<th>note</th>" not in html
    assert (
        "rows" not in repr(es.mean(GAPS, BOX, missing="center", rng=rng(), noise="gaussian", **SPEND)).split("age")[1]
    )


def test_complete_rows_are_shown_where_rows_are_left_out():
    made = es.mean(GAPS, BOX, missing="row", rng=rng(), noise="gaussian", **SPEND)
    assert f"complete rows   {made.counts.rows[0]:.1f}" in repr(made)
    assert "complete rows" in made._repr_html_()


@pytest.mark.parametrize(
    ("rows", "more", "said"),
    [
        (BOX, {}, "for entries held to their bounds"),
        (BOX, {"check": False}, "what was clipped is not in them"),
        (es.Normal({"age": (45, 15), "income": (2500, 900)}), {}, "and what clipping may hide, but for "),
        (es.Normal({"age": (45, 15), "income": (2500, 900)}), {"check": False}, "what was clipped is not in them"),
    ],
)
def test_a_release_says_what_its_intervals_cover(rows, more, said):
    made = es.mean(X, rows, **more, **SPEND)
    assert said in repr(made)
    assert said in made._repr_html_()


def test_warnings_stand_at_the_end():
    with pytest.warns(es.AccuracyWarning):
        made = es.mean(X, es.Box({"age": (0, 120), "income": (0, 9)}), rng=rng(), **SPEND)
    assert made.warnings
    assert repr(made).splitlines()[-1] == f"  warning: {made.warnings[-1]}"
    assert "warning: about" in made._repr_html_()


def test_values_at_their_bounds_are_marked():
    def notes(statistic, values, **more):
        made = es.mean(X, BOX, **more, **SPEND) if statistic == "mean" else es.sum(X, BOX, **more, **SPEND)
        text = repr(replace(made, value=np.array(values, float)))
        lines = [next(line for line in text.splitlines() if line.strip().startswith(name)) for name in BOX.columns]
        return ["upper" if "upper bound" in line else "lower" if "lower bound" in line else "" for line in lines]

    assert notes("mean", [120, 0]) == ["upper", "lower"]
    assert notes("mean", [130, -3]) == ["upper", "lower"]
    assert notes("mean", [119.9, 0.1]) == ["", ""]
    assert notes("sum", [120 * 900, -1]) == ["upper", "lower"]
    assert notes("sum", [121, 1]) == ["", ""]
    constant = es.mean(np.full((900, 2), 5.0), es.Box([5, 0], [5, 9]), **SPEND)
    assert "bound" not in repr(constant).splitlines()[3]


def test_a_friendly_mean_says_that_it_used_a_subset():
    rows = np.random.default_rng(0).normal(size=(3000, 2))
    some = es.friendly_mean(rows, 7.0, max_rows=500, **SPEND)
    assert "a random subset of 500 of 3000 rows" in repr(some)
    assert "a random subset of 500 of 3000 rows" in some._repr_html_()
    every = es.friendly_mean(rows, 7.0, **SPEND)
    assert "subset" not in repr(every)
    none = es.friendly_mean(rows, 1e-9, max_rows=500, **SPEND)
    assert not none
    assert "too few of 500 rows agree" in repr(none)
    assert "a random subset of 500 of 3000 rows" in repr(none)


def test_rows_of_people_are_told_from_one_row_for_each():
    import pyarrow as pa

    table = pa.table({"who": np.arange(900) // 3, "age": X[:, 0]})
    words = {"privacy_id": "who", "max_rows": 2, **SPEND}
    each = es.mean(table, es.Box({"age": (0, 120)}), per_person="rows", **words)
    assert "at most 2 of their rows, each by itself, by 'who'" in repr(each)
    one = es.mean(table, es.Box({"age": (0, 120)}), **words)
    assert "the mean of at most 2 of their rows, by 'who'" in repr(one)


def test_a_plan_whose_noise_drowns_the_answer_warns_before_it_is_run():
    rows = np.zeros((4, 2))
    with pytest.warns(es.AccuracyWarning, match="noise would be as large"):
        es.mean(rows, es.Box(-1.0, 1.0), epsilon=0.1, delta=1e-6)
    plan = es.plan(es.Box(-1.0, 1.0), n=4, d=2, statistic="mean", epsilon=0.1, delta=1e-6)
    with pytest.warns(es.AccuracyWarning, match="noise would be as large"):
        plan.release(rows)


def test_a_release_says_how_many_rows_noise_can_hide():
    """Four stds of the count of clipped rows: half as many at twice the budget."""
    few = [es.mean(X, es.Ball(1e5), budget=es.Budget(mu=mu), rng=rng()).clipping_bias.undetected_rows for mu in (1, 2)]
    assert few[0] == pytest.approx(2 * few[1], abs=1)
    assert f"but for {few[0]} rows or fewer" in repr(es.mean(X, es.Ball(1e5), budget=es.Budget(mu=1), rng=rng()))
