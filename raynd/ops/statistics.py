"""Counting values: histograms and bins; extrema that leave NaN out."""
from __future__ import annotations

from ..errors import ArgumentError, ShapeError
from ..spec import is_float, spec
from .elementwise import default_float
from .reduction import FLOAT64, INT64, reduced_shape, reduction_axes
from .registry import operator
from .sorting import plain

# -- histograms ----------------------------------------------------------------------------------------------------


def _infer_histogram(a, bins, weights, count, range, density):
    if bins is not None:
        if len(bins.shape) != 1 or not bins.shape[0]:
            raise ShapeError(f"histogram: bins must have one axis, not the shape {bins.shape}")
        edges = spec(bins.shape, bins.dtype)
    else:
        if count < 1:
            raise ShapeError(f"histogram: `bins` must be positive, not {count}")
        if range is not None and (len(range) != 2 or not range[0] <= range[1]):
            raise ShapeError(f"histogram: range must be (low, high), not {range}")
        edges = spec((count + 1,), a.dtype if is_float(a.dtype) else default_float())
    if weights is not None and weights.shape != a.shape:
        raise ShapeError(f"histogram: weights of shape {weights.shape} for an array of shape {a.shape}")
    dtype = INT64 if weights is None else weights.dtype
    if density:
        dtype = edges.dtype if is_float(edges.dtype) else default_float()
    return spec((edges.shape[0] - 1,), dtype), edges


def _histogram(xp, a, bins, weights, count, range, density):
    """How many elements (or what sum of ``weights``) lie in each bin, and the edges of the bins."""
    a = plain(a).reshape(-1)
    if a.dtype.kind == "b":
        a = a.astype("uint8")
    counts, edges = xp.histogram(a, count if bins is None else plain(bins), range=range,
                                 weights=None if weights is None else plain(weights).reshape(-1), density=bool(density))
    return counts, edges


operator("histogram", "a, bins, weights, count, range, density", inputs="a, bins, weights",
         optional=("bins", "weights"), infer=_infer_histogram, kernel=_histogram)


def _infer_bincount(x, weights, length):
    if x.dtype.kind not in "iub":
        raise ArgumentError(f"bincount: an array of integers is needed, not of {x.dtype}; use astype")
    if len(x.shape) != 1:
        raise ShapeError(f"bincount: an array of one axis is needed, not of shape {x.shape}")
    if weights is not None and weights.shape != x.shape:
        raise ShapeError(f"bincount: weights of shape {weights.shape} for an array of shape {x.shape}")
    return spec((length,), INT64 if weights is None else weights.dtype if is_float(weights.dtype) else FLOAT64)


def _bincount(xp, x, weights, length):
    """How often (or with what sum of ``weights``) each of the numbers 0, 1, ... occurs."""
    return xp.bincount(x.astype("int64"), None if weights is None else plain(weights), minlength=length)


operator("bincount", "x, weights, length", inputs="x, weights", optional=("weights",), infer=_infer_bincount,
         kernel=_bincount, vjp=lambda F, dy, x, y, length: (None, F.take(dy, x[0], axis=0, mode="clip")))

# -- extrema without NaN -------------------------------------------------------------------------------------------


def _nan_extremum(name, long_name, limit):
    def infer(a, axis, keepdims):
        if any(a.shape[i] == 0 for i in reduction_axes(axis, len(a.shape))):
            raise ShapeError(f"zero-size array to reduction operation nan{name} which has no identity")
        return spec(reduced_shape(a.shape, axis, keepdims), a.dtype)

    def kernel(xp, a, axis, keepdims):
        a, axes, keepdims = plain(a), reduction_axes(axis, a.ndim), bool(keepdims)
        if a.dtype.kind != "f":
            return getattr(a, name)(axis=axes, keepdims=keepdims)
        missing = a != a
        result = getattr(xp.where(missing, xp.asarray(limit, dtype=a.dtype), a), name)(axis=axes, keepdims=keepdims)
        return xp.where(missing.all(axis=axes, keepdims=keepdims), xp.asarray(xp.nan, dtype=a.dtype), result)

    def vjp(F, dy, x, y, axis, keepdims):
        a, axes = x[0], reduction_axes(axis, len(x[0].shape))
        return F.unreduce(dy, axis=axes, shape=a.shape) * F.equal(a, F.unreduce(y[0], axis=axes, shape=a.shape))

    operator(f"nan{name}", "a, axis=None, out=None, keepdims=False", infer=infer, kernel=kernel, vjp=vjp,
             np=f"nan{name}", doc=f"The {long_name} over ``axis`` of the elements that are not NaN; NaN if all are.")


_nan_extremum("max", "maximum", float("-inf"))
_nan_extremum("min", "minimum", float("inf"))
