"""Operators that make arrays from sizes and values, and copies."""
from __future__ import annotations

from ..errors import ArgumentError
from ..spec import as_dtype, as_shape, spec
from .registry import operator


def _filled(shape, dtype, **_):
    return spec(as_shape(shape), as_dtype(dtype))


operator("zeros", "shape, dtype", inputs="", infer=_filled, kernel=lambda xp, shape, dtype: xp.zeros(shape, dtype))
operator("ones", "shape, dtype", inputs="", infer=_filled, kernel=lambda xp, shape, dtype: xp.ones(shape, dtype))
operator("empty", "shape, dtype", inputs="", infer=_filled, kernel=lambda xp, shape, dtype: xp.empty(shape, dtype))
operator("full", "shape, fill_value, dtype", inputs="", infer=lambda shape, fill_value, dtype: _filled(shape, dtype),
         kernel=lambda xp, shape, fill_value, dtype: xp.full(shape, fill_value, dtype))


def _like(x, dtype=None, **_):
    return x if dtype is None else spec(x.shape, as_dtype(dtype))


operator("zeros_like", "prototype, dtype=None", infer=_like, np="zeros_like", nd="zeros_like",
         kernel=lambda xp, x, dtype: xp.zeros(x.shape, dtype or x.dtype), vjp=lambda F, dy, x, y, dtype: None,
         doc="Zeros with the shape (and by default the dtype) of an array.")
operator("ones_like", "prototype, dtype=None", infer=_like, np="ones_like", nd="ones_like",
         kernel=lambda xp, x, dtype: xp.ones(x.shape, dtype or x.dtype), vjp=lambda F, dy, x, y, dtype: None,
         doc="Ones with the shape (and by default the dtype) of an array.")
operator("copy", "a", infer=lambda a: a, kernel=lambda xp, a: a.copy(), vjp=lambda F, dy, x, y: dy, np="copy",
         doc="A copy of an array.")


def _arange_length(start, stop, step):
    if step == 0:
        raise ArgumentError("arange: step must not be zero")
    import math
    return max(0, math.ceil((stop - start) / step))


operator("arange", "start, stop, step, dtype", inputs="",
         infer=lambda start, stop, step, dtype: spec((_arange_length(start, stop, step),), as_dtype(dtype)),
         kernel=lambda xp, start, stop, step, dtype: xp.arange(start, stop, step)[:_arange_length(start, stop, step)])
operator("full_like_value", "x, value", inputs="x", infer=lambda x, value: x,
         kernel=lambda xp, x, value: xp.full(x.shape, value, x.dtype),
         doc="An array of one value with the shape and dtype of another.")
