"""Draws the figures of the pages: python docs/pictures/figures.py [name ...] writes them as .svg beside this file.

Data are made up, noise is fixed (`docs/outputs.py`), so that a figure changes only when the library does.
"""

import math
import runpy
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import ellipsum as es
from ellipsum.display.plots.drawing import COLORS, GREY, bare_figure, save, styled

FOLDER = Path(__file__).parent
BLUE, ORANGE, GREEN = COLORS[:3]
BUDGET = {"epsilon": 1, "delta": 1e-6}
PATIENT_BOUNDS = {"age": (18, 90), "bmi": (12, 60), "bp": (40, 180), "progression": (0, 400)}


def axes(width: float = 6.2, height: float = 2.8) -> tuple[Any, Any]:
    figure = bare_figure(width, height, "constrained")
    return figure, figure.subplots()


def incomes(rows: int = 6_000) -> np.ndarray:
    return np.random.default_rng(0).lognormal(10.3, 0.6, rows)


def show_interval(axis: Any, y: float, center: float, half: float, color: str, text: str) -> None:
    axis.errorbar([center], [y], xerr=[[half], [half]], fmt="o", color=color, capsize=4)
    axis.annotate(text, (center + half, y), (8, 0), textcoords="offset points", va="center")


def home_mean() -> Any:
    """The example of the home page: two columns, each with its interval and the true mean."""
    people = np.column_stack([np.random.default_rng(0).normal(45, 12, 5_000), incomes(5_000)])
    release = es.mean(people, {"age": (0, 120), "income": (0, 200_000)}, **BUDGET)
    figure = bare_figure(6.2, 1.9, "constrained")
    for axis, place, name in zip(figure.subplots(1, 2), range(2), release.columns, strict=True):
        low, high = release.confidence_interval(0.95)[place]
        center = release.value[place]
        axis.errorbar([center], [0], xerr=[[center - low], [high - center]], fmt="o", color=BLUE, capsize=4)
        axis.plot([people[:, place].mean()], [0.5], "D", color=GREY)
        axis.set(ylim=(-0.6, 1.1), yticks=[0, 0.5], xlabel=name)
        axis.set_yticklabels(["private mean, 95% CI", "mean of the table"] if place == 0 else [])
        axis.locator_params(axis="x", nbins=4)
    return figure


def interval() -> Any:
    """An interval for the data, and one for the population."""
    release = es.mean(np.random.default_rng(0).normal(45, 12, (500, 1)), es.Box(0, 110), **BUDGET)
    center, error = release.value[0], release.standard_error[0]
    figure, axis = axes(6.2, 1.8)
    show_interval(axis, 1, center, 1.96 * error, BLUE, "for the mean of these 500 people: privacy noise")
    show_interval(axis, 0, center, 1.96 * math.hypot(error, 12 / math.sqrt(500)), ORANGE, "plus sampling error")
    axis.set(ylim=(-0.6, 1.6), yticks=[], xlabel="mean age", xlim=(center - 1.5, center + 3.5))
    return figure


def tutorial_release() -> Any:
    """Expected interval of each patient column beside the sampling error, as a share of the column's range."""
    plan = es.plan("mean", PATIENT_BOUNDS, n=442, **BUDGET)
    sampling = np.array([13.1, 4.4, 13.8, 77.0]) / math.sqrt(442)
    places = np.arange(4)
    figure, axis = axes()
    axis.bar(places - 0.18, plan.expected_error / sampling, 0.34, color=BLUE, label="privacy noise")
    axis.bar(places + 0.18, np.ones(4), 0.34, color=GREY, label="sampling error")
    axis.set_xticks(places, list(PATIENT_BOUNDS))
    axis.set_ylabel("standard error\n(sampling error = 1)")
    axis.legend()
    return figure


def error_against_epsilon() -> Any:
    epsilons = np.geomspace(0.1, 10, 9)
    figure, axis = axes()
    for n, color, line in ((442, BLUE, "-"), (5_000, ORANGE, "--")):
        plans = [es.plan("mean", {"age": (18, 90), "bmi": (12, 60)}, n=n, epsilon=e, delta=1e-6) for e in epsilons]
        axis.loglog(
            epsilons, [p.expected_error[0] for p in plans], line, color=color, label=f"privacy noise, n = {n:,}"
        )
        axis.axhline(13 / math.sqrt(n), color=color, linestyle=":", linewidth=1, label=f"sampling error, n = {n:,}")
    axis.set(xlabel="epsilon", ylabel="standard error\nof the mean age", xticks=[0.1, 1, 10], yticks=[0.01, 0.1, 1])
    axis.set_xticklabels(["0.1", "1", "10"])
    axis.set_yticklabels(["0.01", "0.1", "1"])
    axis.minorticks_off()
    axis.legend(loc="upper right", fontsize=7.5)
    return figure


def attacker() -> Any:
    epsilons = np.linspace(0, 6, 61)
    figure, axis = axes(6.2, 2.4)
    axis.plot(epsilons, 100 / (1 + np.exp(-epsilons)), color=BLUE)
    axis.axhline(50, color=GREY, linestyle=":", label="without the release")
    for epsilon in (0.5, 1, 2, 4):
        share = 100 / (1 + math.exp(-epsilon))
        axis.plot([epsilon], [share], "o", color=ORANGE)
        axis.annotate(f"{share:.0f}%", (epsilon, share), (4, -12), textcoords="offset points")
    axis.set(xlabel="epsilon (delta = 0)", ylabel="correct guesses\nat most, in %", ylim=(45, 103))
    axis.legend(loc="lower right")
    return figure


def budget_bar() -> Any:
    figure, axis = axes(6.2, 1.3)
    for place, (name, color) in enumerate((("means", BLUE), ("describe", ORANGE), ("by sex", GREEN))):
        axis.barh([0], [1], left=[place], color=color, edgecolor="white")
        axis.text(place + 0.5, 0, name, ha="center", va="center", color="white")
    axis.barh([0], [1], left=[3], facecolor="none", edgecolor=GREY, linestyle="--")
    axis.text(3.5, 0, "refused", ha="center", va="center", color=GREY)
    axis.axvline(3, color="black")
    axis.set(yticks=[], xticks=[0, 1, 2, 3], xlim=(0, 4.05), xlabel="epsilon spent; the budget is 3")
    return figure


def clamping() -> Any:
    values, bound = incomes() / 1000, 60
    figure, axis = axes()
    counts, edges = np.histogram(values, bins=np.arange(0, 205, 5))
    inside = edges[:-1] < bound
    axis.bar(edges[:-1][inside], counts[inside], 5, align="edge", color=BLUE, label="unchanged")
    axis.bar(edges[:-1][~inside], counts[~inside], 5, align="edge", color=GREY, alpha=0.5, label="outside: clamped")
    clamped = np.minimum(values, bound).mean()
    axis.axvline(bound, color=ORANGE, label="upper bound")
    axis.axvline(values.mean(), color="black", linestyle="--", label=f"mean {values.mean():.1f}")
    axis.axvline(clamped, color="black", linestyle=":", label=f"mean after clamping {clamped:.1f}")
    axis.set(xlabel="income in thousands", ylabel="people")
    axis.legend()
    return figure


def bounds_tradeoff() -> Any:
    values = incomes()
    uppers = np.geomspace(30_000, 2e6, 19)
    plans = [es.plan("mean", {"income": (0, upper)}, n=values.size, **BUDGET) for upper in uppers]
    noise = np.array([plan.expected_error[0] for plan in plans])
    bias = np.array([values.mean() - np.minimum(values, upper).mean() for upper in uppers])
    figure, axis = axes()
    axis.loglog(uppers / 1000, noise, "--", color=BLUE, label="privacy noise")
    axis.loglog(uppers / 1000, np.maximum(bias, 1e-9), "-.", color=ORANGE, label="bias from clamping")
    axis.loglog(uppers / 1000, np.hypot(noise, bias), color="black", label="both")
    axis.set(xlabel="upper bound of income, in thousands", ylabel="error of the mean\n(6,000 people)", ylim=(10, 1e4))
    axis.set_xticks([30, 100, 300, 1000], ["30", "100", "300", "1,000"])
    axis.set_yticks([10, 100, 1000, 10_000], ["10", "100", "1,000", "10,000"])
    axis.minorticks_off()
    axis.legend(loc="upper center")
    return figure


def group_selection() -> Any:
    """200 groups of each size in one release without keys: the share that is published."""
    sizes = np.arange(5, 101, 5)
    keys = np.repeat(np.arange(200 * sizes.size), np.repeat(sizes, 200))
    data = {"group": keys, "age": np.full(keys.size, 45.0)}
    release = es.mean(data, {"age": (0, 120)}, by="group", **BUDGET)
    published = np.bincount(np.asarray(release.keys[:, 0], dtype=int) // 200, minlength=sizes.size) / 2
    figure, axis = axes(6.2, 2.4)
    axis.plot(sizes, published, "o-", color=BLUE)
    axis.axvline(release.plan.threshold, color=ORANGE, linestyle="--", label=f"threshold {release.plan.threshold:.0f}")
    axis.set(xlabel="rows in the group", ylabel="published, in %")
    axis.legend(loc="upper left")
    return figure


def groups() -> Any:
    rng = np.random.default_rng(1)
    cities = rng.choice(["Bergen", "Oslo", "Tromsø"], 3_000, p=[0.3, 0.6, 0.1])
    data = {"city": cities.tolist(), "age": rng.normal(45, 15, 3_000), "pulse": rng.normal(70, 10, 3_000)}
    keys = ["Bergen", "Oslo", "Tromsø"]
    release = es.mean(data, {"age": (0, 120), "pulse": (30, 220)}, by=es.Groups("city", keys=keys), **BUDGET)
    return release.plot()


def describe() -> Any:
    rng = np.random.default_rng(0)
    people = np.column_stack([rng.normal(45, 12, 6_000), rng.lognormal(10.3, 0.6, 6_000)])
    return es.describe(people, {"age": (0, 110), "income": (0, 250_000)}, **BUDGET).plot()


def _patients() -> Any:
    """Ages as in the guide of counts, histograms and quantiles."""
    return {"age": np.random.default_rng(1).normal(50, 18, 5_000).clip(0, 110)}


def histogram() -> Any:
    return es.histogram(_patients(), bins={"age": [0, 18, 40, 65, np.inf]}, epsilon=1, delta=0).plot()


def quantiles() -> Any:
    return es.quantiles(_patients(), {"age": (0, 120)}, **BUDGET).plot()


def plan() -> Any:
    bounds = {"age": (0, 110), "income": (0, 250_000), "sleep": (0, 16)}
    return es.plan("mean", bounds, n=5_000, **BUDGET).plot(columns=("age", "income"))


def mean() -> Any:
    people = np.random.default_rng(0).uniform([18, 0, 4], [90, 80_000, 10], size=(5_000, 3))
    return es.mean(people, {"age": (0, 110), "income": (0, 250_000), "sleep": (0, 16)}, **BUDGET).plot()


def normal_ellipse() -> Any:
    """Two standard deviations of the noise of two columns, fitted and isotropic."""
    angles = np.linspace(0, 2 * np.pi, 181)
    stds = 1 / np.arange(1, 21)
    figure, axis = axes(6.2, 4.2)
    for shape, color, line, text in (
        ("ball", ORANGE, "--", "isotropic"),
        ("optimal", BLUE, "-", "fitted to the standard deviations"),
    ):
        terms = es.Normal(np.zeros(20), std=stds, shape=shape)
        noise = es.plan("mean", terms, n=2_000, noise="gaussian", **BUDGET).noise_std
        axis.plot(2 * noise[0] * np.cos(angles), 2 * noise[19] * np.sin(angles), line, color=color, label=text)
    axis.set(xlabel="noise of column 1", ylabel="noise of column 20", ylim=(-0.016, 0.023), aspect="equal")
    axis.legend(loc="upper center", ncols=2)
    return figure


def mechanisms() -> Any:
    """The noise of one column: densities of Laplace and Gaussian noise at one guarantee, and errors by columns."""
    figure = bare_figure(7.2, 2.8, "constrained")
    left, right = figure.subplots(1, 2)
    x = np.linspace(-8, 8, 321)
    sigma = 1 / es.Budget(**BUDGET).mu
    left.plot(x, np.exp(-np.abs(x)) / 2, color=BLUE, label="K-norm (here: Laplace)")
    left.plot(
        x, np.exp(-((x / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi)), "--", color=ORANGE, label="Gaussian"
    )
    left.set(title="One column", xlabel="noise / sensitivity", ylabel="density")
    left.legend(loc="upper left", fontsize=7.5, bbox_to_anchor=(0, 1.02))
    left.set_ylim(0, 0.62)
    columns = np.array([1, 2, 3, 5, 8, 12, 20, 30, 50, 80])
    for noise, color, line, text in (("knorm", BLUE, "-", "K-norm"), ("gaussian", ORANGE, "--", "Gaussian")):
        errors = [_mean_error(int(d), noise) for d in columns]
        right.loglog(columns, errors, line, color=color, label=text)
    right.set(title="Error by number of columns", xlabel="columns", ylabel="error of each mean\nx rows / range")
    right.set_xticks([1, 3, 10, 30], ["1", "3", "10", "30"])
    right.set_yticks([1, 3, 10, 30], ["1", "3", "10", "30"])
    right.minorticks_off()
    right.legend(loc="upper left", fontsize=7.5)
    return figure


def _mean_error(columns: int, noise: str) -> float:
    terms = {"missing": "none", "count_clipped": False, "noise": noise}
    return float(es.plan("mean", es.Box(np.zeros(columns), 1), n=1_000, **terms, **BUDGET).expected_error[0] * 1_000)


def friendly_core() -> Any:
    """Two clouds of rows: the FriendlyCore mean is that of the larger cloud."""
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal([0, 0], 1, (480, 2)), rng.normal([9, 4], 1, (120, 2))])
    release = es.friendly_mean(rows, es.Normal(0, std=1.0), **BUDGET)
    figure, axis = axes(6.2, 2.8)
    axis.plot(rows[:, 0], rows[:, 1], ".", color=GREY, markersize=2, alpha=0.6, label="rows (made up)")
    axis.plot(*rows.mean(axis=0), "s", color=ORANGE, label="mean of all rows")
    axis.plot(*release.value, "*", color=BLUE, markersize=11, label="private FriendlyCore mean")
    axis.set(xlim=(-4, 20), ylim=(-4, 8), aspect="equal")
    axis.legend(loc="lower right")
    return figure


def projection_clusters() -> Any:
    """Three clusters in 1,000 columns, and the same rows after a private projection, each on its two main axes."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(3, 1_000))
    clusters = np.repeat(np.arange(3), 80)
    data = centers[clusters] + 0.3 * rng.normal(size=(240, 1_000))
    data /= np.linalg.norm(data, axis=1, keepdims=True)
    sketch = es.project(data, 84, es.Ball(1.0), epsilon=200, delta=1e-6)
    figure = bare_figure(6.2, 2.8, "constrained")
    for axis, rows, title in zip(
        figure.subplots(1, 2), (data, sketch.value), ("Data", "Private projection"), strict=True
    ):
        centered = rows - rows.mean(axis=0)
        places = centered @ np.linalg.svd(centered, full_matrices=False)[2][:2].T
        for cluster, (color, marker) in enumerate(zip((BLUE, ORANGE, GREEN), "os^", strict=True)):
            chosen = places[clusters == cluster]
            axis.plot(chosen[:, 0], chosen[:, 1], marker, color=color, markersize=2.5, alpha=0.6)
        axis.set(title=title, xlabel="first main axis", xticks=[], yticks=[])
    return figure


def audit() -> Any:
    def noisy_sum(data: Any, rng: Any) -> Any:
        return np.clip(data, 0, 1).sum() + rng.normal()

    pair = np.zeros(5), np.array([0, 0, 0, 0, 1.0])
    result = es.audit(noisy_sum, pair, runs=20_000, processes=1, rng=np.random.default_rng(0))
    return result.plot(claim=es.Privacy(mu=1.0))


FIGURES: dict[str, Callable[[], Any]] = {
    "home-mean": home_mean,
    "interval": interval,
    "tutorial-release": tutorial_release,
    "error-against-epsilon": error_against_epsilon,
    "attacker": attacker,
    "budget-bar": budget_bar,
    "clamping": clamping,
    "bounds-tradeoff": bounds_tradeoff,
    "group-selection": group_selection,
    "groups": groups,
    "describe": describe,
    "histogram": histogram,
    "quantiles": quantiles,
    "plan": plan,
    "mean": mean,
    "normal-ellipse": normal_ellipse,
    "mechanisms": mechanisms,
    "friendly-core": friendly_core,
    "projection-clusters": projection_clusters,
    "audit": audit,
}


def draw(name: str, folder: Path) -> Path:
    """Write one figure to a folder."""
    entropy = runpy.run_path(str(FOLDER.parent / "outputs.py"))["_fixed_entropy"]()
    with mock.patch("os.urandom", entropy), warnings.catch_warnings(), styled():
        warnings.simplefilter("ignore", es.AccuracyWarning)
        return save(FIGURES[name](), folder / f"{name}.svg")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:  # figures are complete or not written at all
        drawn = [draw(name, Path(scratch)) for name in sys.argv[1:] or FIGURES]
        for path in drawn:
            (FOLDER / path.name).write_bytes(path.read_bytes())
