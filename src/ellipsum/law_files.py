"""Laws of noise in JSON."""

from __future__ import annotations

from typing import Any

from . import codec
from .laws.box import Blocks
from .noise_laws import BallLaw, BoxLaw, Law

_MIXED = "mixed"
_WRONG = "the law of this plan's noise has missing, unknown or wrong fields. Make the plan anew."


def law_from_dict(saved: Any) -> Law:
    """Inverse of `to_dict`; whether it gives a guarantee is for `prove`. Gaussian noise is a plan's `noise_units`."""
    with codec.Fields(saved, _WRONG) as fields:
        kind = fields.take("kind", codec.word(BallLaw.kind, BoxLaw.kind, _MIXED))
        if kind == _MIXED:
            from .mixed_law import MixedLaw

            return MixedLaw(fields.take("pure", _box_from_dict), fields.take("units", codec.number))
        if kind == BallLaw.kind:
            return BallLaw(fields.take("scale", codec.number), fields.take("dimension", codec.integer(1, 1 << 40)))
        return _box(fields)


def _box_from_dict(saved: Any) -> BoxLaw:
    with codec.Fields(saved, _WRONG) as fields:
        fields.take("kind", codec.word(BoxLaw.kind))
        return _box(fields)


def _box(fields: codec.Fields) -> BoxLaw:
    return BoxLaw(fields.take("blocks", Blocks.from_dict), fields.take("scales", codec.list_of(codec.number)))
