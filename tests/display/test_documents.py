"""Documents of plans and releases: columns, missing values, bounds, counts, guarantees and warnings."""

from dataclasses import replace

import numpy as np
import pytest

import ellipsum as es
from ellipsum.display.document import Document, TextTable, make_table, text
from ellipsum.display.wording import describe_guarantee, format_interval, format_number, format_up
from ellipsum.releases.documents import describe_missing_values

SPEND = {"epsilon": 8, "delta": 1e-6}
BOX = es.Box({"age": (0, 120), "income": (0, 5000)})
X = np.column_stack([np.linspace(20, 70, 900), np.linspace(1000, 4000, 900)])
GAPS = np.where(np.arange(900)[:, None] % 3 == 0, [np.nan, 0], 0) + X


def rng():
    return np.random.default_rng(0)


def test_a_plan_has_a_line_for_every_column():
    plan = es.plan("mean", BOX, n=900, **SPEND)
    age, income = plan.document().tables[0].lines
    errors = plan.expected_error
    assert age == ["age", "[0, 120]", f"{errors[0]:.3g}"]
    assert income == ["income", "[0, 5,000]", f"{errors[1]:.3g}"]
    facts = dict(plan.document().facts)
    assert facts["Weights"].startswith("relative")
    assert facts["Missing"] == COLUMN
    assert all(cell in repr(plan) for cell in (*age, *income))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (es.Normal({"z": (0, 1), "a": (1, 2)}), "1 ± 2"),
        (es.Normal([5.0, 6.0], cov=[[4.0, 1.0], [1.0, 9.0]]), "6 ± 3"),
        (es.Ball(3, center=[7.0, 8.0]), "8"),
        (es.Box([0, 1], [1, 3.5]), "[1, 3.5]"),
    ],
)
def test_what_is_stated_of_a_column_is_shown(rows, said):
    assert es.plan("mean", rows, n=900, **SPEND).document().tables[0].lines[1][1] == said


def test_at_most_twelve_columns_are_listed():
    plan = es.plan("sum", es.Box(0, 1), n=900, d=40, **SPEND)
    assert "x12 " in repr(plan)
    assert "x13" not in repr(plan)
    assert "... 28 more" in repr(plan)
    assert "... 28 more columns" in plan._repr_html_()
    assert "more columns" not in repr(es.plan("sum", es.Box(0, 1), n=900, d=12, **SPEND))
    assert len(plan.document(30).tables[0].lines) == 30


def test_a_plan_says_which_statistic_it_took():
    for rows in (BOX, es.Unknown(1e6, columns=BOX.columns)):
        for statistic in ("sum", "mean"):
            title = es.plan(statistic, rows, n=900, **SPEND).document().title
            assert title.startswith(f"Plan for a differentially private {statistic} of 2 columns")
            assert "n = 900" in title


def test_a_plan_without_n_still_lists_its_columns():
    text = repr(es.plan("mean", BOX, neighbors="add_remove", **SPEND))
    assert "pass n=" in text
    assert "[0, 120]" in text


def test_plans_as_html_escape_names():
    html = es.plan("sum", es.Box({"<script>": (0, 1), "b": (0, 2)}), n=9, **SPEND)._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "<td>[0, 2]</td>" in html
    assert "relative" in html


def test_a_plan_whose_noise_drowns_the_answer_says_so():
    thin = es.plan("mean", BOX, n=900, epsilon=0.01, delta=1e-6)
    assert repr(thin).splitlines()[-1] == f"  Warning    {thin.warning}"
    assert f"Warning: {thin.warning}" in thin._repr_html_()
    assert "Warning" not in repr(es.plan("mean", BOX, n=900, **SPEND))


def weights(plan):
    return dict(plan.document().facts).get("Weights", "")


def test_weights_are_named():
    def words(**more):
        return weights(es.plan("sum", es.Box([0, 0], [1, 2]), n=900, **more, **SPEND))

    assert words().startswith("equal")
    assert words(error_weights="relative").startswith("relative")
    assert words(error_weights=[1, 5]) == "as given: 1, 5"
    assert weights(es.plan("sum", es.Ball(1), n=900, d=2, **SPEND)) == ""
    assert weights(es.plan("sum", es.Unknown(1), n=900, d=2, **SPEND)).startswith("equal")
    assert weights(es.plan("sum", es.Unknown(1), n=900, columns=["a", "b"], **SPEND)).startswith("relative")


ROW = "rows with a missing value are left out; the number of complete rows is noisy"
COLUMN = "skipped in each column; counts are noisy"
CENTER = "none, as the caller states; a missing value would count as the center"
NOTHING = "missing values add nothing"
NOISY = f"{NOTHING}; counts are noisy"


@pytest.mark.parametrize(
    ("rows", "statistic", "missing", "said"),
    [
        (BOX, "mean", None, COLUMN),
        (BOX, "mean", "drop_row", ROW),
        (BOX, "mean", "none", CENTER),
        (BOX, "mean", 0, "missing values count as 0"),
        (BOX, "mean", np.array([1.5, 2]), "missing values count as 1.5, 2"),
        (BOX, "sum", None, NOTHING),  # 0 is within the bounds: filled in, not counted
        (es.Box({"age": (10, 120)}), "sum", None, NOISY),
        (BOX, "sum", "none", CENTER),
        (es.Normal([0.0, 0.0], std=1.0), "sum", None, NOTHING),
        (es.Normal([0.0, 1.0], std=1.0), "sum", None, NOISY),
        (es.Ball(1, [0.0, 0.0]), "mean", None, ROW),
        (es.Ball(1, [0.0, 0.0]), "mean", "skip", COLUMN),
        (es.Ball(1, [0.0, 0.0]), "sum", "none", CENTER),
    ],
)
def test_the_rule_for_missing_entries(rows, statistic, missing, said):
    plan = es.plan(statistic, rows, n=900, missing=missing, **SPEND)
    assert describe_missing_values(plan) == said
    assert ("Missing", said) in plan.document().facts
    assert describe_missing_values(es.Plan.from_json(plan.to_json())) == said


def test_the_rule_where_no_type_can_be_missing():
    whole = X.astype(np.int64)
    for statistic in (es.mean, es.sum):
        for rows in (BOX, es.Normal({"age": (45, 15), "income": (2500, 900)})):
            assert describe_missing_values(statistic(whole, rows, **SPEND).plan) == "none, by the types of the columns"
    assert describe_missing_values(es.mean(whole, es.Ball(5000), **SPEND).plan) == "none, by the types of the columns"


def test_learning_names_its_rule():
    for missing, said in ((None, COLUMN), ("drop_row", ROW), (0, "missing values count as 0")):
        plan = es.plan("mean", es.Unknown(1e6), n=900, d=2, missing=missing, **SPEND)
        assert ("Missing", said) in plan.document().facts


def test_a_release_shows_intervals_and_counts():
    made = es.mean(GAPS, BOX, rng=rng(), noise="gaussian", **SPEND)
    table = made.document().tables[0]
    low, high = made.confidence_interval(0.95)[0]
    assert list(table.heads) == ["column", "estimate", "std. error", "95% CI", "non-missing"]
    assert table.lines[0][2:4] == [f"{made.standard_error[0]:.3g}", f"[{low:.2f}, {high:.2f}]"]
    assert table.lines[0][4] == f"{made.counts.rows[0]:.1f} ± {made.counts.stds[0]:.2g}"
    assert abs(made.counts.rows[0] - 600) < 7 * made.counts.stds[0]
    html = made._repr_html_()
    assert f"<td>[{low:.2f}, {high:.2f}]</td>" in html
    center = es.mean(GAPS, BOX, missing="none", rng=rng(), noise="gaussian", **SPEND)
    assert "non-missing" not in center.document().tables[0].heads


def test_complete_rows_are_shown_where_rows_are_left_out():
    made = es.mean(GAPS, BOX, missing="drop_row", rng=rng(), noise="gaussian", **SPEND)
    rows, std = made.counts.rows[0], made.counts.stds[0]
    assert f"{format_number(rows, std)} ± {std:.2g} rows have no missing value" in repr(made)
    assert "rows have no missing value" in made._repr_html_()


NOT_COUNTED = "which was not counted"


@pytest.mark.parametrize(
    ("rows", "more", "said"),
    [
        (BOX, {}, "excludes sampling error and bias from clamping to the bounds"),
        (BOX, {"count_clipped": False}, NOT_COUNTED),
        (es.Normal({"age": (45, 15), "income": (2500, 900)}), {}, "and the bias from clipping, except that of "),
        (
            es.Normal({"age": (45, 15), "income": (2500, 900)}),
            {"count_clipped": False},
            NOT_COUNTED,
        ),
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
    assert repr(made).splitlines()[-1] == f"  Warning    {made.warnings[-1]}"
    assert "Warning: About" in made._repr_html_()


def shifted(made, value):
    """The release with noise that gave this value."""
    counts = 1.0 if made.statistic == "sum" else 900.0
    noisy, ellipsoid = made.noisy.copy(), made.plan.ellipsoid
    noisy[:] = 0
    center = ellipsoid.center * (900.0 if made.statistic == "sum" else 1.0)
    noisy[: ellipsoid.width] = ellipsoid.scaled((value - center) * counts)
    return replace(made, noisy=noisy)


def test_values_at_their_bounds_are_marked():
    def notes(statistic, values, **more):
        made = es.mean(X, BOX, **more, **SPEND) if statistic == "mean" else es.sum(X, BOX, **more, **SPEND)
        lines = map(" ".join, shifted(made, np.array(values, float)).document().tables[0].lines)
        said = {"upper": "at upper bound", "lower": "at lower bound", "beyond": "beyond what the bounds allow"}
        return [next((note for note, text in said.items() if text in line), "") for line in lines]

    assert notes("mean", [120, 0]) == ["upper", "lower"]
    assert notes("mean", [130, -3]) == ["upper", "lower"]
    assert notes("mean", [119.9, 0.1]) == ["", ""]
    assert notes("sum", [120 * 900 + 1, -1]) == ["beyond", "beyond"]
    assert notes("sum", [121, 1]) == ["", ""]
    constant = es.mean(np.full((900, 2), 5.0), es.Box([5, 0], [5, 9]), **SPEND)
    assert "bound" not in " ".join(constant.document().tables[0].lines[0])


def test_an_interval_that_was_cut_keeps_its_digits():
    """A std of at most 0.5 with an error of 3 is not "[0, 0]"."""
    assert format_interval(np.array([0.0, 0.5]), 3.0) == "[0.00, 0.50]"
    assert format_interval(np.array([0.0, 2.5]), 40.0) == "[0.0, 2.5]"
    assert format_interval(np.array([53.835, 54.077]), 0.0583) == "[53.835, 54.077]"
    assert format_interval(np.array([5.0, 5.0]), 3.0) == "[5.0, 5.0]"


def test_a_friendly_mean_says_that_it_used_a_subset():
    rows = np.random.default_rng(0).normal(size=(3000, 2))
    some = es.friendly_mean(rows, 7.0, max_rows=500, **SPEND)
    assert "a random subset of 500 of 3,000 rows" in repr(some)
    assert "a random subset of 500 of 3,000 rows" in some._repr_html_()
    every = es.friendly_mean(rows, 7.0, **SPEND)
    assert "subset" not in repr(every)
    none = es.friendly_mean(rows, 1e-9, max_rows=500, **SPEND)
    assert not none
    assert "too few rows lie within radius" in repr(none)
    assert "a random subset of 500 of 3,000 rows" in repr(none)


def test_rows_of_people_are_told_from_one_row_for_each():
    import pyarrow as pa

    table = pa.table({"who": np.arange(900) // 3, "age": X[:, 0]})
    bounds = {"age": (0, 120)}
    each = es.mean(table, bounds, privacy_id=es.People("who", "rows", 2), **SPEND)
    assert "at most 2 rows of a person, each by itself; identified by 'who'" in repr(each)
    one = es.mean(table, bounds, privacy_id=es.People("who", "mean", 2), **SPEND)
    assert "the mean of at most 2 rows of a person; identified by 'who'" in repr(one)


def test_a_plan_whose_noise_drowns_the_answer_warns_before_it_is_run():
    rows = np.zeros((4, 2))
    with pytest.warns(es.AccuracyWarning, match="expected error is as large"):
        es.mean(rows, es.Box(-1.0, 1.0), epsilon=0.1, delta=1e-6)
    plan = es.plan("mean", es.Box(-1.0, 1.0), n=4, d=2, epsilon=0.1, delta=1e-6)
    with pytest.warns(es.AccuracyWarning, match="expected error is as large"):
        plan.release(rows)


def test_a_release_says_how_many_rows_noise_can_hide():
    """Four stds of the count of clipped rows: half as many at twice the budget."""
    few = [es.mean(X, es.Ball(1e5), budget=es.Budget(mu=mu), rng=rng()).clipping_bias.undetected_rows for mu in (1, 2)]
    assert few[0] == pytest.approx(2 * few[1], abs=1)
    assert f"except that of {few[0]:,} or fewer distant rows" in repr(
        es.mean(X, es.Ball(1e5), budget=es.Budget(mu=1), rng=rng())
    )


def test_a_guarantee_is_told_as_it_is_spent():
    """Never stronger than it is: numbers are rounded up."""

    def words(rows, delta=1e-6, **more):
        plan = es.plan("sum", rows, n=900, d=2, epsilon=1, delta=delta, **more)
        return describe_guarantee(plan.privacy, plan.stated)

    pure = "epsilon = 1, delta = 0 (pure DP{}); neighbors: replace one row"
    assert words(es.Box(0, 1), delta=0) == pure.format("")
    assert words(es.Box(0, 1), noise="knorm") == pure.format("; the requested delta of 1e-06 was not needed")
    gaussian = words(es.Ball(1), noise="gaussian")
    assert gaussian == "epsilon = 1, delta = 1e-06 (mu = 0.2368 Gaussian DP); neighbors: replace one row"
    spherical = es.plan("sum", es.Ball(1), n=900, d=2, epsilon=1, delta=1e-6, noise="knorm")
    assert f"(or epsilon = {format_up(spherical.privacy.ratio)}, delta = 0)" in repr(spherical)
    added = es.Privacy(0.25, 1e-7, "add_remove", "person")
    assert describe_guarantee(added) == "mu = 0.25 Gaussian DP plus delta = 1e-07; neighbors: add or remove one person"


def test_numbers_are_rounded_up_where_they_state_a_guarantee():
    assert [format_up(x) for x in (1.0, 0.1, 10.0, 0.23670401, 1e-6)] == ["1", "0.1", "10", "0.2368", "1e-06"]
    assert format_number(35738.2, 136.0) == "35,738"
    assert format_number(-0.001, 0.5) == "0.00"


def test_a_document_is_printed_table_first():
    table = make_table(["column", "estimate", ""], [["a", "1.5", ""], ["bb", "22.5", ""]], 3)
    document = Document("Title", [table], [("Privacy", "much")], ["beware"])
    assert text(document) == (
        "Title\n\n  column  estimate\n  a            1.5\n  bb          22.5\n  ... 1 more columns\n\n"
        "  Privacy  much\n  Warning  beware"
    )
    assert text(Document("Title", [TextTable(["a"], [])], [])) == "Title\n\n  a"
