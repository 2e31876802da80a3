"""Operators that make arrays from sizes and values, and copies."""
from __future__ import annotations

import math

import numpy

from ..errors import ArgumentError
from ..spec import as_dtype, as_shape, spec
from .registry import operator


def _filled(shape, dtype, **_):
    return spec(as_shape(shape), as_dtype(dtype))


def constant(value, dtype):
    """A number in ``dtype``, wrapped around where it does not fit, as an array would be (NumPy refuses a number).

    An array is left as it is, as it is cast so where it is written; a number for bfloat16 too, as CuPy has no scalars
    of it.
    """
    dtype = as_dtype(dtype)
    return value if hasattr(value, "dtype") or dtype.kind == "V" else numpy.asarray(value).astype(dtype)[()]


operator("zeros", "shape, dtype", inputs="", infer=_filled, kernel=lambda xp, shape, dtype: xp.zeros(shape, dtype))
operator("ones", "shape, dtype", inputs="", infer=_filled, kernel=lambda xp, shape, dtype: xp.ones(shape, dtype))
operator("empty", "shape, dtype", inputs="", infer=_filled, kernel=lambda xp, shape, dtype: xp.empty(shape, dtype))
operator("full", "shape, fill_value, dtype", inputs="", infer=lambda shape, fill_value, dtype: _filled(shape, dtype),
         kernel=lambda xp, shape, fill_value, dtype: xp.full(shape, constant(fill_value, dtype), dtype))


def _like(x, dtype=None, **_):
    return x if dtype is None else spec(x.shape, as_dtype(dtype))


operator("zeros_like", "prototype, dtype=None", infer=_like, nd="zeros_like",
         kernel=lambda xp, x, dtype=None: xp.zeros(x.shape, dtype or x.dtype),
         doc="Zeros with the shape (and by default the dtype) of an array.")
operator("ones_like", "prototype, dtype=None", infer=_like, nd="ones_like",
         kernel=lambda xp, x, dtype=None: xp.ones(x.shape, dtype or x.dtype),
         doc="Ones with the shape (and by default the dtype) of an array.")
operator("full_like_value", "x, value, dtype=None", inputs="x", infer=_like,
         kernel=lambda xp, x, value, dtype=None: xp.full(x.shape, constant(value, dtype or x.dtype),
                                                         dtype or x.dtype),
         doc="An array of one value with the shape (and by default the dtype) of another.")
operator("copy", "a, out=None", infer=lambda a: a, kernel=lambda xp, a: a.copy(), vjp=lambda F, dy, x, y: dy,
         np="copy", doc="A copy of an array.")

# -- ranges --------------------------------------------------------------------------------------------------------


def _arange_length(start, stop, step):
    if step == 0:
        raise ArgumentError("arange: step must not be zero")
    return max(0, math.ceil((stop - start) / step))


operator("arange", "start, stop, step, dtype", inputs="",
         infer=lambda start, stop, step, dtype: spec((_arange_length(start, stop, step),), as_dtype(dtype)),
         kernel=lambda xp, start, stop, step, dtype: start + xp.arange(_arange_length(start, stop, step)) * step)


def _spaced(xp, start, stop, num, endpoint):
    """``num`` numbers from ``start`` to ``stop`` in float64; with ``endpoint`` the last is ``stop`` exactly."""
    parts = num - 1 if endpoint else num
    if parts <= 0:
        return xp.full(num, float(start))
    result = xp.arange(num) * ((stop - start) / parts) + start
    if endpoint:
        result[-1] = stop
    return result


operator("linspace", "start, stop, num, endpoint, dtype", inputs="",
         infer=lambda start, stop, num, endpoint, dtype: spec((num,), as_dtype(dtype)),
         kernel=lambda xp, start, stop, num, endpoint, dtype: _spaced(xp, start, stop, num, endpoint)
         if as_dtype(dtype).kind not in "iu" else xp.floor(_spaced(xp, start, stop, num, endpoint)))
operator("logspace", "start, stop, num, endpoint, base, dtype", inputs="",
         infer=lambda start, stop, num, endpoint, base, dtype: spec((num,), as_dtype(dtype)),
         kernel=lambda xp, start, stop, num, endpoint, base, dtype:
         xp.power(float(base), _spaced(xp, start, stop, num, endpoint)))

# -- matrices, grids and windows -----------------------------------------------------------------------------------

operator("eye", "N, M, k, dtype", inputs="", infer=lambda N, M, k, dtype: spec((N, M), as_dtype(dtype)),
         kernel=lambda xp, N, M, k, dtype: xp.eye(N, M, k, dtype=dtype))
operator("tri", "N, M, k, dtype", inputs="", infer=lambda N, M, k, dtype: spec((N, M), as_dtype(dtype)),
         kernel=lambda xp, N, M, k, dtype: xp.tri(N, M, k, dtype=dtype))


def _indices(xp, dimensions, dtype):
    result = xp.empty((len(dimensions), *dimensions), dtype)
    for axis, n in enumerate(dimensions):
        result[axis] = xp.arange(n, dtype=dtype).reshape([n if i == axis else 1 for i in range(len(dimensions))])
    return result


operator("indices", "dimensions, dtype", inputs="",
         infer=lambda dimensions, dtype: spec((len(dimensions), *dimensions), as_dtype(dtype)), kernel=_indices)


def _window(xp, size, kind, dtype):
    """Harris, "On the use of windows for harmonic analysis with the discrete Fourier transform" (1978)."""
    if size == 1:
        return xp.ones(1)
    angle = xp.arange(max(size, 0)) * (2 * math.pi / (size - 1))
    if kind == "blackman":
        return 0.42 - 0.5 * xp.cos(angle) + 0.08 * xp.cos(2 * angle)
    a = 0.54 if kind == "hamming" else 0.5
    return a - (1 - a) * xp.cos(angle)


operator("window", "size, kind, dtype", inputs="",
         infer=lambda size, kind, dtype: spec((max(size, 0),), as_dtype(dtype)), kernel=_window)
operator("fill", "value, shape, dtype", inputs="value", infer=lambda value, shape, dtype: spec(shape, as_dtype(dtype)),
         kernel=lambda xp, value, shape, dtype: xp.full(shape, constant(value, dtype), dtype),
         doc="An array of one value, which is an operand: filling with another one is the same call.")
