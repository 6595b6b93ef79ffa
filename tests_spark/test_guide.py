"""The guide's snippets run, Dask's included, and Dask gives the integers of a local pass."""

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import ellipsum as es

GUIDES = [Path(__file__).parent.parent / "docs" / "guides" / name for name in ("spark.md", "new-engine.md")]


def test_snippets_run_and_dask_equals_local(spark, tmp_path, monkeypatch):
    import dask
    import dask.dataframe as dd

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"age": rng.integers(0, 100, 900).astype(float), "income": rng.random(900) * 1e5})
    people.iloc[::9, 0] = np.nan
    people["name"] = [f"p{i % 300}" for i in range(900)]
    people.to_parquet("people.parquet")
    names = {"spark": spark}
    warnings.simplefilter("ignore", es.ProjectionWarning)
    with dask.config.set(scheduler="synchronous"):
        text = "\n".join(guide.read_text() for guide in GUIDES)
        for code in re.findall(r"```py\n(.*?)```", text, re.DOTALL):
            placed = code.replace('"people.parquet"', repr(str(tmp_path / "people.parquet")))
            exec(compile(placed, "spark.md", "exec"), names)
        spark.catalog.clearCache()
        for partitions in (1, 40):
            frame = names["DaskSource"](dd.from_pandas(people, npartitions=partitions), ["income", "age"])
            remote = es.sum(frame, es.Box([0, 0], [2e5, 120]), epsilon=1, delta=1e-6, rng=np.random.default_rng(1))
            local = es.sum(
                people[["income", "age"]],
                es.Box([0, 0], [2e5, 120]),
                epsilon=1,
                delta=1e-6,
                rng=np.random.default_rng(1),
            )
            assert np.array_equal(remote.value, local.value)
