"""A private mean of 384-dimensional embeddings, out of a Parquet file: python examples/embeddings.py

Unit vectors around a hidden direction, several to a person. What is published is the mean over
people; its direction is what one would search with, so the cosine to the true one is shown.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import ellipsum as es

WIDTH, PEOPLE, ROWS = 384, 20_000, 60_000


def write_vectors(path: Path) -> np.ndarray:
    """Vectors of people with tastes of their own around a common one; returns the true mean over people."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=WIDTH)
    tastes = (common + 2 * rng.normal(size=(PEOPLE, WIDTH))).astype(np.float32)
    owners = np.concatenate([np.arange(PEOPLE), rng.integers(0, PEOPLE, ROWS - PEOPLE)])
    totals, counts = np.zeros((PEOPLE, WIDTH)), np.zeros(PEOPLE)
    kind = pa.list_(pa.float32(), WIDTH)
    with pq.ParquetWriter(path, pa.schema([("person", pa.int64()), ("vector", kind)])) as out:
        for start in range(0, ROWS, 5000):
            who = owners[start : start + 5000]
            vectors = tastes[who] + rng.normal(size=(len(who), WIDTH)).astype(np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            np.add.at(totals, who, vectors)
            np.add.at(counts, who, 1)
            lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), type=kind)
            out.write_batch(pa.record_batch({"person": pa.array(who), "vector": lists}))
    return np.asarray((totals / counts[:, None]).mean(axis=0))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.parquet"
        truth = write_vectors(path)
        length = np.linalg.norm(truth)
        print(f"{ROWS:,} unit vectors of {WIDTH} entries, {PEOPLE:,} people, true mean of length {length:.3f}")
        for epsilon in (0.25, 1.0, 4.0):
            release = es.mean(path, es.Ball(1.0), columns=["vector"], privacy_id="person", epsilon=epsilon, delta=1e-6)
            error = np.linalg.norm(release.value - truth)
            cosine = release.value @ truth / np.linalg.norm(release.value) / length
            forecast = np.sqrt(release.plan.expected_squared_error)
            print(f"epsilon {epsilon:4}: error {error:.4f} (forecast {forecast:.4f}), cosine to the truth {cosine:.4f}")


if __name__ == "__main__":
    main()
