"""The only package that touches randomness: secret noise, exact to the last bit, and public seeds.

`stream` holds a release's secret bits, each noise distribution has a file, and `public_random` draws what may be
published.
"""

from .gaussian import add_laplace, add_noise, add_noise_exact, shift_for
from .public_random import (
    public_generator,
    public_integers,
    public_normals,
    public_permutation,
    public_seed,
    public_subset,
    public_words,
    seed_globals,
)
from .stream import KEY_BYTES, Stream, check_rng, secret_name
from .vector_runs import ball_draws, ball_shift, box_draws, box_shifts

__all__ = [
    "KEY_BYTES",
    "Stream",
    "add_laplace",
    "add_noise",
    "add_noise_exact",
    "ball_draws",
    "ball_shift",
    "box_draws",
    "box_shifts",
    "check_rng",
    "public_generator",
    "public_integers",
    "public_normals",
    "public_permutation",
    "public_seed",
    "public_subset",
    "public_words",
    "secret_name",
    "seed_globals",
    "shift_for",
]
