"""The only package that touches randomness: secret noise, exact to the last bit, and public seeds.

`stream` holds a release's secret bits, each noise law has a file of its own, `public` draws what may be published.
"""

from .ball_norm import add_ball_noise, ball_draws, ball_shift
from .box_norm import add_box_noise, box_draws, box_shifts
from .entropy import KEY_BYTES, check_rng, secret_name
from .gaussian import add_noise, add_noise_exact, shift_for
from .laplace import add_laplace
from .public_random import (
    public_coins,
    public_generator,
    public_integers,
    public_normals,
    public_permutation,
    public_seed,
    public_subset,
    public_words,
    seed_globals,
)
from .stream import Stream

__all__ = [
    "KEY_BYTES",
    "Stream",
    "add_ball_noise",
    "add_box_noise",
    "add_laplace",
    "add_noise",
    "add_noise_exact",
    "ball_draws",
    "ball_shift",
    "box_draws",
    "box_shifts",
    "check_rng",
    "public_coins",
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
