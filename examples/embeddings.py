"""A private mean of 384-dimensional embeddings, out of a Parquet file: python examples/embeddings.py

Unit vectors around topics, several to a person, as a model of sentences would give them: a common direction, a few
topics of uneven frequency, and coordinates of uneven spread. What is published is the mean over people. Its direction
is what one would search with, so the cosine to the true one is shown beside the error.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import ellipsum as es

WIDTH, TOPICS = 384, 30
KNOWN = {"Ball(1)": es.Ball(1.0), "Unknown(1)": es.Unknown(1.0)}  # unit vectors: no entry exceeds 1


def write_vectors(path: Path, people: int, rows: int) -> np.ndarray:
    """A Parquet file with a column of lists of fixed length; returns the true mean over people."""
    rng = np.random.default_rng(0)
    spread = np.exp(rng.normal(0, 1, WIDTH))
    centers = spread * (1.5 * rng.normal(size=WIDTH) + rng.normal(size=(TOPICS, WIDTH)))
    frequency = 1 / np.arange(1, TOPICS + 1)
    tastes = rng.choice(TOPICS, size=people, p=frequency / frequency.sum())
    owners = np.concatenate([np.arange(people), rng.integers(0, people, rows - people)])
    totals, counts = np.zeros((people, WIDTH)), np.zeros(people)
    kind = pa.list_(pa.float32(), WIDTH)
    with pq.ParquetWriter(path, pa.schema([("person", pa.int64()), ("vector", kind)])) as out:
        for start in range(0, rows, 5000):
            who = owners[start : start + 5000]
            vectors = (centers[tastes[who]] + spread * rng.normal(size=(len(who), WIDTH))).astype(np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            np.add.at(totals, who, vectors)
            np.add.at(counts, who, 1)
            lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), type=kind)
            out.write_batch(pa.record_batch({"person": pa.array(who), "vector": lists}))
    return np.asarray((totals / counts[:, None]).mean(axis=0))


def main(people: int = 20_000, rows: int = 60_000, epsilons: tuple[float, ...] = (0.25, 1.0, 4.0)) -> list[list[float]]:
    """Print every release's error and the one it states, and return them."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.parquet"
        truth = write_vectors(path, people, rows)
        length = np.linalg.norm(truth)
        print(f"{rows:,} unit vectors of {WIDTH} entries, {people:,} people, true mean of length {length:.3f}")
        for epsilon in epsilons:
            for name, known in KNOWN.items():
                release = es.mean(path, known, columns=["vector"], privacy_id="person", epsilon=epsilon, delta=1e-6)
                error = np.linalg.norm(release.value - truth)
                stated = np.linalg.norm(release.noise_std)
                cosine = release.value @ truth / np.linalg.norm(release.value) / length
                line = f"epsilon {epsilon:4}, {name:10}: error {error:.4f} (stated {stated:.4f})"
                print(f"{line}, cosine to the truth {cosine:.4f}")
                found.append([float(error), float(stated)])
    return found


if __name__ == "__main__":
    main()
