"""Mutated JSON into every loader: an error of the library, or an object whose guarantee is true and that reads back."""

import copy
import itertools
import json
import math
import random
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from counting import count_cases
from pyarrow import parquet

import ellipsum as es
from ellipsum.apps.cli.parsing import parse_bounds
from ellipsum.friendly.plan import FriendlyPlan
from ellipsum.friendly.release import FriendlyRelease
from ellipsum.kernels.accumulate import accumulate
from ellipsum.learning.plan import LearningPlan
from ellipsum.privacy.guarantee import fits
from ellipsum.projection.curve import ProjectionPrivacy
from ellipsum.row_maps.distributions import cumulative_matrix
from ellipsum.row_maps.maps import EllipsoidMap
from ellipsum.rows import rows_from_dict

SPEND = {"epsilon": 1.0, "delta": 1e-6}
COLUMNS = pyarrow.table({"who": np.arange(600) // 2, "a": np.linspace(0, 1, 600), "b": np.linspace(3, 2, 600)})
X = np.random.default_rng(0).normal(5.0, 1.0, (600, 2))
COV = [[2.0, 0.5], [0.5, 1.0]]


def rng():
    return np.random.default_rng(1)


def plans():
    box, normal = es.Box({"a": (0, 1), "b": (2, 9)}), es.Normal([1.0, 2.0], cov=COV)
    yield es.plan("sum", box, n=100, **SPEND)
    yield es.plan("mean", es.Ball(2.0, [1.0, 5.0]), n=100, neighbors="add_remove", budget=es.Budget(mu=0.5))
    yield es.plan("mean", normal, n=1000, budget=es.Budget(rho=0.1))
    yield es.plan("mean", box, n=100, missing="drop_row", count_clipped=True, **SPEND)
    yield es.plan("sum", box, n=100, missing=[0.5, 3.0], neighbors="add_remove", **SPEND)
    yield es.plan("mean", box, n=100, missing="none", count_clipped=False, **SPEND)
    yield es.plan("describe", box, n=100, noise="gaussian", quantiles=None, **SPEND)
    yield es.plan("describe", box, n=100, neighbors="add_remove", quantiles=None, **SPEND)
    people = {"privacy_id": es.People("who", per_person="rows", max_rows=3)}
    yield es.plan("mean", box, n=100, **people, **SPEND)
    yield es.plan("mean", es.Normal(0.0, 1.0, clip=2.0), d=3, neighbors="add_remove", error_weights=[1, 2, 3], **SPEND)
    yield es.mean(COLUMNS, es.Box(0, 9), privacy_id=es.People("who", per_person="sum", max_rows=2), **SPEND).plan


def releases():
    for plan in (
        es.plan("sum", es.Box(0, 9), n=600, d=2, **SPEND),
        es.plan("sum", es.Normal(5.0, 1.0), n=600, d=2, **SPEND),
    ):
        yield plan.release(X, rng=rng())
    for statistic in (es.sum, es.mean):
        yield statistic(X, es.Box(0, 9), neighbors="add_remove", rng=rng(), **SPEND)
        yield statistic(X, es.Unknown(9), neighbors="add_remove", rng=rng(), **SPEND)
    yield es.mean(X, es.Box(0, 9), neighbors="add_remove", rng=rng(), **SPEND).denoise("soft_threshold")
    yield es.mean(COLUMNS, es.Unknown(9), privacy_id="who", rng=rng(), **SPEND)
    gaps = np.where(np.random.default_rng(2).random(X.shape) < 0.3, np.nan, X)
    for rows in (es.Box(0, 9), es.Normal(5.0, 1.0), es.Ball(5.0, 5.0), es.Unknown(9)):
        yield es.mean(gaps, rows, rng=rng(), **SPEND)
    yield es.describe(gaps, es.Box(0, 9), noise="gaussian", quantiles=None, rng=rng(), **SPEND)
    how = {"neighbors": "add_remove", "noise": "gaussian", "quantiles": None}
    yield es.describe(gaps, es.Box(0, 9), rng=rng(), **how, **SPEND)
    yield es.sum(gaps, es.Box(1, 9), neighbors="add_remove", rng=rng(), **SPEND)
    yield es.mean(COLUMNS, es.Box(0, 9), privacy_id=es.People("who", per_person="rows", max_rows=2), rng=rng(), **SPEND)
    yield es.mean(X, es.Unknown(9, method="friendly_core"), rng=rng(), epsilon=5.0, delta=1e-6)


def grouped():
    codes = np.repeat(["a", "b", "c", "d"], 150)
    for keys, words in (
        (None, {}),
        (["d", "b"], {"noise": "gaussian"}),
        (None, {"neighbors": "add_remove", "missing": "drop_row"}),
    ):
        yield es.sum(X, es.Box(0, 9), by=es.Groups(codes, keys), rng=rng(), **words, **SPEND)
    pairs = [codes, np.arange(600) % 2]
    yield es.mean(X, es.Ball(9.0, 5.0), by=pairs, rng=rng(), epsilon=20.0, delta=1e-6).shrink()
    people = {"privacy_id": "who", "by": es.Groups("half", max_per_person=2)}
    halves = COLUMNS.append_column("half", pyarrow.array(np.arange(600) % 2))
    yield es.sum(halves, es.Box(0, 9), columns=["a", "b"], rng=rng(), **people, **SPEND)
    yield es.describe(X, es.Box(0, 9), by=codes, quantiles=None, rng=rng(), **SPEND)
    how = {"by": es.Groups(codes, keys=["a"]), "noise": "gaussian", "quantiles": None}
    yield es.describe(X, es.Box(0, 9), rng=rng(), **how, **SPEND)
    yield es.mean(X, es.Unknown(9), by=codes, rng=rng(), epsilon=20.0, delta=1e-6)


def distributions():
    """Quantiles, histograms, and descriptions with quantiles."""
    codes, box = np.repeat(["a", "b", "c", "d"], 150), es.Box(0, 9)
    small = {"bins": 8, "rng": rng()}
    yield es.quantiles(X, box, **small, **SPEND)
    yield es.quantiles(X, box, neighbors="add_remove", **small, **SPEND)
    yield es.quantiles(X, box, epsilon=1, delta=0, **small)
    yield es.quantiles(X, box, 0.5, method="exponential", **small, **SPEND)
    yield es.quantiles(X, box, by=codes, epsilon=5, delta=1e-6, **small)
    yield es.quantiles(COLUMNS, box, privacy_id=es.People("who", "rows", 2), bins="integer", rng=rng(), **SPEND)
    yield es.histogram(X, bins={0: [0, 5, 9], 1: [-math.inf, 5]}, rng=rng(), **SPEND)
    yield es.histogram(COLUMNS, bins={"a": [0, 1]}, categories={"who": [1, 2, None]}, budget=es.Budget(mu=1), rng=rng())
    groups = es.Groups(codes, keys=["a", "b"])
    yield es.histogram(X, bins={0: [0, 5, 9]}, by=groups, neighbors="add_remove", rng=rng(), **SPEND)
    yield es.describe(COLUMNS, box, columns=["a"], quantiles=0.5, rng=rng(), epsilon=1, delta=0)


def _learned_groups(keys=None, **words):
    return es.plan("mean", es.Unknown(9), n=600, d=2, by=es.Groups("g", keys), **words, **SPEND).to_json()


def friendly(data=X, **more):
    return es.friendly_mean(data, 9.0, rng=rng(), epsilon=5.0, delta=1e-6, **more)


def projections(folder):
    how = {"rng": rng(), "epsilon": 50.0, "delta": 1e-6}
    makers = [
        lambda path: es.project(X, 2, es.Ball(9.0), output=path, adversary="oblivious", **how),
        lambda path: es.project(X, 1, es.Normal(5.0, 1.0), metric="scaled", output=path, adversary="adaptive", **how),
        lambda path: es.project(X, 2, es.Box(0, 9), matrix=np.eye(2), output=path, **how),
        lambda path: es.project(COLUMNS, 2, es.Box(0, 9), privacy_id="who", output=path, **how),
    ]
    for number, make in enumerate(makers):
        path = folder / f"{number}.parquet"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield make(path), path


# What must be true of anything that was loaded ----------------------------------------------------------


def check_stated(privacy, stated):
    if "delta" in stated:
        assert privacy.delta(stated["epsilon"]) <= stated["delta"]
        is_pure = bool(getattr(privacy, "pure", ())) and privacy.mu == 0
        delta = privacy.slack if is_pure else stated["delta"]  # a pure release needs no more than its slack
        assert privacy.epsilon(delta) > 0.99 * stated["epsilon"]
    for name, mu in (("mu", stated.get("mu")), ("rho", math.sqrt(2 * stated.get("rho", 0)))):
        assert name not in stated or 0.99 * mu <= privacy.mu <= mu * (1 + 1e-12)


def enough(plan, needed):
    """Whether the noise of a loaded plan gives its guarantee, by the law it has."""
    law, room = plan.noise_law, 1 + Fraction(1, 2**48)
    if law.kind == "gaussian":
        return Fraction(law.units) * Fraction(plan.privacy.mu) * room >= needed
    if law.kind == "knorm_l2":
        return Fraction(law.scale) * Fraction(plan.privacy.ratio) * room >= needed
    return sum(Fraction(block.epsilon) for block in law.blocks.blocks) <= Fraction(plan.privacy.pure[0])


def check_plan(plan):
    assert (plan.privacy.unit == "person") == (plan.people is not None)
    check_stated(plan.privacy, plan.stated)
    each = None if plan.people is None else plan.people.rows_each
    needed = sensitivity(plan.row_map, plan.neighbors, plan.count_units, each)
    assert enough(plan, needed)


def sensitivity(row_map, neighbors, count_units, each):
    """What the noise must cover, from the integer rows themselves: corners, absences and rows outside, every pair."""
    integers = [np.array(row, object) for row in extreme_rows(row_map)]
    longest = max(sum(entry**2 for entry in row) for row in integers) + count_units**2
    furthest = max(sum(entry**2 for entry in a - b) for a in integers for b in integers)
    if neighbors == "replace":
        longest = furthest if each is None else max(furthest, longest)
    return math.isqrt(longest) * (each or 1)


def extreme_rows(row_map):
    for signs in itertools.product((-1, 0, 1), repeat=row_map.columns):
        for far in (1.0, 1e9):
            for absent in ((), (0,), range(row_map.columns)):
                row = row_map.center + np.array(signs) * reach_of(row_map) * far
                row[list(absent)] = np.nan
                yield accumulate(row_map, [row[None]]).sums.to_ints()


def reach_of(row_map):
    if not isinstance(row_map, EllipsoidMap):
        return (row_map.upper - row_map.lower) / 2
    matrix = np.diag(row_map.scale) if row_map.matrix is None else row_map.matrix
    return 1 / np.maximum(np.linalg.norm(matrix, axis=0), 1e-300)


def check_groups_plan(plan):
    """The noise of one group is what all of them need, from the integer rows themselves."""
    assert (plan.privacy.unit == "person") == (plan.people is not None)
    check_stated(plan.privacy, plan.stated)
    one, most = plan.one, plan.grouping.max_per_person
    within = sensitivity(one.row_map, "replace", 0, None)
    alone = sensitivity(one.row_map, "add_remove", one.count_units, None)
    assert enough(one, alone)
    if one.law is None:
        square = max(within**2, 2 * alone**2) if plan.neighbors == "replace" else alone**2
        assert Fraction(one.noise_units) * Fraction(plan.privacy.mu) * (1 + Fraction(1, 2**40)) >= math.isqrt(
            most * square
        )
    else:
        times = most * (2 if plan.neighbors == "replace" else 1)
        assert Fraction(one.privacy.pure[0]) * times <= Fraction(plan.privacy.pure[0])
    assert (plan.grouping.keys is None) == (plan.privacy.slack > 0)
    if plan.grouping.keys is None:
        assert plan.threshold > 1


def check_distribution_plan(plan):
    """The noise covers how far a row moves the sums, computed from the matrices and the numbers of columns."""
    assert (plan.privacy.unit == "person") == (plan.people is not None)
    if plan.statistic == "describe":
        assert fits(plan.privacy, [plan.moments.privacy, plan.quantile_plan.privacy])
        check_stated(plan.privacy, plan.stated)
        needed = sensitivity(plan.moments.row_map, plan.neighbors, plan.moments.count_units, None)
        assert enough(plan.moments, needed)
        return check_distribution_plan(plan.quantile_plan)
    check_stated(plan.privacy, plan.stated)
    if plan.mechanism == "exponential":
        return None
    most = 1 if plan.grouping is None else plan.grouping.max_per_person
    if plan.statistic == "histogram":
        square = l1 = plan.d * most * (2 if plan.neighbors == "replace" else 1)
    else:
        square = l1 = 0
        for bins in plan.sizes:
            matrix = np.c_[cumulative_matrix(plan.form, bins), np.zeros(len(cumulative_matrix(plan.form, bins)))]
            moves = matrix[:, None] - matrix[:, :, None] if plan.neighbors == "replace" else matrix
            square += int((moves**2).sum(axis=0).max()) * most
            l1 += int(np.abs(moves).sum(axis=0).max()) * most
    each = 1 if plan.people is None else plan.people.rows_each or 1
    scale = plan.law.scale if plan.law.kind == "laplace" else plan.law.units
    if plan.law.kind == "laplace":
        assert scale * plan.privacy.pure[0] >= each * l1 * (1 - 1e-12)
    else:
        assert scale * plan.privacy.mu >= each * math.sqrt(square) * (1 - 1e-12)
    return None


def check_distribution(release):
    check_distribution_plan(release.plan)
    assert release.privacy == release.plan.privacy


def check_groups(release):
    check_groups_plan(release.plan)
    check_stated(release.privacy, release.stated)
    if release.learned is not None:
        steps = [step.privacy for step in release.learned.steps]
        assert fits(release.privacy, steps)
        assert steps[-1].mu == release.plan.privacy.mu
    groups, d = len(release.keys), release.plan.d
    assert release.value.shape == release.noise_std.shape == (groups, d)
    assert (release.noise_std >= 0).all()
    keys = [tuple(map(str, key)) for key in release.keys.tolist()]
    assert len(set(keys)) == groups
    if release.plan.grouping.keys is None:
        assert (release.counts >= release.plan.threshold * (1 - 1e-9)).all()


def check_learning_plan(plan):
    check_stated(plan.privacy, plan.stated)
    assert (plan.privacy.unit == "person") == (plan.people is not None)


def check_release(release):
    check_stated(release.privacy, release.stated)
    assert isinstance(release.secure, bool)
    assert release.value.shape == release.noise_std.shape == (release.plan.d,)
    assert len(release.names()) == release.value.size
    if release.learned is not None:
        assert fits(release.privacy.as_pair(), [step.privacy for step in release.learned.steps])
    check_plan(release.plan)
    if release.learned is None:
        assert release.privacy == release.plan.privacy
        rows = np.maximum(release.counts.rows if release.counts is not None else release.plan.n, 1.0)
        wanted = release.plan.scaled_std * release.plan.ellipsoid.reach / (1.0 if release.statistic == "sum" else rows)
        assert release.noise.sums_stds == pytest.approx(wanted, rel=1e-5)
    if release.counts is not None:
        check_counts(release)


def check_counts(release):
    """No column has more rows than there are, or fewer than none, but for noise."""
    counts, plan = release.counts, release.plan
    assert counts.rows.shape == counts.stds.shape == (plan.d,)
    noisy = release.row_count
    every = plan.n or 0 if noisy is None else noisy
    units = plan.auxiliary.absences.astype(float) if plan.auxiliary.absences.size else np.zeros(1)
    own = plan.absence_stds if plan.auxiliary.absences.size else np.zeros(units.size)
    assert (counts.rows <= every + 65 * own + 1e-5 * abs(every) + 1e-5).all()
    assert (counts.stds >= own * (1 - 1e-5)).all()
    if release.learned is not None and release.learned.absent is not None:
        assert counts.rows == pytest.approx(every - release.learned.absent.rows)
        assert (counts.stds >= release.learned.absent.stds * (1 - 1e-5)).all()
    elif plan.public_rows and not any(plan.auxiliary.absences):
        assert counts.rows == pytest.approx(np.full(plan.d, every))
        assert not counts.stds.any()


def check_friendly_plan(plan):
    check_stated(plan.privacy, plan.stated)
    assert min(plan.shares) >= 0
    if plan.pure:
        assert sum(map(Fraction, plan.shares)) <= Fraction(plan.privacy.pure[0])
    else:
        assert sum(Fraction(mu) ** 2 for mu in plan.shares) <= Fraction(plan.privacy.mu) ** 2


def check_friendly(result):
    assert result.privacy == result.plan.privacy
    check_friendly_plan(result.plan)
    if isinstance(result, FriendlyRelease):
        assert result.noise.std == pytest.approx(result.plan.noise_at(Fraction(result.weight_lower)).std, rel=1e-5)


def check_learned(learned):
    check_stated(learned.privacy, learned.stated)
    assert fits(learned.privacy, [step.privacy for step in learned.steps])


def check_projection(made):
    assert made.value.shape == (made.n, made.k)
    assert made.matrix.shape == (made.region.width, made.k)
    if isinstance(made.privacy, ProjectionPrivacy):
        moved = 2 * made.region.radius * made.privacy.scale
        assert made.privacy.k == made.k
        assert made.noise_std >= 2 * made.region.radius / made.privacy.scale * (1 - 1e-9), moved
    else:
        norm = np.linalg.norm(made.matrix, 2)
        assert made.noise_std * made.privacy.mu >= 2 * made.region.radius * norm * (1 - 1e-5)


def check_rows(rows):
    assert rows_from_dict(rows.to_dict()) == rows


def check_privacy(privacy):
    assert es.Privacy.from_dict(privacy.to_dict()) == privacy


def check_bounds(rows):
    assert (np.asarray(rows.lower) <= np.asarray(rows.upper)).all()


class Loader:
    """A way from a text to an object, with texts that are valid and what holds for every object."""

    def __init__(self, name, texts, load, check, again=lambda loaded: loaded.to_json()):
        self.name, self.texts, self.load, self.check, self.again = name, texts, load, check, again

    def try_one(self, text):
        """Whether the text was loaded."""
        try:
            loaded = self.load(text)
        except (es.UsageError, es.DataError) as error:
            said = str(error)
        else:
            self.verify(loaded)
            return True
        assert len(said) < 400
        return False

    def verify(self, loaded):
        """It is true, can be shown, and reads back as it was written."""
        self.check(loaded)
        repr(loaded)
        written = self.again(loaded)
        assert self.again(self.load(written)) == written
        assert "NaN" not in written
        assert "Infinity" not in written


def load_projection(folder):
    """A text becomes the metadata of a file with the values of an honest one, by the size that it states."""
    target = folder / "mutated.parquet"

    def load(text):
        raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        number = 3 if b'"n": 300,' in raw else 1 if b'"k": 1,' in raw else 0
        table = parquet.read_table(folder / f"{number}.parquet")
        parquet.write_table(table.replace_schema_metadata({"ellipsum": raw}), target)
        return es.load(target)

    return load


def read_bounds(folder):
    path = folder / "bounds.json"

    def read(text):
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        return parse_bounds([str(path)], None)[0]

    return read


@pytest.fixture(scope="module")
def loaders(tmp_path_factory):
    warnings.simplefilter("ignore")  # until this setup ends: few rows are all that is needed here
    folder = Path(tmp_path_factory.mktemp("mutations"))
    made = [made for made, _ in projections(folder)]
    learning = es.plan("sum", es.Unknown(9.0), n=500, d=3, **SPEND)
    found = friendly()
    rows = X.copy()
    rows[::2] += 500
    nowhere = friendly(rows)
    assert found
    assert not nowhere
    learned = [
        es.learn(X, es.Unknown(9), rng=rng(), **SPEND),
        es.learn(COLUMNS, es.Unknown(9), privacy_id="who", **SPEND),
    ]
    parts = [es.Ball(1.0, [1, 2], columns=["a", "b"]), es.Box([0, 1], [2, 3]), es.Normal(0, cov=COV), es.Unknown(3.0)]
    privacy, rows_of = (
        (lambda text: es.Privacy.from_dict(json.loads(text))),
        (lambda text: rows_from_dict(json.loads(text))),
    )
    again = lambda loaded: json.dumps(loaded.to_dict())  # noqa: E731
    return {
        loader.name: loader
        for loader in (
            Loader("Plan", [plan.to_json() for plan in plans()], es.Plan.from_json, check_plan),
            Loader(
                "--plan", [es.plan("sum", es.Ball(1.0), n=9, d=2, **SPEND).to_json()], es.from_json, lambda plan: None
            ),
            Loader(
                "LearningPlan",
                [
                    learning.to_json(),
                    _learned_groups(),
                    _learned_groups(keys=["a", None], neighbors="add_remove"),
                ],
                LearningPlan.from_json,
                check_learning_plan,
            ),
            Loader("Release", [release.to_json() for release in releases()], es.from_json, check_release),
            Loader("GroupPlan", [each.plan.to_json() for each in grouped()], es.GroupPlan.from_json, check_groups_plan),
            Loader("GroupRelease", [each.to_json() for each in grouped()], es.from_json, check_groups),
            Loader(
                "DistributionPlan",
                [each.plan.to_json() for each in distributions()],
                es.from_json,
                check_distribution_plan,
            ),
            Loader("Distribution", [each.to_json() for each in distributions()], es.from_json, check_distribution),
            Loader("Learned", [each.to_json() for each in learned], es.Learned.from_json, check_learned),
            Loader("FriendlyPlan", [found.plan.to_json()], FriendlyPlan.from_json, check_friendly_plan),
            Loader("FriendlyRelease", [found.to_json()], es.from_json, check_friendly),
            Loader("NoCenter", [nowhere.to_json()], es.NoCenter.from_json, check_friendly),
            Loader("Projection", [each.to_json() for each in made], load_projection(folder), check_projection),
            Loader(
                "Privacy", [again(es.Privacy(1.0, 1e-9, "replace", "person"))], tolerant(privacy), check_privacy, again
            ),
            Loader("rows", [again(part) for part in parts], tolerant(rows_of), check_rows, again),
            Loader("--bounds", ['{"a": [0, 1], "b": [2.5, 9]}'], read_bounds(folder), check_bounds, bounds_again),
        )
    }


def bounds_again(rows):
    return json.dumps({name: [low, high] for name, low, high in zip(rows.columns, rows.lower, rows.upper, strict=True)})


def tolerant(load):
    """`from_dict` takes what json.loads made of a text, where that is anything at all."""

    def read(text):
        try:
            return load(text)
        except (json.JSONDecodeError, RecursionError, UnicodeDecodeError) as error:
            raise es.UsageError("not JSON") from error
        except ValueError as error:
            if isinstance(error, es.UsageError) or "digits" not in str(error):
                raise
            raise es.UsageError("not JSON") from error

    return read


# Mutations ----------------------------------------------------------------------------------------------

HOSTILE = [
    None, True, False, 0, 1, -1, -0.0, 2, 0.5, 1e-320, 1e300, -1e308, 2**31, 2**64, 10**30, math.nan, math.inf,
    -math.inf, "", "x", "row", "person", "replace", "add_remove", "nan", "1", "\x00", "\ud800", "e" * 3000,
    [], [[]], [1], [1, "a"], [None], [[1, 2], [3]], [1e308] * 4, {}, {"a": 1},
]  # fmt: skip
RAW = [
    '"A": 1, "A": 2',
    "9" * 10_000,
    "1" + "0" * 500,
    "1e999",
    "-1e999",
    "[" * 100_000,
    '{"a":' * 5_000,
    "NaN",
    "1.7976931348623157e308",
    "//",
    "'a'",
]


def places(value, path=()):
    """Every place in a JSON value, as the keys that lead to it."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in list(children)[:40]:
        yield from places(child, (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def mutate(value, dice):
    """A copy with one to three places replaced, scaled, removed, doubled or swapped."""
    value = copy.deepcopy(value)
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        path = dice.choice([path for path in places(value) if path])
        parent, key = at(value, path[:-1]), path[-1]
        way = dice.randrange(6)
        if way == 0 or (way == 1 and not isinstance(parent[key], (int, float))):
            parent[key] = copy.deepcopy(dice.choice(HOSTILE))
        elif way == 1:
            parent[key] = parent[key] * dice.choice((0.5, 2, -1, 1.001, 0.999, 1e9, 0))
        elif way == 2:
            del parent[key]
        elif way == 3 and isinstance(parent, dict):
            parent[dice.choice(("extra", key + "x", "format"))] = parent[key]
        elif way == 4 and isinstance(parent, list):
            parent.insert(key, copy.deepcopy(parent[key]))
        else:
            other = dice.choice([path for path in places(value) if path])
            parent[key] = copy.deepcopy(at(value, other))
        if not [path for path in places(value) if path]:
            break
    return value


def mutate_bytes(text, dice):
    """A few bytes changed, removed or put in, or a part replaced by something raw."""
    raw = bytearray(text.encode())
    for _ in range(dice.choice((1, 1, 2, 5))):
        place = dice.randrange(len(raw))
        way = dice.randrange(5)
        if way == 0:
            raw[place] = dice.randrange(256)
        elif way == 1:
            del raw[place : place + dice.choice((1, 1, 2, 30))]
        elif way == 2:
            raw[place:place] = bytes([dice.choice(b'0123456789eE.-+{}[]",:\\ntf ')])
        elif way == 3:
            raw[place] ^= 1 << dice.randrange(8)
        else:
            digits = [place for place in range(len(raw)) if raw[place : place + 1].isdigit()]
            start = dice.choice(digits) if digits else 0
            raw[start : start + 1] = dice.choice(RAW).encode()
        if not raw:
            raw = bytearray(b"{")
    return bytes(raw)


LOADERS = [
    "GroupPlan", "GroupRelease", "DistributionPlan", "Distribution",
    "Plan", "--plan", "LearningPlan", "Release", "Learned", "FriendlyPlan", "FriendlyRelease", "NoCenter", "Projection",
    "Privacy", "rows", "--bounds",
]  # fmt: skip


def run(loader, number, seed):
    dice = random.Random(f"{loader.name} {seed}")
    loaded = 0
    for case in range(number):
        text = dice.choice(loader.texts)
        mutated = mutate_bytes(text, dice) if case % 3 == 2 else json.dumps(mutate(json.loads(text), dice))
        try:
            loaded += loader.try_one(mutated)
        except BaseException as error:
            raise AssertionError(f"case {case} of {loader.name}: {mutated[:3000]!r}") from error
    return loaded


@pytest.mark.parametrize("name", LOADERS)
def test_mutated_json_is_refused_or_true(name, loaders, request):
    count_cases(request, "JSON mutations", 60)
    run(loaders[name], 60, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", LOADERS)
def test_much_mutated_json_is_refused_or_true(name, loaders, request):
    count_cases(request, "JSON mutations", 1500)
    run(loaders[name], 1500, 1)


@pytest.mark.parametrize("name", LOADERS)
def test_honest_json_is_loaded(name, loaders):
    for text in loaders[name].texts:
        assert loaders[name].try_one(text)


@pytest.mark.parametrize("name", LOADERS)
def test_hostile_texts_are_refused(name, loaders):
    for text in [
        *RAW,
        *(f'{{"format": {raw}}}' for raw in RAW),
        "",
        " ",
        "null",
        "[]",
        "\ud800",
        '{"a": 1, "a": 2}',
        b"\xff\xfe\x00",
    ]:
        assert not loaders[name].try_one(text), text[:40]
