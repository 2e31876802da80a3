"""Shapes of arrays: reshape in both dialects, order of axes, axes of length 1, broadcasting, order of elements."""
from __future__ import annotations

import math

from ..errors import ArgumentError, ShapeError, dual
from ..spec import as_shape, normalize_axes, normalize_axis, spec
from .registry import operator


def bind_reshape(xp, in_specs, out_specs, attrs):
    """The kernel of all operators that only change the shape."""
    shape = out_specs[0].shape
    return lambda a: a.reshape(shape)


# -- reshape -------------------------------------------------------------------------------------------------------


def check_order(order, name):
    """Arrays are always in C order."""
    if order not in ("C", "K"):
        raise dual(NotImplementedError)(f"{name}: only order='C' is supported, not {order!r}")


def integers(value, name) -> tuple:
    """A tuple of ints from an int or a tuple."""
    value = value if isinstance(value, (tuple, list)) else (value,)
    try:
        return tuple([v.__index__() for v in value])
    except AttributeError:
        raise ArgumentError(f"{name} must be an int or a tuple of ints, not {value!r}") from None


def inferred_shape(shape, newshape) -> tuple:
    """``newshape`` (an int or a tuple) with -1 replaced by the size that keeps the number of elements of ``shape``."""
    new = integers(newshape, "newshape")
    size = math.prod(shape)
    if -1 in new:
        known = -math.prod(new)
        if new.count(-1) > 1:
            raise ShapeError(f"can only specify one unknown dimension, not {new}")
        if known <= 0 or size % known:
            raise ShapeError(f"cannot reshape array of shape {shape} into shape {new}")
        new = tuple([size // known if n == -1 else n for n in new])
    if any(n < 0 for n in new) or math.prod(new) != size:
        raise ShapeError(f"cannot reshape array of shape {shape} into shape {new}")
    return new


def _infer_reshape(a, newshape, order):
    check_order(order, "reshape")
    return spec(inferred_shape(a.shape, newshape), a.dtype)


operator("reshape", "a, newshape, order='C', out=None", inputs="a", infer=_infer_reshape, np="reshape",
         bind=bind_reshape,
         vjp=lambda F, dy, x, y, newshape, order: F.reshape(dy, newshape=x[0].shape),
         doc="A copy in another shape of as many elements; one size may be -1. For the same memory see "
             "``reshape_view``.")


def coded_shape(shape, codes) -> tuple:
    """The shape that the codes of ``npx.reshape`` make of ``shape``.

    A size stands for itself, -1 is inferred, -2 keeps an axis, -3 drops an axis of length 1, -4 keeps all axes that
    are left, -5 merges two axes, -6 splits one into the two sizes that follow it, of which one may be -1.
    """
    result, at, position = [], 0, 0

    def take(count, code):
        nonlocal at
        if at + count > len(shape):
            raise ShapeError(f"reshape: too few axes left in {shape} for code {code} of {codes}")
        at += count
        return shape[at - count:at]

    while position < len(codes):
        code = codes[position]
        position += 1
        if code >= 0:
            result.append(code)
            at += 1
        elif code == -1:
            result.append(-1)
            at += 1
        elif code == -2:
            result.extend(take(1, code))
        elif code == -3:
            if take(1, code) != (1,):
                raise ShapeError(f"reshape: -3 drops an axis of length 1, not of length {shape[at - 1]} of {shape}")
        elif code == -4:
            result.extend(shape[at:])
            at = len(shape)
        elif code == -5:
            result.append(math.prod(take(2, code)))
        elif code == -6:
            result.extend(_split_axis(take(1, code)[0], codes[position:position + 2]))
            position += 2
        else:
            raise ShapeError(f"reshape: {code} is not a code; there are -1 to -6")
    return inferred_shape(shape, tuple(result))


def _split_axis(n, parts):
    if len(parts) != 2 or any(p < -1 or p == 0 for p in parts) or parts == (-1, -1):
        raise ShapeError(f"reshape: -6 must be followed by two sizes, of which one may be -1, not {parts}")
    a, b = parts
    a, b = (n // b if a == -1 else a), (n // a if b == -1 else b)
    if a * b != n:
        raise ShapeError(f"reshape: an axis of length {n} does not split into {parts}")
    return a, b


def npx_reshaped(shape, newshape, reverse) -> tuple:
    """The result shape of ``npx.reshape``; with ``reverse`` codes are read, and matched, from the last on (the sizes of
    a -6 then stand before it)."""
    codes = integers(newshape, "newshape")
    if reverse:
        return coded_shape(shape[::-1], codes[::-1])[::-1]
    return coded_shape(shape, codes)


def _infer_npx_reshape(a, newshape, reverse, order):
    check_order(order, "reshape")
    return spec(npx_reshaped(a.shape, newshape, reverse), a.dtype)


operator("npx_reshape", "a, newshape, reverse=False, order='C', out=None", inputs="a", infer=_infer_npx_reshape,
         npx="reshape", bind=bind_reshape,
         vjp=lambda F, dy, x, y, newshape, reverse, order: F.reshape(dy, newshape=x[0].shape), doc=coded_shape.__doc__)


def _infer_ravel(x, order):
    check_order(order, "ravel")
    return spec((x.size,), x.dtype)


operator("ravel", "x, order='C'", inputs="x", infer=_infer_ravel, np="ravel",
         bind=bind_reshape,
         vjp=lambda F, dy, x, y, order: F.reshape(dy, newshape=x[0].shape), doc="A copy with one axis.")
operator("batch_flatten", "data, out=None", npx="batch_flatten",
         infer=lambda x: spec((x.shape[0] if x.shape else 1, math.prod(x.shape[1:])), x.dtype),
         bind=bind_reshape,
         vjp=lambda F, dy, x, y: F.reshape(dy, newshape=x[0].shape),
         doc="The array as a matrix that keeps the first axis.")

# -- axes ----------------------------------------------------------------------------------------------------------


def axes_order(axes, ndim) -> tuple:
    """The permutation ``axes``, normalised; None and () mean reversed."""
    if axes is None or (axes == () and ndim):
        return tuple(range(ndim))[::-1]
    order = tuple([normalize_axis(i, ndim) for i in integers(axes, "axes")])
    if len(order) != ndim:
        raise ShapeError(f"axes {axes} don't match an array of {ndim} axes")
    if len(set(order)) != ndim:
        raise ShapeError(f"repeated axis in transpose: {axes}")
    return order


def _infer_transpose(a, axes):
    return spec(tuple([a.shape[i] for i in axes_order(axes, len(a.shape))]), a.dtype)


def _bind_transpose(xp, in_specs, out_specs, attrs):
    order = axes_order(attrs["axes"], in_specs[0].ndim)
    return lambda a: a.transpose(order)


def _transpose_vjp(F, dy, x, y, axes):
    order = axes_order(axes, len(x[0].shape))
    return F.transpose(dy, axes=tuple([order.index(i) for i in range(len(order))]))


operator("transpose", "a, axes=None, out=None", inputs="a", infer=_infer_transpose, np="transpose, permute_dims",
         bind=_bind_transpose, vjp=_transpose_vjp,
         doc="A copy with the axes in the order ``axes`` (by default reversed).")


def _infer_expand_dims(a, axis):
    axes = integers(axis, "axis")
    ndim = len(a.shape) + len(axes)
    axes = normalize_axes(axes, ndim)
    rest = iter(a.shape)
    return spec(tuple([1 if i in axes else next(rest) for i in range(ndim)]), a.dtype)


operator("expand_dims", "a, axis, out=None", inputs="a", infer=_infer_expand_dims, np="expand_dims",
         bind=bind_reshape,
         vjp=lambda F, dy, x, y, axis: F.reshape(dy, newshape=x[0].shape),
         doc="A copy with a new axis of length 1 at ``axis`` of the result (an int or a tuple).")


def squeezed_shape(shape, axis) -> tuple:
    """``shape`` without axes of length 1: all, or those given."""
    if axis is None:
        return tuple([n for n in shape if n != 1])
    axes = integers(axis, "axis")
    if not shape and all(a in (0, -1) for a in axes):        # as in NumPy
        return ()
    axes = {normalize_axis(a, len(shape)) for a in axes}
    for a in axes:
        if shape[a] != 1:
            raise ShapeError("cannot select an axis to squeeze out which has size not equal to one: axis "
                             f"{a} of {shape}")
    return tuple([n for i, n in enumerate(shape) if i not in axes])


operator("squeeze", "a, axis=None, out=None", inputs="a", np="squeeze",
         infer=lambda a, axis: spec(squeezed_shape(a.shape, axis), a.dtype),
         bind=bind_reshape,
         vjp=lambda F, dy, x, y, axis: F.reshape(dy, newshape=x[0].shape),
         doc="A copy without the axes of length 1 (all, or those in ``axis``).")

# -- broadcasting --------------------------------------------------------------------------------------------------


def _infer_broadcast_to(x, shape):
    shape = as_shape(shape)
    if len(x.shape) > len(shape) or any(m != n and m != 1 for m, n in zip(x.shape[::-1], shape[::-1])):
        raise ShapeError(f"cannot broadcast an array of shape {x.shape} to shape {shape}")
    return spec(shape, x.dtype)


operator("broadcast_to", "array, shape, out=None", inputs="array", infer=_infer_broadcast_to,
         kernel=lambda xp, x, shape: xp.broadcast_to(x, shape),
         vjp=lambda F, dy, x, y, shape: F.sum_to(dy, shape=x[0].shape),
         doc="A copy repeated along new leading axes and axes of length 1, to ``shape``.")

# -- order of elements ---------------------------------------------------------------------------------------------


def _infer_flip(m, axis):
    normalize_axes(axis, len(m.shape))
    return m


def _flip(xp, m, axis):
    axes = normalize_axes(axis, m.ndim)
    return m[tuple([slice(None, None, -1) if i in axes else slice(None) for i in range(m.ndim)])]


operator("flip", "m, axis=None, out=None", inputs="m", infer=_infer_flip, kernel=_flip, np="flip",
         vjp=lambda F, dy, x, y, axis: F.flip(dy, axis=axis),
         doc="The elements in reverse order along ``axis`` (an int, a tuple, or None for all axes).")


def rolls(shift, axis, ndim) -> list:
    """(axis, shift) pairs; the two arguments broadcast against each other."""
    shifts, axes = integers(shift, "shift"), integers(axis, "axis")
    if len(shifts) != len(axes) and 1 not in (len(shifts), len(axes)):
        raise ShapeError(f"roll: shift {shift} and axis {axis} must be of the same length")
    if len(shifts) == 1:
        shifts = shifts * len(axes)
    if len(axes) == 1:
        axes = axes * len(shifts)
    return [(normalize_axis(a, ndim), s) for a, s in zip(axes, shifts)]


def _infer_roll(a, shift, axis):
    if axis is None:
        integers(shift, "shift")
    else:
        rolls(shift, axis, len(a.shape))
    return a


def _roll(xp, a, shift, axis):
    if axis is None:
        return xp.roll(a.reshape(-1), sum(integers(shift, "shift"))).reshape(a.shape)
    for at, by in rolls(shift, axis, a.ndim):
        a = xp.roll(a, by, at)
    return a


operator("roll", "a, shift, axis=None", inputs="a", infer=_infer_roll, kernel=_roll, np="roll",
         vjp=lambda F, dy, x, y, shift, axis: F.roll(
             dy, shift=tuple([-s for s in integers(shift, "shift")]), axis=axis),
         doc="The elements moved by ``shift`` along ``axis`` (None: in the flattened array); what leaves at one end "
             "comes in at the other.")

# -- numbers along an axis -----------------------------------------------------------------------------------------


def _infer_arange_like(data, start, step, repeat, ctx, axis):
    if not isinstance(repeat, int) or repeat < 1:
        raise ShapeError(f"arange_like: repeat must be a positive integer, not {repeat!r}")
    if ctx not in (None, ""):
        raise ArgumentError("arange_like: ctx cannot be chosen; the result is on the device of data")
    return spec(data.shape if axis is None else (data.shape[normalize_axis(axis, len(data.shape))],), data.dtype)


def _arange_like(xp, data, start, step, repeat, ctx, axis):
    """start, start + step, ..., each ``repeat`` times, as many as ``data`` has elements and in its shape, or as many as
    its ``axis`` is long."""
    shape = data.shape if axis is None else (data.shape[axis],)
    return (start + xp.arange(math.prod(shape)) // repeat * step).reshape(shape)


operator("arange_like", "data, start=0.0, step=1.0, repeat=1, ctx=None, axis=None", inputs="data",
         infer=_infer_arange_like, kernel=_arange_like, npx="arange_like", nd="_contrib_arange_like")
