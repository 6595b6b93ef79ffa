"""Count, mean and std in one release: what is published, how far it is off, and what its intervals cover."""

import json
from dataclasses import replace

import numpy as np
import pandas
import pyarrow as pa
import pytest
from scipy import stats

import ellipsum as es
from ellipsum.kernels.accumulate import accumulate
from ellipsum.noise import Stream
from ellipsum.releases.description import Description

RELATIONS = ("replace", "add_remove")
SPEND = {"epsilon": 1.0, "delta": 1e-6}
LAWS = {
    "gaussian": {"noise": "gaussian"},
    "knorm_l2": {"noise": "knorm"},
    "knorm_linf": {"noise": "knorm", "delta": 0.0},
}
LOWER, UPPER = np.array([0.0, -3.0, 10.0]), np.array([100.0, 3.0, 30.0])
BOX = es.Box(LOWER, UPPER)


def describe(*data, **how):
    """Without quantiles, which stand beside and have tests of their own."""
    return es.describe(*data, quantiles=None, **how)


def make_plan(statistic, *bounds, **how):
    return es.plan(statistic, *bounds, **({"quantiles": None} if statistic == "describe" else {}), **how)


def rng(seed=0):
    return np.random.default_rng(seed)


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def data(n=2000, share=0.3):
    x = LOWER + rng().beta([2, 5, 1], [5, 2, 1], (n, 3)) * (UPPER - LOWER)
    x[rng(1).random(x.shape) < share] = np.nan
    return x


def plan_of(law, relation, rows=BOX, n=2000, **more):
    """A plan under one law; of the two norm laws the one that is asked for."""
    terms = {**SPEND, **LAWS[law], **more}
    made = make_plan("describe", rows, n=n, neighbors=relation, **terms)
    if made.mechanism == law:
        return made
    from ellipsum.plans import noise_selection
    from ellipsum.request.request import Request  # as a call has it, with the other law alone

    request = Request("describe", rows, es.Budget(epsilon=terms["epsilon"], delta=terms["delta"]), relation, n)
    maker = {"knorm_l2": "plan_blocks", "knorm_linf": "plan_spherical"}[law]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            noise_selection,
            maker,
            getattr(noise_selection, {"knorm_l2": "plan_spherical", "knorm_linf": "plan_blocks"}[law]),
        )
        made = noise_selection._plan(replace(request, noise="knorm").sized(n, rows.d))
    assert made.mechanism == law
    return made


def drawn(plan, x, repeats, seed=5):
    """Many releases of the same rows, added up once."""
    partial, generator = accumulate(plan.row_map, [x]), rng(seed)
    return [plan.publish(plan.noisy_sums(partial, Stream.open(generator)), False) for _ in range(repeats)]


# What is published --------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["skip", "drop_row", "none", 15.0])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("law", LAWS)
def test_with_a_huge_budget_the_columns_come_out(law, relation, missing):
    x = data()
    x[5] = [1e9, -1e300, np.inf]
    rows = BOX if missing != 15.0 else es.Box([0, -3, 10], [100, 20, 30])
    lower, upper = rows.bounds()
    terms = {"neighbors": relation, "n": 2000, "missing": missing, "count_clipped": False, **SPEND, **LAWS[law]}
    made = describe(x, rows, rng=rng(), **{**terms, "epsilon": 1e6})
    assert isinstance(made, Description)
    assert made.statistic == "describe"
    held = np.where(np.isfinite(x), np.clip(x, lower, upper), np.nan)
    if missing == "drop_row":
        held = held[np.isfinite(held).all(1)]
    elif missing != "skip":
        held = np.where(np.isnan(held), (lower + upper) / 2 if missing == "none" else missing, held)
    assert made.count == pytest.approx(np.isfinite(held).sum(0), abs=0.05)
    assert made.mean == pytest.approx(np.nanmean(held, 0), abs=2e-3)
    assert made.std == pytest.approx(np.nanstd(held, 0), abs=2e-3)
    assert np.array_equal(made.value, made.mean)


@pytest.mark.parametrize("missing", ["skip", "drop_row", "none", None])
@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_means_have_the_noise_of_mean(relation, check, missing):
    """Under Gaussian noise, to the last bit: squares are free [S11]."""
    how = {"n": 500, "neighbors": relation, "count_clipped": check, "missing": missing, "noise": "gaussian", **SPEND}
    ours, plain = (make_plan(statistic, BOX, **how) for statistic in ("describe", "mean"))
    assert np.array_equal(ours.noise_std, plain.noise_std)
    assert ours.noise_units == plain.noise_units
    assert ours.count_units == plain.count_units
    assert np.array_equal(ours.auxiliary.absences, plain.auxiliary.absences)
    assert ours.expected_squared_error == plain.expected_squared_error


def test_squares_are_wider_where_only_the_distance_of_rows_matters():
    how = {"n": 500, "noise": "gaussian", **SPEND}
    wide = make_plan("describe", BOX, missing="none", **how)
    counted = make_plan("describe", BOX, **how)
    assert wide.noise_units == counted.noise_units
    assert (1.65 * wide.std_errors < counted.std_errors).all()
    private = make_plan("describe", BOX, missing="none", neighbors="add_remove", **how)
    ratio = np.array(private.auxiliary.squares) / private.row_map.limits
    assert (ratio < 1).all()
    assert (ratio > 0.999).all()


def test_a_plan_with_less_noise_is_refused():
    for relation in RELATIONS:
        for law in LAWS:
            plan = plan_of(law, relation)
            fields = json.loads(plan.to_json())
            if law == "gaussian":
                fields["noise_units"] *= 1 - 1e-9
            elif law == "knorm_l2":
                fields["law"]["scale"] *= 1 - 1e-9
            else:
                fields["law"]["scales"][0] *= 1 - 1e-9
            with pytest.raises(es.UsageError, match="noise is below"):
                es.Plan.from_json(json.dumps(fields))
            fields = json.loads(plan.to_json())
            fields["auxiliary"]["squares"] = [2 * unit for unit in fields["auxiliary"]["squares"]]
            with pytest.raises(es.UsageError, match="noise is below"):
                es.Plan.from_json(json.dumps(fields))


def test_the_law_of_least_forecast_error_is_taken():
    for d in (1, 3, 40):
        plan = make_plan("describe", es.Box(0, 1), n=900, d=d, **SPEND)
        assert plan.mechanism == min(plan.considered, key=plan.considered.get)
    assert make_plan("describe", es.Box(0, 1), n=900, d=2, budget=es.Budget(mu=1.0)).mechanism == "gaussian"
    assert make_plan("describe", es.Box(0, 1), n=900, d=2, epsilon=1, delta=0).privacy.pure == (1.0,)


def test_every_source_gives_the_same_bits(tmp_path):
    x = data(500)
    frame = pandas.DataFrame(x, columns=["a", "b", "c"])
    frame.to_csv(tmp_path / "x.csv", index=False)
    rows = es.Box(dict(zip("abc", zip(LOWER, UPPER, strict=True), strict=True)))
    made = [
        describe(source, rows, rng=rng(), threads=threads, **SPEND).to_json()
        for source in (frame, pa.Table.from_pandas(frame), tmp_path / "x.csv", frame.iloc[::-1])
        for threads in (1, 2)
    ]
    assert len(set(made)) == 1


def test_integers_have_no_count_of_their_own():
    x = rng().integers(0, 10, (300, 2))
    made = describe(x, es.Box(0, 9), **SPEND)
    assert (made.count == 300).all()
    assert (made.confidence_interval(0.95, "count") == 300).all()
    assert made.to_pandas().loc["count"].tolist() == [300, 300]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("per_person", "each"), [("mean", 1), ("sum", 1), ("rows", 3)])
def test_people(relation, per_person, each):
    """Of people's means or sums, or of rows of which each person has at most three."""
    who = np.repeat(np.arange(400), 3)
    x = rng().uniform(-1, 1, (1200, 2))
    table = pandas.DataFrame({"who": who, "a": x[:, 0], "b": x[:, 1]})
    people = es.People("who", per_person, None if per_person == "mean" else 3)
    how = {"privacy_id": people, "neighbors": relation, "noise": "gaussian"}
    n = {"n": 400} if relation == "add_remove" else {}
    made = describe(table, es.Box(-3, 3), rng=rng(), epsilon=1e6, delta=1e-6, **how, **n)
    groups = table.groupby("who")
    rows = x if per_person == "rows" else getattr(groups, per_person)().to_numpy()
    assert made.count == pytest.approx([len(rows)] * 2, abs=0.01)
    assert made.mean == pytest.approx(rows.mean(0), abs=1e-3)
    assert made.std == pytest.approx(rows.std(0), abs=1e-3)
    assert made.privacy.unit == "person"
    plain, ours = (make_plan(s, es.Box(-3, 3), d=2, n=400, **how, **SPEND) for s in ("mean", "describe"))
    assert np.array_equal(plain.noise_std, ours.noise_std)


# How far it is off --------------------------------------------------------------------------------------


def even(n, d):
    """Columns spread evenly over their bounds, which is what forecasts take them for."""
    return np.stack([rng(j).permutation(np.linspace(-1, 1, n)) for j in range(d)], axis=1)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("law", LAWS)
def test_errors_are_as_forecast(law, relation):
    """Root mean squares of 8 columns and 400 releases: within what chance allows, which 10% less noise is not.

    Errors of releases are independent, those of columns share a radius under two laws: the spread over releases tells.
    """
    n, d, repeats = 20_000, 8, 400
    plan = plan_of(law, relation, es.Box(-np.ones(d), np.ones(d)), n)
    made = drawn(plan, even(n, d), repeats)
    # An even column has its mean in the middle, where counts do not move it: only the sums' noise is left.
    for errors, forecast in (
        (np.array([r.mean for r in made]), plan.noise_std),
        (np.array([r.std for r in made]) - np.sqrt((n + 1) / (3 * (n - 1))), plan.std_errors),
    ):
        squares = ((errors / forecast) ** 2).mean(1)
        se = squares.std(ddof=1) / np.sqrt(repeats)
        assert abs(squares.mean() - 1) < 5 * se
        assert 5 * se < 1 - 0.9**2


# What intervals cover -----------------------------------------------------------------------------------

UGLY_LOWER, UGLY_UPPER = np.array([0, 0, 0, 0, -3, -1, 0.0]), np.array([30, 10, 10, 10, 3, 1, 1.0])


def ugly(n):
    """Skewed, zero-inflated, constant inside and at a bound, normal, two-valued and tiny columns; 40% missing."""
    g = rng()
    x = np.column_stack([
        np.minimum(g.lognormal(0, 1.2, n), 30),
        np.where(g.random(n) < 0.9, 0, g.uniform(0, 10, n)),
        np.full(n, 3.0),
        np.zeros(n),
        g.normal(0, 1, n).clip(-3, 3),
        g.choice([-1.0, 1.0], n),
        g.uniform(0, 1e-3, n),
    ])  # fmt: skip
    x[g.random(x.shape) < 0.4] = np.nan
    return x


@pytest.mark.one_in(3)
@pytest.mark.parametrize("n", [slow(100), 400, slow(20_000)])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("law", LAWS)
def test_intervals_cover_on_ugly_tables(law, relation, n):
    """At each level as often as stated, but for chance (odds of 1e-9): near a std of 0, and with few rows."""
    x, repeats = ugly(n), 400
    wanted = {"count": np.isfinite(x).sum(0), "mean": np.nanmean(x, 0), "std": np.nanstd(x, 0)}
    plan = plan_of(law, relation, es.Box(UGLY_LOWER, UGLY_UPPER), n)
    made = drawn(plan, x, repeats)
    allowance = 1e-9 * (UGLY_UPPER - UGLY_LOWER)[:, None] * [-1, 1]  # the grid's own rounding
    for of, value in wanted.items():
        for level in (0.5, 0.95):
            spans = np.array([r.confidence_interval(level, of) for r in made]) + allowance
            hits = ((spans[:, :, 0] <= value) & (value <= spans[:, :, 1])).sum(0)
            assert (hits >= stats.binom.ppf(1e-9 / 7, repeats, level)).all(), (of, level, hits)


@pytest.mark.parametrize("law", LAWS)
def test_intervals_are_no_wider_than_needed(law):
    """With many rows: half of those at 50% miss, and 20% narrower ones would miss too often."""
    n, d, repeats = 50_000, 8, 400
    plan = plan_of(law, "replace", es.Box(-np.ones(d), np.ones(d)), n)
    made = drawn(plan, even(n, d), repeats)
    spans = np.array([r.confidence_interval(0.95, "std") for r in made])
    value = np.sqrt((n + 1) / (3 * (n - 1)))
    errors = np.abs(np.array([r.std for r in made]) - value)
    half = (spans[:, :, 1] - spans[:, :, 0]) / 2
    assert (errors > half).mean() > 0.01
    assert (errors > 0.8 * half).mean() > 0.06


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("law", LAWS)
def test_hardly_any_rows_give_honest_answers(law, relation):
    """Columns that nobody has, tables of three rows and of none: finite, within bounds, and open to everything."""
    tables = [np.full((50, 3), np.nan), data(3), LOWER + np.zeros((50, 3))]
    tables += [np.empty((0, 3))] if relation == "add_remove" else []
    for x in tables:
        plan = plan_of(law, relation, n=max(len(x), 1))
        for made in drawn(plan, x, 20):
            assert np.isfinite(made.std).all()
            assert ((made.std >= 0) & (made.std <= (UPPER - LOWER) / 2 * 1.000001)).all()
            spans = made.confidence_interval(0.95, "std")
            assert ((spans[:, 0] >= 0) & (spans[:, 0] <= spans[:, 1])).all()
            assert (spans[:, 1] <= (UPPER - LOWER) / 2 * 1.000001).all()
            assert (made.confidence_interval(0.95, "count") >= 0).all()
            few = made.counts.rows < 3 * made.counts.stds
            assert spans[few] == pytest.approx(np.outer((UPPER - LOWER)[few] / 2, [0, 1]), rel=1e-9)
            json.loads(made.to_json())


# Files and texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("law", LAWS)
def test_a_release_comes_back_from_its_file(law, relation, tmp_path):
    plan = plan_of(law, relation)
    assert es.Plan.from_json(plan.to_json()) == plan
    made = plan.release(data(), rng=rng())
    made.save(tmp_path / "r.json")
    again = es.load(tmp_path / "r.json")
    assert again == made
    assert isinstance(again, Description)
    assert again.to_json() == made.to_json()
    assert repr(again) == repr(made)
    for of in ("count", "mean", "std"):
        assert np.array_equal(again.confidence_interval(0.9, of), made.confidence_interval(0.9, of))


def test_a_doctored_release_is_refused():
    made = describe(data(), BOX, rng=rng(), **SPEND).to_dict()
    mean = es.mean(data(), BOX, rng=rng(), **SPEND).to_dict()

    def refused(fields):
        with pytest.raises(es.UsageError):
            es.from_json(json.dumps(fields))

    section = made["describe"]
    for name in section:
        refused({**made, "describe": {key: part for key, part in section.items() if key != name}})
    for name in ("count", "std", "std_error"):
        refused({**made, "describe": {**section, name: [part * 1.01 for part in section[name]]}})
        refused({**made, "describe": {**section, name: section[name][:2]}})
    refused({**made, "describe": {**section, "more": 1}})
    refused({**made, "describe": None})
    refused({key: part for key, part in made.items() if key != "describe"})
    refused({**made, "denoised": "clamp"})
    refused({**made, "statistic": "mean"})
    refused({**mean, "describe": section})
    plan = made["plan"]
    refused({**made, "plan": {**plan, "statistic": "mean"}})
    for squares in ([], [0, 0, 0], plan["auxiliary"]["squares"][:2]):
        with pytest.raises(es.UsageError):
            es.Plan.from_json(json.dumps({**plan, "auxiliary": {**plan["auxiliary"], "squares": squares}}))
    with pytest.raises(es.UsageError):
        es.Plan.from_json(json.dumps({**mean["plan"], "statistic": "describe"}))


def test_texts_and_frames():
    names = {"age": (0, 100), "<b>": (-3, 3), "c": (10, 30)}
    made = describe(data(), es.Box(names), rng=rng(), **SPEND)
    text, html = repr(made), made._repr_html_()
    for word in ("count, mean and standard deviation", "population", "95% CI", "NOT PRIVATE", "age"):
        assert word in text
        assert word in html
    assert "<b>" not in html.replace("<b>Differentially", "")
    frame = made.to_pandas()
    assert list(frame.columns) == ["age", "<b>", "c"]
    assert list(frame.index) == ["count", "mean", "std"]
    assert np.array_equal(frame.loc["std"], made.std)
    assert "NOT PRIVATE" in frame.columns.name
    assert "expected error of std" in repr(made.plan)
    assert made.std_error.shape == (3,)
    private = describe(data(), es.Box(names), neighbors="add_remove", n=2000, **SPEND)
    assert "noisy count" in repr(private)
    assert private.row_count == pytest.approx(2000, abs=300)


def test_a_target_error_is_for_the_means():
    plan = make_plan("describe", BOX, n=5000, error=0.5, delta=1e-6)
    assert np.sqrt(plan.expected_squared_error) == pytest.approx(0.5, rel=1e-3)


def test_what_is_refused():
    x = data(100)
    for rows in (es.Ball(9.0), es.Normal(0.0, 1.0), es.Unknown(9.0)):
        with pytest.raises(es.UsageError, match="describe needs bounds"):
            describe(x, rows, **SPEND)
        with pytest.raises(es.UsageError, match="describe needs bounds"):
            make_plan("describe", rows, n=9, d=3, **SPEND)
    made = describe(x, BOX, **SPEND)
    with pytest.raises(es.UsageError, match="denoise"):
        made.denoise("james_stein")
    for wrong in ("median", 3, None):
        with pytest.raises(es.UsageError):
            made.confidence_interval(0.9, wrong)
    for wrong in (0, 1, 2.0, "a", None):
        with pytest.raises(es.UsageError):
            made.confidence_interval(wrong, "std")
    with pytest.raises(es.UsageError, match="has no argument"):
        describe(x, BOX, clip=3, **SPEND)


def test_a_column_that_never_varies():
    """Its mean is known and its std is 0, with nothing added."""
    made = describe(np.full((50, 2), 5.0), es.Box([5, 0], [5, 9]), **SPEND)
    assert made.std[0] == 0
    assert made.mean[0] == 5
    assert (made.confidence_interval(0.95, "std")[0] == 0).all()


def test_bounds_far_apart_and_far_out():
    for lower, upper in (([0, 0], [1e-12, 1e12]), ([1e15, -1e9], [1e15 + 1, 1e9]), ([0, 0], [1e-300, 1])):
        x = np.linspace(lower, upper, 400)
        made = describe(x, es.Box(lower, upper), **SPEND)
        assert np.isfinite(made.std).all()
        assert np.isfinite(made.confidence_interval(0.95, "std")).all()
        assert es.from_json(made.to_json()) == made


# Correlations -------------------------------------------------------------------------------------------

CORRELATED = {"covariance": True, "missing": "drop_row"}


def related(n=5000, share=0.05):
    """Correlations of 0.8, -1, 0 and next to a constant."""
    z = rng().normal(size=(n, 3)).clip(-3, 3) / 3
    x = np.column_stack([z[:, 0], 0.8 * z[:, 0] + 0.2 * z[:, 1], -z[:, 0], z[:, 2], np.full(n, 0.3)])
    x[rng(1).random(x.shape) < share] = np.nan
    return x


def correlations(x):
    whole = x[np.isfinite(x).all(1)]
    spread = whole.std(0) > 1e-9
    wanted = np.eye(x.shape[1])
    wanted[np.ix_(spread, spread)] = np.corrcoef(whole[:, spread].T)
    return wanted


@pytest.mark.parametrize("missing", ["drop_row", "none", 0.5])
@pytest.mark.parametrize("relation", RELATIONS)
def test_correlations_come_out(relation, missing):
    x = related()
    box = es.Box(-np.ones(5), np.ones(5))
    how = {"neighbors": relation, "n": 5000, "missing": missing, "epsilon": 1e6, "delta": 1e-6}
    made = describe(x, box, covariance=True, rng=rng(), **how)
    whole = x[np.isfinite(x).all(1)]
    filled = whole if missing == "drop_row" else np.nan_to_num(x, nan=0 if missing == "none" else 0.5)
    assert made.covariance == pytest.approx(np.cov(filled.T, bias=True), abs=1e-4)
    spread = np.ix_(range(4), range(4))
    assert made.correlation[spread] == pytest.approx(np.corrcoef(filled[:, :4].T), abs=1e-3)
    assert (np.diag(made.correlation) == 1).all()
    assert es.from_json(made.to_json()) == made


def test_correlations_cost_what_is_stated():
    how = {"n": 500, "noise": "gaussian", "missing": "drop_row", "count_clipped": False, **SPEND}
    plain, ours = es.plan("mean", BOX, **how), make_plan("describe", BOX, covariance=True, **how)
    assert ours.noise_std == pytest.approx(plain.noise_std * np.sqrt(2), rel=1e-6)
    assert "error of a correlation" in repr(ours)
    assert es.Plan.from_json(ours.to_json()) == ours
    fields = json.loads(ours.to_json())
    fields["auxiliary"]["products"] += 1
    with pytest.raises(es.UsageError, match="noise is below"):
        es.Plan.from_json(json.dumps(fields))


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_error_of_a_correlation_is_as_forecast(relation):
    """Evenly spread columns, each by itself; 10% less noise would be noticed."""
    n, d, repeats = 20_000, 6, 400
    x = even(n, d)
    plan = make_plan("describe", es.Box(-1, 1), d=d, n=n, neighbors=relation, **CORRELATED, **SPEND)
    pairs = np.triu_indices(d, 1)
    errors = np.array([r.correlation[pairs] for r in drawn(plan, x, repeats)]) - np.corrcoef(x.T)[pairs]
    squares = ((errors / plan.correlation_error) ** 2).mean(1)
    se = squares.std(ddof=1) / np.sqrt(repeats)
    assert abs(squares.mean() - 1) < 5 * se
    assert 5 * se < 1 - 0.9**2


@pytest.mark.parametrize("n", [slow(100), 400, 5000])
@pytest.mark.parametrize("relation", RELATIONS)
def test_intervals_of_correlations_cover(relation, n):
    x, repeats = related(n), 300
    plan = make_plan("describe", es.Box(-1, 1), d=5, n=n, neighbors=relation, **CORRELATED, **SPEND)
    wanted = correlations(x)
    for level in (0.5, 0.95):
        spans = np.array([r.correlation_interval(level) for r in drawn(plan, x, repeats)])
        hits = ((spans[..., 0] - 1e-9 <= wanted) & (wanted <= spans[..., 1] + 1e-9)).sum(0)
        assert (hits >= stats.binom.ppf(1e-9 / 10, repeats, level)).all(), hits
        assert (np.abs(spans) <= 1).all()


def test_correlations_that_are_refused():
    x = related(100)
    box = es.Box(-np.ones(5), np.ones(5))
    for how, word in (
        ({}, "complete rows"),
        ({"missing": "drop_row", "noise": "knorm"}, "Gaussian"),
        ({"missing": "drop_row", "delta": 0.0}, "Gaussian"),
    ):
        with pytest.raises(es.UsageError, match=word):
            describe(x, box, covariance=True, **{**SPEND, **how})
    with pytest.raises(es.UsageError, match="columns"):
        make_plan("describe", es.Box(0, 1), n=9, d=1, **CORRELATED, **SPEND)
    with pytest.raises(es.UsageError, match="covariance"):
        es.plan("mean", es.Box(0, 1), n=9, d=2, **CORRELATED, **SPEND)
    with pytest.raises(es.UsageError, match="covariance"):
        describe(x, box, covariance="yes", **SPEND)
    plain = describe(x, box, **SPEND)
    for name in ("correlation", "covariance"):
        with pytest.raises(es.UsageError, match="no covariances"):
            getattr(plain, name)
    made = describe(x, box, rng=rng(), **CORRELATED, **{**SPEND, "epsilon": 100.0}).to_dict()
    section = made["describe"]
    for name, wrong in (
        ("correlation", np.eye(5).tolist()),
        ("correlation", np.eye(4).tolist()),
        ("correlation", None),
    ):
        with pytest.raises(es.UsageError):
            es.from_json(json.dumps({**made, "describe": {**section, name: wrong}}))


def test_correlations_in_words():
    made = describe(related(500), es.Box(-np.ones(5), np.ones(5)), **CORRELATED, **SPEND)
    assert "correlation" in repr(made)
    assert ">correlation</th>" in made._repr_html_()
