"""Sums of other libraries, each as its own pages show it, with the pair on which it is audited."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ellipsum as es
from ellipsum.apps.audit.cases import Case

Found = tuple[Callable[..., Any], Case, int]
FEW = [0.0] * 4
REPLACED = ([*FEW, 0.0], [*FEW, 1.0])
ADDED = (FEW, [*FEW, 1.0])


def opendp_sum() -> Found:
    """A sum of five bounded numbers under Gaussian noise; zCDP of rho is the Gaussian curve of sqrt(2 rho)."""
    import opendp.prelude as dp

    dp.enable_features("contrib")

    def made() -> Any:
        domain = dp.vector_domain(dp.atom_domain(bounds=(0.0, 1.0), nan=False), size=5)
        return (domain, dp.symmetric_distance()) >> dp.t.then_sum() >> dp.m.then_gaussian(scale=1.0)

    measurement = made()
    claim = es.Privacy(math.sqrt(2 * measurement.map(2)))
    return measurement, Case(measurement, REPLACED, claim, 20_000), 20_000


def diffprivlib_sum() -> Found:
    """`diffprivlib.tools.sum` of bounded numbers."""
    from diffprivlib.tools import sum as private_sum

    def mechanism(data: list[float]) -> float:
        return float(private_sum(data, epsilon=1.0, bounds=(0.0, 1.0)))

    return mechanism, Case(mechanism, REPLACED, es.Privacy.of_pure(1.0), 20_000), 20_000


def pipelinedp_sum() -> Found:
    """A sum over people by `DPEngine.aggregate`, Gaussian noise, one public partition."""
    import pipeline_dp

    kinds = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0], partition_extractor=lambda row: 0, value_extractor=lambda row: row[1]
    )
    params = pipeline_dp.AggregateParams(
        noise_kind=pipeline_dp.NoiseKind.GAUSSIAN,
        metrics=[pipeline_dp.Metrics.SUM],
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=0.0,
        max_value=1.0,
    )

    def mechanism(data: list[float]) -> float:
        accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1.0, total_delta=1e-3)
        engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
        result = engine.aggregate(list(enumerate(data)), params, kinds, public_partitions=[0])
        accountant.compute_budgets()
        return float(next(iter(result))[1].sum)

    return mechanism, Case(mechanism, ADDED, es.Budget(epsilon=1.0, delta=1e-3), 4_000), 4_000


PEERS = {"OpenDP sum": opendp_sum, "diffprivlib sum": diffprivlib_sum, "PipelineDP sum": pipelinedp_sum}


def found() -> dict[str, Found]:
    """Those that are installed."""
    made = {}
    for name, make in PEERS.items():
        try:
            made[name] = make()
        except ImportError as error:
            print(f"{name}: not installed ({error})", flush=True)
    return made
