"""Methods of arrays that are made from operator records (``method=`` exports), attached to the classes on import."""
from __future__ import annotations

from ..errors import ShapeError
from ..ops import registry
from .array import NDArray, ndarray
from .bindings import call, export
from .shape_methods import METHODS as _SHAPES


def clip(self, min=None, max=None, out=None):
    """Values below ``min`` replaced by it, above ``max`` by that."""
    if min is None and max is None:
        raise ShapeError("array_clip: must set either max or min")
    return call(registry.get("clip"), (self, min, max), (), out)


def round(self, decimals=0, out=None, **kwargs):
    """Rounded to ``decimals`` places, halves to even."""
    return _round(self, decimals, out, **kwargs)


def attach():
    """Give both classes the methods that they do not define themselves; the legacy face may replace its own later."""
    exported = export("method", "raynd.ndarray")
    for cls in (NDArray, ndarray):
        for name, method in exported.items():
            if name not in vars(cls):
                setattr(cls, name, method)
    for method in (clip, round):
        setattr(ndarray, method.__name__, method)
    for name, method in _SHAPES.items():
        setattr(ndarray, name, method)


_round = export("np", "raynd.ndarray")["round"]
attach()
