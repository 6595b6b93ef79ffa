"""Laws of noise in JSON."""

from __future__ import annotations

from typing import Any

from ..util import json_codec
from .block_law import Blocks
from .law import BallLaw, BoxLaw, Law

_MIXED = "mixed"
_WRONG = "the law of this plan's noise has missing, unknown or wrong fields. Make the plan anew."


def law_from_dict(saved: Any) -> Law:
    """Inverse of `to_dict`; whether it gives a guarantee is for `prove`. Gaussian noise is a plan's `noise_units`."""
    with json_codec.Fields(saved, _WRONG) as fields:
        kind = fields.take("kind", json_codec.word(BallLaw.kind, BoxLaw.kind, _MIXED))
        if kind == _MIXED:
            from .mixed_law import MixedLaw

            return MixedLaw(fields.take("pure", _box_from_dict), fields.take("units", json_codec.number))
        if kind == BallLaw.kind:
            return BallLaw(
                fields.take("scale", json_codec.number), fields.take("dimension", json_codec.integer(1, 1 << 40))
            )
        return _box(fields)


def _box_from_dict(saved: Any) -> BoxLaw:
    with json_codec.Fields(saved, _WRONG) as fields:
        fields.take("kind", json_codec.word(BoxLaw.kind))
        return _box(fields)


def _box(fields: json_codec.Fields) -> BoxLaw:
    return BoxLaw(fields.take("blocks", Blocks.from_dict), fields.take("scales", json_codec.list_of(json_codec.number)))
