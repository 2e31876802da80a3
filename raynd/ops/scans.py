"""Running sums and products along an axis, and the linear recurrence that their gradients need.

``linear_scan`` solves ``y[i] = a[i] * y[i-1] + b[i]``. Its gradient is such a recurrence in the other direction, so a
cumulative product can be differentiated any number of times, without dividing by elements that may be zero.
"""
from __future__ import annotations

from ..errors import ShapeError
from ..spec import is_float, normalize_axis, promote, spec
from .reduction import FLOAT32, accumulator, summed_dtype
from .registry import operator

# -- cumulative sums and products ----------------------------------------------------------------------------------


def _infer_cumulative(a, axis, dtype):
    if axis is None:
        return spec((a.size,), summed_dtype(a.dtype, dtype))
    normalize_axis(axis, len(a.shape))
    return spec(a.shape, summed_dtype(a.dtype, dtype))


def _cumulative(name):
    def kernel(xp, a, axis, dtype):
        work = accumulator(summed_dtype(a.dtype, dtype))
        return getattr(xp, name)(a.astype(work, copy=False), axis=axis)
    return kernel


def _cumsum_vjp(F, dy, x, y, axis, dtype):
    at = 0 if axis is None else axis
    g = F.flip(F.cumsum(F.flip(dy, axis=at), axis=at), axis=at)
    return F.reshape(g, newshape=x[0].shape) if axis is None else g


def _last(F, x, axis):
    """(``x`` with ``axis`` last, the order that brings it back); a flat array for None."""
    if axis is None:
        return F.reshape(x, newshape=(x._spec.size,)), None
    axis = normalize_axis(axis, len(x.shape))
    if axis == len(x.shape) - 1:
        return x, None
    order = tuple([i for i in range(len(x.shape)) if i != axis]) + (axis,)
    return F.transpose(x, axes=order), tuple([order.index(i) for i in range(len(order))])


def _cumprod_vjp(F, dy, x, y, axis, dtype):
    if dy._spec.dtype != x[0]._spec.dtype:
        dy = F.cast(dy, dtype=x[0]._spec.dtype.name)
    a, back = _last(F, x[0], axis)
    g, _ = _last(F, dy, None if axis is None else axis)
    total = F.linear_scan(F.shift_last(a, by=-1), g, reverse=True)
    result = total * F.exclusive_cumprod(a, reverse=False)
    result = result if back is None else F.transpose(result, axes=back)
    return F.reshape(result, newshape=x[0].shape)


operator("cumsum", "a, axis=None, dtype=None, out=None", infer=_infer_cumulative, kernel=_cumulative("cumsum"),
         vjp=_cumsum_vjp, np="cumsum", method="cumsum",
         doc="Running sums along ``axis`` (None: of the flattened array); bools are counted in int64.")
operator("cumprod", "a, axis=None, dtype=None, out=None", infer=_infer_cumulative, kernel=_cumulative("cumprod"),
         vjp=_cumprod_vjp, np="cumprod", method="cumprod",
         doc="Running products along ``axis`` (None: of the flattened array).")

# -- along the last axis -------------------------------------------------------------------------------------------


def _shift(xp, x, by):
    result = xp.zeros_like(x)
    n = x.shape[-1]
    if 0 <= by < n:
        result[..., by:] = x[..., :n - by]
    elif -n < by < 0:
        result[..., :n + by] = x[..., -by:]
    return result


operator("shift_last", "x, by", inputs="x", infer=lambda x, by: x, kernel=_shift,
         vjp=lambda F, dy, x, y, by: F.shift_last(dy, by=-by),
         doc="The last axis moved by some places, with zeros coming in.")


def _linear_scan(xp, a, b, reverse):
    """``y[i] = a[i] * y[i-1] + b[i]`` along the last axis (from the end if ``reverse``), in log2(n) vectorised steps:
    the maps y -> a y + b are composed with their neighbours at distances 1, 2, 4, ... (Hillis and Steele, 1986)."""
    work = FLOAT32 if is_float(a.dtype) and a.dtype.itemsize == 2 else a.dtype
    a, b = a.astype(work), b.astype(work)
    if reverse:
        a, b = a[..., ::-1], b[..., ::-1]
    n, step = a.shape[-1], 1
    while step < n:
        wider = a.copy()
        total = b.copy()
        total[..., step:] += a[..., step:] * b[..., :-step]
        wider[..., step:] *= a[..., :-step]
        a, b, step = wider, total, 2 * step
    return b[..., ::-1] if reverse else b


def _linear_scan_vjp(F, dy, x, y, reverse):
    a = x[0]
    by = 1 if reverse else -1
    t = F.linear_scan(F.shift_last(a, by=by), dy, reverse=not reverse)
    return t * F.shift_last(y[0], by=-by), t


def _infer_scan(a, b, reverse):
    if a.shape != b.shape or not a.shape:
        raise ShapeError(f"linear_scan: arrays of one shape with at least one axis are needed, got {a.shape} "
                         f"and {b.shape}")
    return spec(a.shape, promote(a.dtype, b.dtype))


operator("linear_scan", "a, b, reverse", inputs="a, b", infer=_infer_scan, kernel=_linear_scan, vjp=_linear_scan_vjp)


def _exclusive_cumprod(xp, x, reverse):
    work = FLOAT32 if is_float(x.dtype) and x.dtype.itemsize == 2 else x.dtype
    x = x.astype(work)
    if reverse:
        x = x[..., ::-1]
    shifted = xp.ones_like(x)
    shifted[..., 1:] = x[..., :-1]
    result = xp.cumprod(shifted, axis=-1)
    return result[..., ::-1] if reverse else result


def _exclusive_cumprod_vjp(F, dy, x, y, reverse):
    # y[i+1] = x[i] y[i], so the total gradient t of y obeys t[i] = dy[i] + x[i] t[i+1], and dx[i] = t[i+1] y[i]
    t = F.linear_scan(x[0], dy, reverse=not reverse)
    return F.shift_last(t, by=1 if reverse else -1) * y[0]


operator("exclusive_cumprod", "x, reverse", inputs="x", infer=lambda x, reverse: x, kernel=_exclusive_cumprod,
         vjp=_exclusive_cumprod_vjp,
         doc="For each element of the last axis the product of all elements before it (after it if ``reverse``).")
