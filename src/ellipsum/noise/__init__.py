"""The only package that touches randomness: secret noise, exact to the last bit, and public seeds.

`stream` holds a release's secret bits, each noise law has a file of its own, `public` draws what may be published.
"""

from .entropy import KEY_BYTES
from .gaussian import add_noise, add_noise_exact, shift_for
from .laplace import add_laplace
from .public import public_normals, public_permutation, public_seed, public_subset, public_words, seed_globals
from .stream import Stream

__all__ = [
    "KEY_BYTES",
    "Stream",
    "add_laplace",
    "add_noise",
    "add_noise_exact",
    "public_normals",
    "public_permutation",
    "public_seed",
    "public_subset",
    "public_words",
    "seed_globals",
    "shift_for",
]
