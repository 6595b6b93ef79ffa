"""Every estimator of the comparison as one function of (setting, rows, generator) -> estimated mean, at its budget.

What each is told besides n, d and the magnitude:
  auto, instance_optimal, variance_aware   nothing
  coinpress                                std = 1 with identity covariance, as its paper assumes; else nothing, and
                                           it learns the covariance first
  friendly_core                            nothing, and the budget's delta; where there is none it cannot run
  coinpress, largest std known             the largest true standard deviation: a favor, reported apart
  oracle                                   the true center and standard deviations (es.Normal, center_error = 0): as
                                           it knows the answer up to sampling, it may clip all rows and return that
  sources' rule                            the same, with the region and radius of the source documents, which clips
                                           one row in n, and Gaussian noise
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from ellipsum.learning.finish import finish

import ellipsum as es
from ellipsum.learning.rounds import Rounds
from ellipsum.session import Reading, Session
from ellipsum.sources import Selection, open_source

from ._settings import Setting

Estimator = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def by_name(setting: Setting, method: str, **options: Any) -> Estimator:
    """A method of the library with constants of its own."""

    def run(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        prepare = import_module(f"ellipsum.learning.{method}").prepare
        session = Session(open_source(rows, Selection()), None, Reading(rng, threads=1))
        rounds = Rounds(session, setting.budget, "replace", len(rows))
        return finish(rounds, prepare(rounds, setting.magnitude, **options), "mean", None, method).value

    return run


def release(setting: Setting, rows: np.ndarray, rng: np.random.Generator) -> es.Release:
    """The release of method "auto"; relative where errors are measured in units of their own."""
    weights = None if setting.unit is None else "relative"
    known = es.Unknown(setting.magnitude)
    return es.mean(rows, known, budget=setting.budget, weights=weights, rng=rng, threads=1)


RULE = {"shape": "closed_form", "clip": "quantile", "noise": "gaussian"}


def _oracle(setting: Setting, **words: Any) -> Estimator:
    known = es.Normal(setting.center, std=setting.std, cov=setting.cov, center_error=0)
    plan = es.plan(known, n=setting.n, d=setting.d, budget=setting.budget, statistic="mean", **words)
    return lambda rows, rng: plan.release(rows, rng=rng, threads=1).value


def estimators(setting: Setting) -> dict[str, Estimator]:
    """Label -> estimator; those that start with a published method's name compete with auto."""
    found: dict[str, Estimator] = {}
    for steps in (2, 3, 4, 10):
        found[f"coinpress t={steps}"] = by_name(setting, "coinpress", steps=steps, std=setting.known_std)
    found["instance_optimal T=10"] = by_name(setting, "instance_optimal", steps=10)
    found["instance_optimal T=20, 1% radius"] = by_name(setting, "instance_optimal", steps=20, clip_share=0.01)
    for steps in (12, 20):
        found[f"variance_aware T={steps}"] = by_name(setting, "variance_aware", steps=steps)
    if "delta" in dict(setting.budget.stated) and setting.n >= FRIENDLY_ROWS:
        found["friendly_core"] = _friendly(setting)
    if setting.favor:
        for steps in (3, 4, 10):
            found[f"{FAVORED}coinpress t={steps}"] = _favored(setting, steps)
    if setting.std is not None or setting.cov is not None:
        found["oracle"] = _oracle(setting)
        found["sources' rule"] = _oracle(setting, **RULE)
    return found


FAVORED = "largest std known: "
FRIENDLY_ROWS = 300  # at (1, 1e-6); its gate closes with fewer


def _friendly(setting: Setting) -> Estimator:
    def run(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        known, weights = es.Unknown(setting.magnitude), None if setting.unit is None else "relative"
        how = {"method": "friendly_core", "budget": setting.budget, "weights": weights, "threads": 1}
        return es.mean(rows, known, rng=rng, **how).value

    return run


def _favored(setting: Setting, steps: int) -> Estimator:
    def run(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        std = rows.std(axis=0) if setting.std is None else setting.std
        return by_name(setting, "coinpress", steps=steps, std=float(std.max()))(rows, rng)

    return run


def is_published(label: str) -> bool:
    return label.startswith(("coinpress", "instance_optimal", "variance_aware", "friendly_core"))
