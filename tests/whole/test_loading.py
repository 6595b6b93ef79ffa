"""Doctored files: whatever a loaded object shows is recomputed or checked, and what does not hold is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from pyarrow import parquet

import ellipsum as es
from ellipsum.friendly.plan import FriendlyPlan, friendly_plan
from ellipsum.kernels.accumulate import Partial
from ellipsum.learning.plan import LearningPlan
from ellipsum.noise import Stream
from ellipsum.numerics.wide_integers import Wide
from ellipsum.util import json_codec

SPEND = {"epsilon": 1.0, "delta": 1e-6}
X = np.random.default_rng(0).normal(5.0, 1.0, (500, 2))


def changed(text, *path, to):
    """The JSON with one field changed; a function gets the old value. There must be such a field."""
    fields = json.loads(text)
    inner = fields
    for key in path[:-1]:
        inner = inner[key]
    before = inner[path[-1]]
    inner[path[-1]] = to(before) if callable(to) else to
    return json.dumps(fields)


def refused(load, text, *path, to):
    with pytest.raises(es.UsageError) as caught:
        load(changed(text, *path, to=to))
    assert len(str(caught.value)) < 300


# Plans --------------------------------------------------------------------------------------------------


def test_a_stated_budget_is_the_one_that_is_spent():
    """Epsilon 58 cannot be shown as 0.01, nor 0.01 as 58, in any of the three ways of stating a budget."""
    loose = es.plan("sum", es.Ball(1.0), n=100, d=2, epsilon=58.0, delta=1e-6).to_json()
    refused(es.Plan.from_json, loose, "request", "budget", to={"epsilon": 0.01, "delta": 1e-6})
    refused(es.Plan.from_json, loose, "request", "budget", to={"epsilon": 100.0, "delta": 1e-6})
    refused(es.Plan.from_json, loose, "request", "budget", to={"epsilon": 57.99, "delta": 1e-6})
    refused(es.Plan.from_json, loose, "request", "budget", to={"mu": 1.0})
    refused(es.Plan.from_json, loose, "request", "budget", to={"epsilon": 58.0})
    refused(es.Plan.from_json, loose, "request", "budget", to={"epsilon": 58.0, "delta": 1e-6, "note": 1})
    for name in ("mu", "rho"):
        plan = es.plan("sum", es.Ball(1.0), n=100, d=2, budget=es.Budget(**{name: 0.3})).to_json()
        assert es.Plan.from_json(plan).stated == {name: 0.3}
        for factor in (0.99, 1.01):
            refused(es.Plan.from_json, plan, "request", "budget", to={name: 0.3 * factor})


@pytest.mark.parametrize(
    ("name", "to"),
    [
        ("count_units", 2**100),
        ("count_units", -1),
        ("count_units", 0),
        ("grid_bits", 4),
        ("noise_units", 1e300),
        ("clip_radius", 3.0),
        ("sum_clipping_error", -1.0),
        ("sum_clipping_error", 5.0),
        ("scale", [9.0, 9.0]),
        ("scale", [0.0, 0.0]),
        ("center", [1.0, 1.0]),
        ("axes", [[1.0, 0.0], [0.0, 1.0]]),
    ],
)
def test_a_plan_is_that_of_its_rows(name, to):
    relation = "add_remove" if name == "count_units" else "replace"
    plan = es.plan("mean", es.Box([0, 1], [2, 3]), n=100, neighbors=relation, **SPEND).to_json()
    assert es.Plan.from_json(plan).to_json() == plan
    refused(es.Plan.from_json, plan, name, to=to)


@pytest.mark.parametrize(
    ("name", "to"),
    [
        ("n", None),
        ("d", 3),
        ("columns", ["a"]),
        ("neighbors", "add_remove"),
        ("statistic", "learn"),
        ("people", {"privacy_id": "who", "per_person": "mean"}),
        ("groups", {"by": ["g"], "keys": None, "max_per_person": 1, "expected": None}),
    ],
)
def test_a_plan_is_that_of_its_request(name, to):
    plan = es.plan("mean", es.Box([0, 1], [2, 3]), n=100, **SPEND).to_json()
    refused(es.Plan.from_json, plan, "request", name, to=to)


@pytest.mark.parametrize(
    ("rows", "name"), [(es.Box(0, 1), "center"), (es.Normal(0.5, 0.3), "center"), (es.Normal(0.5, 0.3), "scale")]
)
def test_a_plan_without_a_budget_has_the_region_of_its_rows_too(rows, name):
    """As one part of a larger release has none: rows that are clipped elsewhere would give another statistic."""
    plan = es.plan("mean", rows, n=300, d=1, **SPEND)
    part = json.loads(changed(plan.to_json(), "request", "budget", to=None))
    assert es.Plan.from_dict(part).privacy == plan.privacy
    refused(es.Plan.from_json, json.dumps(part), name, to=lambda old: [0.9 * old[0] + 1e-3])


def test_the_plan_of_a_group_asks_for_what_the_plan_of_all_groups_does():
    plan = es.plan("mean", es.Box(0, 1), n=300, d=1, by=es.Groups("g", ["a", "b"]), **SPEND).to_json()
    for name, to in [("missing", 0.5), ("noise", "gaussian"), ("nullable", [False]), ("budget", SPEND)]:
        refused(es.from_json, plan, "one_group", "request", name, to=to)


def test_the_forecast_of_normal_rows_is_worked_out_again():
    plan = es.plan("mean", es.Normal([0.0, 1.0], cov=[[2.0, 0.5], [0.5, 1.0]]), n=300, **SPEND)
    text = plan.to_json()
    assert es.Plan.from_json(text).to_json() == text
    for name in ("clip_radius", "sum_clipping_error"):
        refused(es.Plan.from_json, text, name, to=lambda old: old * 0.9)
    refused(es.Plan.from_json, text, "axes", to=[[1.0, 0.0], [0.0, 1.0]])
    doctored = es.Plan.from_json(changed(text, "center_spread", to=1e-9))
    assert doctored.center_spread == plan.center_spread


def counted_plans():
    """Plans that count absences, rows left out, clipped rows or clamped cells."""
    box, normal = es.Box([0, 1], [2, 3]), es.Normal([0.0, 1.0], cov=[[2.0, 0.5], [0.5, 1.0]])
    for rows, how in [
        (box, {"count_clipped": True}),
        (box, {"count_clipped": True, "missing": "drop_row"}),
        (box, {"count_clipped": True, "missing": [0.5, 2.0]}),
        (normal, {"count_clipped": True}),
        (normal, {"count_clipped": True, "missing": "drop_row"}),
        (es.Ball(2.0, [1.0, 5.0]), {"count_clipped": True}),
    ]:
        for relation in ("replace", "add_remove"):
            yield es.plan("mean", rows, n=300, neighbors=relation, **how, **SPEND)


def test_what_a_plan_counts_beside_its_values_is_within_its_noise():
    """[S9][S10] Larger units need more noise; sizes and rules must fit together."""
    for plan in counted_plans():
        text = plan.to_json()
        assert es.Plan.from_json(text).to_json() == text
        auxiliary = plan.auxiliary
        for name in ("absences", "outside"):
            if np.any(getattr(auxiliary, name)):
                refused(es.Plan.from_json, text, "auxiliary", name, to=lambda old: [9 * unit for unit in old])
                refused(es.Plan.from_json, text, "auxiliary", name, to=lambda old: [-unit for unit in old])
                refused(es.Plan.from_json, text, "auxiliary", name, to=lambda old: [*old, 1, 1])
                refused(es.Plan.from_json, text, "auxiliary", name, to=lambda old: [float(unit) for unit in old])
                refused(es.Plan.from_json, text, "auxiliary", name, to=None)
        refused(es.Plan.from_json, text, "auxiliary", "octaves", to=lambda old: 0 if old else 12)
        refused(es.Plan.from_json, text, "auxiliary", "octaves", to=65)
        refused(es.Plan.from_json, text, "auxiliary", "missing", to=lambda old: "row" if old != "row" else "column")
        refused(es.Plan.from_json, text, "auxiliary", "missing", to="somehow")
        refused(es.Plan.from_json, text, "auxiliary", "fill", to=[0.0])
        refused(es.Plan.from_json, text, "auxiliary", "pull", to=0.4)
        refused(es.Plan.from_json, text, "auxiliary", "pull", to=1.01)
        refused(es.Plan.from_json, text, "auxiliary", to=lambda old: {**old, "more": 1})
        refused(es.Plan.from_json, text, "auxiliary", to=None)
        if auxiliary.shares is not None:
            refused(es.Plan.from_json, text, "auxiliary", "shares", to=lambda old: [2 * share for share in old])
            refused(es.Plan.from_json, text, "auxiliary", "shares", to=lambda old: [share / 2 for share in old])
            refused(es.Plan.from_json, text, "auxiliary", "shares", to=lambda old: [share + 1e-15 for share in old])
            refused(es.Plan.from_json, text, "auxiliary", "shares", to=None)
        if plan.rows.kind == "normal":  # the forecast is that of rows that are pulled in
            refused(es.Plan.from_json, text, "auxiliary", "pull", to=0.8)


def test_a_learning_plan_for_people_names_them():
    plan = es.plan("sum", es.Unknown(9.0), n=100, d=2, **SPEND).to_json()
    refused(LearningPlan.from_json, plan, "privacy", to=lambda old: {**old, "unit": "person"})
    refused(LearningPlan.from_json, plan, "request", "people", to={"privacy_id": "who", "per_person": "mean"})
    refused(LearningPlan.from_json, plan, "request", "bounds", "options", to={"whatever": 1})
    refused(LearningPlan.from_json, plan, "request", "budget", to={"epsilon": 0.5, "delta": 1e-6})
    refused(LearningPlan.from_json, plan, "request", "bounds", "method", to="friendly_core")  # it needs slack
    shown = LearningPlan.from_json(changed(plan, "relative_error", to=1e-9))
    assert shown.to_json() == plan


def test_shares_of_a_friendly_plan_are_positive():
    """A negative share has a square like any other, and no noise."""
    plan = friendly_plan(1000, 3, 1.0, budget=es.Budget(**SPEND)).to_json()
    assert FriendlyPlan.from_json(plan).to_json() == plan
    for place in range(3):
        refused(FriendlyPlan.from_json, plan, "shares", place, to=lambda old: -(old or 0.01))
    refused(FriendlyPlan.from_json, plan, "shares", 0, to=0.0)
    refused(FriendlyPlan.from_json, plan, "stated", to={"epsilon": 0.1, "delta": 1e-6})
    refused(FriendlyPlan.from_json, plan, "target", to=2.0)
    refused(FriendlyPlan.from_json, plan, "vectors", "unit", to="rows\x1b[2J")
    refused(FriendlyPlan.from_json, plan, "vectors", "used", to=999)
    named = changed(plan, "vectors", "function", to="f\x1b[2J")
    assert "\x1b" not in repr(FriendlyPlan.from_json(named))
    refused(FriendlyPlan.from_json, plan, "radii", to=[1.0, 2.0])


def test_plans_and_releases_of_earlier_versions_load():
    """A center spread without the sampling error, and another version's number."""
    old = es.plan("mean", es.Normal(0.0, 1.0), n=100, d=2, **SPEND).to_json()
    assert es.Plan.from_json(changed(old, "center_spread", to=0.1414)).to_json() == old
    assert es.Plan.from_json(changed(old, "version", to="0.0.1")).to_json() == old


# Releases -----------------------------------------------------------------------------------------------


def release(**how):
    return es.mean(
        X, es.Box({"a": (0, 10), "b": (0, 10)}), rng=np.random.default_rng(1), noise="gaussian", **SPEND, **how
    )


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("value",), [1.0]),
        (("value",), [1.0, None]),
        (("value",), ["1", "2"]),
        (("columns",), ["a", "c"]),
        (("statistic",), "sum"),
        (("noise_std",), lambda old: [std / 2 for std in old]),
        (("value",), lambda old: [value + 1 for value in old]),
        (("noisy",), lambda old: [2 * part for part in old]),
        (("noisy",), lambda old: old[:-1]),
        (("noisy",), None),
        (("denoise_options",), {"steps": 3}),
        (("secure",), 1),
        (("secure",), "yes"),
        (("secure",), None),
        (("count",), 3.0),
        (("denoised",), "washed"),
        (("privacy", "mu"), lambda old: old / 2),
        (("privacy", "mu"), lambda old: old * 2),
        (("privacy", "slack"), 0.5),
        (("plan", "noise_units"), lambda old: old * 2),
    ],
)
def test_a_release_agrees_with_its_plan(path, to):
    text = release().to_json()
    assert es.from_json(text).to_json() == text
    refused(es.from_json, text, *path, to=to)


def test_a_release_in_stated_bounds_has_learned_nothing():
    learned = es.mean(X, es.Unknown(50.0), rng=np.random.default_rng(1), **SPEND).to_dict()["learned"]
    with pytest.raises(es.UsageError):
        es.from_json(json.dumps({**release().to_dict(), "learned": learned}))


def test_the_count_of_a_release_agrees_with_its_noise():
    text = release(neighbors="add_remove", missing="none").to_json()
    assert es.from_json(text).to_json() == text
    for path, to in [
        (("count",), None),
        (("count",), lambda old: old * 2),
        (("counts", "rows"), lambda old: [2 * rows for rows in old]),
        (("noisy",), lambda old: [*old[:-1], 2 * old[-1]]),
    ]:
        refused(es.from_json, text, *path, to=to)


GAPS = np.where(np.random.default_rng(3).random(X.shape) < 0.3, np.nan, X)


def counted_releases():
    """Means and sums with columns that have counts of their own, and what was clipped."""
    for relation in ("replace", "add_remove"):
        for rows in (es.Box(1, 10), es.Normal(5.0, 1.0), es.Ball(9.0, 5.0), es.Unknown(50.0)):
            for call in (es.mean, es.sum):
                yield call(GAPS, rows, neighbors=relation, rng=np.random.default_rng(1), epsilon=9.0, delta=1e-6)


def wrong_counts(made):
    """Changes to the counts of a release, and to the noise that they give its value."""
    yield ("counts",), None
    for name in ("rows", "stds"):
        yield ("counts", name), None
        yield ("counts", name), lambda old: old[:1]
    yield ("counts", "rows"), lambda old: [9 * rows for rows in old]
    yield ("counts", "rows"), lambda old: [-rows for rows in old]
    yield ("counts", "stds"), lambda old: [std + 1 for std in old]
    if made.counts.stds.any():
        yield ("counts", "stds"), lambda old: [std / 2 for std in old]
        yield ("counts", "stds"), lambda old: [-std for std in old]
    yield ("counts",), lambda old: {**old, "more": 1}
    for name in ("clipped", "outside"):
        yield ("counts", name), lambda old: [1.0] if old is None else None
        yield ("counts", name), lambda old: [*(old or [1.0, 1.0]), 1.0]


def test_a_smaller_noise_cannot_be_shown_with_more_rows():
    """The counts, the noise and its stds changed together: whole numbers have no gaps, so n rows have every column."""
    whole = np.rint(X).astype(int)
    for relation in ("replace", "add_remove"):
        made = es.mean(whole, es.Box(0, 10), neighbors=relation, rng=np.random.default_rng(1), **SPEND)
        fields = made.to_dict()
        fields["counts"]["rows"] = [10 * count for count in made.counts.rows]
        fields["noise_std"] = [std / 10 for std in fields["noise_std"]]
        with pytest.raises(es.UsageError, match="Integrity check"):
            es.from_json(json.dumps(fields))


def test_more_rows_than_noise_can_give_are_refused():
    """Noisy sums whose counts of absences are far below zero: everything else follows from them, with less noise."""
    made = es.mean(GAPS, es.Box(1, 10), rng=np.random.default_rng(1), **SPEND)
    width, units = made.plan.ellipsoid.width, np.array(made.plan.auxiliary.absences)
    noisy = made.noisy.copy()
    noisy[width : width + 2] = -np.ldexp(9.0 * len(GAPS) * units, -made.plan.grid_bits)
    doctored = replace(made, noisy=noisy)
    assert (doctored.noise_std < made.noise_std / 5).all()
    with pytest.raises(es.UsageError, match="Integrity check"):
        es.from_json(doctored.to_json())


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")
def test_the_counts_of_a_release_are_those_of_its_plan():
    for made in counted_releases():
        text = made.to_json()
        again = es.from_json(text)
        assert again.to_json() == text
        assert np.array_equal(again.confidence_interval(0.9), made.confidence_interval(0.9))
        for path, to in wrong_counts(made):
            refused(es.from_json, text, *path, to=to)
        for name, to in (("standard_error", [0.0, 0.0]), ("interval", None)):
            refused(es.from_json, text, name, to=to)
        assert es.from_json(changed(text, "warnings", to=["all is well"])).to_json() == text


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")  # few rows
def test_learned_rounds_add_up_to_the_stated_budget():
    made = es.mean(X, es.Unknown(50.0), **SPEND)
    learned = es.learn(X, es.Unknown(50.0), **SPEND)
    assert es.from_json(made.to_json()).to_json() == made.to_json()
    for load, text, under in [
        (es.from_json, made.to_json(), ("learned",)),
        (es.Learned.from_json, learned.to_json(), ()),
    ]:
        refused(load, text, *under, "stated", to={"epsilon": 0.1, "delta": 1e-6})
        refused(load, text, *under, "steps", to=lambda old: old + old)
        refused(load, text, *under, "steps", to=[])
        refused(load, text, *under, "steps", 0, "privacy", "mu", to=0.9)
        refused(load, text, "privacy", "mu", to=lambda old: old / 2)
        refused(load, text, "secure", to=1)
    for name, to in (("bias", [[-1.0] * 2] * 2), ("found", [True]), ("magnitude", [50.0])):
        refused(es.from_json, made.to_json(), "learned", name, to=to)
    refused(es.from_json, made.to_json(), "learned", "steps", to=lambda old: old[:-1])
    refused(es.Learned.from_json, learned.to_json(), "people", to={"privacy_id": "who"})
    refused(es.Learned.from_json, learned.to_json(), "privacy", to=lambda old: {**old, "unit": "person"})


def test_a_friendly_release_agrees_with_its_plan():
    made = es.friendly_mean(X, 8.0, rng=np.random.default_rng(1), epsilon=5.0, delta=1e-6, noise="gaussian")
    text = made.to_json()
    assert es.from_json(text).to_json() == text
    for path, to in [
        (("noise_std",), lambda old: [std / 2 for std in old]),
        (("noisy",), lambda old: [2 * part for part in old]),
        (("weight_lower",), lambda old: old / 2),
        (("weight_lower",), 1e9),
        (("core_fraction",), None),
        (("value",), [1.0]),
        (("plan", "radius"), None),
        (("privacy", "mu"), lambda old: old / 2),
        (("secure",), 0),
    ]:
        refused(es.from_json, text, *path, to=to)


# Projections --------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::ellipsum.ProjectionWarning")
@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
def test_a_projection_agrees_with_itself(adversary, tmp_path):
    made = es.project(X, 3, es.Ball(9.0), epsilon=50.0, delta=1e-6, adversary=adversary, rng=np.random.default_rng(1))
    made.save(tmp_path / "made.parquet")
    table = parquet.read_table(tmp_path / "made.parquet")
    assert es.load(tmp_path / "made.parquet").to_json() == made.to_json()

    def load(text):
        parquet.write_table(table.replace_schema_metadata({"ellipsum": text}), tmp_path / "doctored.parquet")
        return es.load(tmp_path / "doctored.parquet")

    assert load(made.to_json()).to_json() == made.to_json()
    strength = "scale" if adversary == "oblivious" else "mu"
    for path, to in [
        (("n",), 499),
        (("k",), 2),
        (("columns",), ["a"]),
        (("noise_std",), lambda old: old / 2),
        (("noise_units",), lambda old: old / 2),
        (("noise_units",), lambda old: old * 2),
        (("privacy", strength), lambda old: old / 2),
        (("matrix_seed",), "00"),
        (("matrix_seed",), None),
        (("matrix_integers",), [[1, 2, 3]] * 2),
        (("region", "radius"), lambda old: old / 2),
        (("region", "radius"), -1.0),
        (("region", "scale"), [1.0]),
        (("secure",), 1),
        (("ordered",), "yes"),
        (("options",), {"privacy_id": "who"}),
    ]:
        refused(load, made.to_json(), *path, to=to)


# Numbers ------------------------------------------------------------------------------------------------


def test_a_count_is_exact_for_any_number_of_rows():
    """A center far from the origin weighs the count 2^74 units a row: 2^38 rows and more must add up all the same."""
    rows = es.Ball(1e-9, center=[1e9, 0.0])
    plan = es.plan("sum", rows, n=None, neighbors="add_remove", noise="gaussian", **SPEND)
    assert plan.count_units > 2**70
    for count in (1000, 2**38, 2**60):
        release = plan.publish(
            plan.noisy_sums(Partial(count, Wide.zeros(2)), Stream.open(np.random.default_rng(0))), False
        )
        assert release.row_count == pytest.approx(count, abs=8 * plan.count_std, rel=1e-12)


@pytest.mark.parametrize(
    "rows",
    [es.Ball(1e308), es.Ball(1e200), es.Box(-1e200, 1e200), es.Normal(0, 1e308), es.Ball(1.0, 1e308), es.Ball(1e-310)],
)
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_a_plan_beyond_the_range_of_doubles_is_refused(rows, relation):
    for statistic in ("sum", "mean"):
        with pytest.raises(es.UsageError, match="Rescale"):
            es.plan(statistic, rows, n=1000, d=2, neighbors=relation, **SPEND)


def test_json_holds_finite_numbers_only():
    with pytest.raises(es.UsageError, match="range"):
        json_codec.dump({"a": [1.0, float("inf")]})
    assert json_codec.parse('{"a": [1.0, 2]}') == {"a": [1.0, 2]}
    for text in ('{"a": NaN}', '{"a": 1e999}', '{"a": 1, "a": 2}', '{"a": ' + "9" * 50 + "}", "[" * 10**6, "{}x", "3"):
        with pytest.raises(es.UsageError, match="JSON"):
            json_codec.parse(text)


def test_a_table_says_that_its_noise_is_not_secure():
    frame = release().to_pandas()
    assert not frame["secure"].any()
    assert frame.attrs["secure"] is False
    assert "False" in frame.to_string()
    secure = es.mean(X, es.Box(0, 10), **SPEND).to_pandas()
    assert list(secure.columns) == ["value", "noise_std", "standard_error", "lower", "upper"]
    assert secure.attrs["secure"] is True
    assert "epsilon = 1" in secure.attrs["guarantee"]
