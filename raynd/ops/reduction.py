"""Reductions over axes."""
from __future__ import annotations

from ..spec import normalize_axes, spec
from .registry import operator


def reduced_shape(shape, axis, keepdims) -> tuple:
    """``shape`` without (or with 1 in place of) the axes reduced over; ``axis`` None, int or tuple."""
    axes = normalize_axes(axis, len(shape))
    if keepdims:
        return tuple([1 if i in axes else n for i, n in enumerate(shape)])
    return tuple([n for i, n in enumerate(shape) if i not in axes])


def expanded_shape(shape, axis) -> tuple:
    """``shape`` with 1 in place of the axes reduced over."""
    return reduced_shape(shape, axis, True)


def _sum_to_kernel(xp, x, shape):
    extra = x.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(i + extra for i, n in enumerate(shape) if n == 1 and x.shape[i + extra] != 1)
    return x.sum(axis=axes, keepdims=False).reshape(shape) if axes else x


operator("sum_to", "x, shape", inputs="x", infer=lambda x, shape: spec(shape, x.dtype), kernel=_sum_to_kernel,
         vjp=lambda F, dy, x, y, shape: F.broadcast_to(dy, shape=x[0].shape),
         doc="Sum over the axes along which ``shape`` was broadcast to the array's shape.")
operator("broadcast_to", "array, shape", inputs="array", infer=lambda x, shape: spec(shape, x.dtype),
         kernel=lambda xp, x, shape: xp.broadcast_to(x, shape),
         vjp=lambda F, dy, x, y, shape: F.sum_to(dy, shape=x[0].shape))
operator("sum", "a, axis=None, dtype=None, out=None, keepdims=False", infer=lambda a, axis, dtype, keepdims: spec(reduced_shape(a.shape, axis, keepdims), dtype or a.dtype),
         kernel=lambda xp, a, axis, dtype, keepdims: a.sum(axis=axis, dtype=dtype, keepdims=keepdims),
         vjp=lambda F, dy, x, y, axis, dtype, keepdims: F.broadcast_to(F.reshape(dy, newshape=expanded_shape(x[0].shape, axis)), shape=x[0].shape),
         np="sum", method="sum")
operator("reshape", "a, newshape", inputs="a", infer=lambda a, newshape: spec(newshape, a.dtype),
         kernel=lambda xp, a, newshape: a.reshape(newshape), vjp=lambda F, dy, x, y, newshape: F.reshape(dy, newshape=x[0].shape))
