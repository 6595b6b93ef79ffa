"""[L8] Unknown rows within a pure budget: every round takes a part of epsilon, and none of any delta."""

import json
import math
from fractions import Fraction

import commands
import numpy as np
import pytest

import ellipsum as es
from ellipsum.learning import LearningPlan
from ellipsum.learning.maps import NormHistogram
from ellipsum.learning.rounds import Rounds
from ellipsum.regions.ellipsoid import Ellipsoid
from ellipsum.releases.round_record import Round
from ellipsum.row_maps.maps import EllipsoidMap
from ellipsum.session import Reading, Session
from ellipsum.sources import Selection

PURE = {"epsilon": 2.0, "delta": 0}


def rows(n=4000, d=2, seed=0):
    return np.random.default_rng(seed).normal([50.0, -3.0, 0.5][:d], [4.0, 2.0, 1.0][:d], (n, d))


def released(data, *, seed=1, **words):
    return es.mean(data, es.Unknown(1e4), rng=np.random.default_rng(seed), **{**PURE, **words})


def test_the_guarantee_is_pure_and_the_rounds_add_up_to_it():
    release = released(rows())
    assert release.privacy.pure == (2.0,)
    assert release.privacy.epsilon(0) == 2.0
    rounds = [Round.from_dict(step) for step in release.learned["rounds"]]
    assert all(step.privacy.mu == 0 and step.privacy.slack == 0 for step in rounds)
    assert math.fsum(step.privacy.pure[0] for step in rounds) == pytest.approx(2.0, rel=1e-12)
    assert sum(Fraction(step.privacy.pure[0]) for step in rounds) <= 2


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("statistic", [es.mean, es.sum])
def test_the_answer_is_near_and_covered(statistic, neighbors):
    data = rows()
    release = statistic(data, es.Unknown(1e4), rng=np.random.default_rng(3), neighbors=neighbors, n=4000, **PURE)
    truth = data.mean(axis=0) * (len(data) if statistic is es.sum else 1)
    assert np.abs(release.value / truth - 1).max() < 0.2
    low, high = release.confidence_interval(0.999).T
    assert ((low < truth) & (truth < high)).all()


def test_noise_of_the_norm_kind_is_pure_with_a_delta_too():
    assert released(rows(), delta=1e-6, noise="norm").privacy.pure == (2.0,)
    assert released(rows(), delta=1e-6, noise="gaussian").privacy.pure == ()


def test_methods_with_gaussian_rounds_are_refused():
    with pytest.raises(es.UsageError, match="Gaussian rounds"):
        released(rows(), method="coinpress")
    with pytest.raises(es.UsageError, match="needs a budget stated as epsilon"):
        es.mean(rows(), es.Unknown(1e4), budget=es.Budget(mu=1.0), noise="norm")


def test_plan_release_and_learned_rows_are_read_back():
    plan = es.plan(es.Unknown(1e4), n=4000, d=2, statistic="mean", **PURE)
    assert type(plan).from_json(plan.to_json()) == plan
    assert "pure" in repr(plan) or "delta = 0" in repr(plan)
    release = plan.release(rows(), rng=np.random.default_rng(2))
    assert es.Release.from_json(release.to_json()) == release
    learned = es.learn(rows(), es.Unknown(1e4), rng=np.random.default_rng(2), **PURE)
    assert type(learned).from_json(learned.to_json()) == learned
    assert es.mean(rows(), learned.rows, rng=np.random.default_rng(4), **PURE).privacy.epsilon(0) <= 2.0


def test_a_doctored_epsilon_is_refused():
    saved = json.loads(released(rows()).to_json())
    saved["learned"]["rounds"][-1]["privacy"]["pure"] = [1.9]
    with pytest.raises(es.UsageError):
        es.Release.from_json(json.dumps(saved))


def test_learned_rows_say_what_each_round_took():
    learned = es.learn(rows(), es.Unknown(1e4), rng=np.random.default_rng(1), **PURE)
    shares = [line.split()[-4] for line in repr(learned).splitlines() if line.endswith("of the budget")]
    assert len(shares) == len(learned.rounds)
    assert math.fsum(float(share.rstrip("%")) for share in shares) == pytest.approx(100, abs=0.1)


@pytest.mark.parametrize("method", ["coinpress", "variance_aware", "instance_optimal"])
def test_a_doctored_method_is_refused(method):
    saved = json.loads(es.plan(es.Unknown(1e4), n=4000, d=2, **PURE).to_json())
    saved["method"] = method
    with pytest.raises(es.UsageError, match="Gaussian rounds"):
        LearningPlan.from_json(json.dumps(saved))


@pytest.mark.filterwarnings("ignore::ellipsum.AccuracyWarning")
def test_answers_that_are_all_noise_are_shown_without_overflow():
    release = es.mean(np.zeros((500, 2)), es.Unknown(1e150), epsilon=1e-6, delta=0, rng=np.random.default_rng(0))
    assert np.isfinite(release.standard_error).all()


def test_people_and_missing_entries():
    import pandas as pd

    data = rows()
    data[:400, 0] = np.nan
    frame = pd.DataFrame({"id": np.arange(4000) // 2, "a": data[:, 0], "b": data[:, 1]})
    release = es.mean(frame, es.Unknown(1e4), privacy_id="id", rng=np.random.default_rng(5), **PURE)
    assert release.privacy.unit == "person"
    assert release.value[1] == pytest.approx(-3.0, abs=1.0)


WIDE = 8000


@pytest.mark.parametrize("neighbors", ["replace", "add_remove"])
@pytest.mark.parametrize("counts", [True, False])
def test_noise_of_a_round_is_its_sensitivity_over_its_epsilon_and_not_a_tenth_less(counts, neighbors):
    """One wide round: Laplace noise of 8000 counts, or one spherical vector of as many entries."""
    if counts:
        row_map = NormHistogram([(Ellipsoid(np.zeros(WIDE), np.ones(WIDE)), np.arange(1.0, WIDE))])
    else:
        row_map = EllipsoidMap(np.zeros(WIDE), np.full(WIDE, 0.1), grid_bits=40)
    data = np.zeros((3, WIDE))
    with Session.open(data, Selection(None), None, Reading(rng=np.random.default_rng(7))) as session:
        rounds = Rounds(session, es.Budget(epsilon=1.0, delta=0), neighbors, 3, pure=True)
        found = rounds.sum("round", row_map, 0.5)
        assert rounds.history[-1].privacy.pure == (0.5,)
    moved = 2.0 if neighbors == "replace" else 1.0
    std = moved / 0.5 * (math.sqrt(2) if counts else math.sqrt(WIDE + 1))
    assert found.std == pytest.approx(std, rel=1e-6)
    noise = found.values[1:]  # the first bin holds the rows
    error = 6.1 * math.sqrt(5 / (4 * noise.size))  # a root mean square of draws of kurtosis 6; odds of 1e-9
    assert error < 0.08
    assert float(np.sqrt(np.mean(noise**2))) == pytest.approx(std, rel=error)


def test_the_command_line_takes_it(tmp_path):
    path = tmp_path / "rows.csv"
    np.savetxt(path, rows(), delimiter=",", header="a,b", comments="")
    words = ["mean", str(path), "--magnitude", "1e4", "--epsilon", "2", "--delta", "0", "--json"]
    ended = commands.run(*words)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["privacy"]["pure"] == [2.0]
