"""Projections from files: what a loaded one shows is checked against what follows from its own numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from .. import codec
from ..errors import MOST_COLUMNS, UsageError, names
from ..plan_files import COUNT, options_from_dict
from ..privacy import Privacy
from ..texts import unit_of
from .curve import CALIBRATIONS, ProjectionPrivacy
from .files import read_metadata, read_shape
from .matrix import as_seed, draw_matrix, matrix_excess, spectral_norm_upper
from .outlook import ADVERSARIES, adaptive_noise, oblivious_noise
from .region import Region
from .release import FORMAT, Projection

_WRONG = "the projection has missing, unknown or wrong fields."
_DOCTORED = "this projection's noise, guarantee or size is not what it says. It was changed after it was made."
_INTEGERS = codec.table(codec.integer(-(1 << 40), 1 << 40), np.int64)
_NEAR = 1e-6  # what rounding may change in the norm of a matrix


def load_projection(path: Path) -> Projection:
    """Inverse of `Projection.save`; values stay in the file until asked for."""
    made, std = _from_dict(codec.parse(read_metadata(path)), path)
    _check_size(made, path)
    _check_matrix(made)
    _check_noise(made)
    if not math.isclose(made.noise_std, std, rel_tol=_NEAR):
        raise UsageError(_DOCTORED)
    return made


def _from_dict(found: Any, path: Path) -> tuple[Projection, float]:
    """The projection, and the noise std that it shows."""
    other = f"not a projection of format {FORMAT}. It may come from another version of ellipsum."
    with codec.Fields(found, _WRONG) as fields:
        fields.check_format(FORMAT, other)
        adversary = fields.take("adversary", codec.word(*ADVERSARIES))
        spent: codec.Kind[Any] = ProjectionPrivacy.from_dict if adversary == "oblivious" else Privacy.from_dict
        made = Projection(
            region=fields.take("region", Region.from_dict),
            k=fields.take("k", codec.integer(1, MOST_COLUMNS)),
            privacy=fields.take("privacy", spent),
            noise_units=fields.take("noise_units", codec.number),
            adversary=adversary,
            calibration=fields.take("calibration", codec.word(*CALIBRATIONS)),
            secure=fields.take("secure", codec.flag),
            matrix_seed=fields.maybe("matrix_seed", codec.text),
            n=fields.take("n", COUNT),
            columns=fields.maybe("columns", codec.names),
            path=path,
            ordered=fields.take("ordered", codec.flag, True),
            options=fields.take("options", options_from_dict, {}),
            _given=fields.maybe("matrix_integers", _INTEGERS),
        )
        return made, fields.take("noise_std", codec.number)


def _check_size(made: Projection, path: Path) -> None:
    names("columns", made.columns, made.d)
    if read_shape(path) != (made.n, made.k) or made.privacy.unit != unit_of(made.options):
        raise UsageError(_DOCTORED)
    if made.ordered and made.options:
        raise UsageError("people have no order in a projection [J9]. It was changed after it was made.")


def _check_matrix(made: Projection) -> None:
    """One matrix, of the projection's size; a guarantee over its draw needs one that was drawn."""
    if (made.matrix_seed is None) == (made._given is None):
        raise UsageError(_DOCTORED)
    if made.matrix_seed is not None:
        as_seed(made.matrix_seed)
    elif made.adversary == "oblivious" or made._given is None or made._given.shape != (made.region.width, made.k):
        raise UsageError(_DOCTORED)


def _check_noise(made: Projection) -> None:
    """The noise is what the guarantee needs, and no more [J1][J2][J6]."""
    privacy, region = made.privacy, made.region
    if isinstance(privacy, ProjectionPrivacy):
        valid = privacy.k == made.k and privacy.excess >= matrix_excess(region.width)
        needed, least = oblivious_noise(region, privacy), 1.0
    else:
        valid = privacy.slack == 0 and privacy.neighbours == "replace" and privacy.mu > 0
        needed, least = _adaptive(made) if valid else math.inf, 1 - _NEAR
    if not valid or not needed * least <= made.noise_units <= needed * (1 + _NEAR):
        raise UsageError(_DOCTORED)


def _adaptive(made: Projection) -> float:
    integers = made._given
    if integers is None:
        assert made.matrix_seed is not None
        integers = draw_matrix(as_seed(made.matrix_seed), made.region.width, made.k)
    assert isinstance(made.privacy, Privacy)
    return adaptive_noise(made.region, made.privacy, spectral_norm_upper(integers))
