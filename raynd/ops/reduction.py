"""Reductions over axes: sums, products, extrema, moments, and truth values.

Half-precision floats are accumulated in float32, the mean of integers in float64; a sum of bools counts in int64, other
integers keep their dtype and wrap around. ``axis`` is None (all axes), an int or a tuple.
"""
from __future__ import annotations

import math

import numpy

from ..errors import ArgumentError, ShapeError
from ..spec import ArraySpec, as_dtype, bfloat16, is_float, normalize_axes, spec
from .elementwise import BOOL, default_float
from .registry import operator

INT64 = numpy.dtype("int64")
FLOAT32 = numpy.dtype("float32")
FLOAT64 = numpy.dtype("float64")


# -- axes ----------------------------------------------------------------------------------------------------------


def reduction_axes(axis, ndim) -> tuple:
    """Sorted axes to reduce over. A zero-dim array takes axis 0 and -1 too, as in NumPy."""
    if ndim == 0 and axis in (0, -1, (0,), (-1,)) and axis is not False:
        return ()
    return normalize_axes(axis, ndim)


def reduced_shape(shape, axis, keepdims) -> tuple:
    """``shape`` without (or with 1 in place of) the axes reduced over; ``axis`` None, int or tuple."""
    axes = reduction_axes(axis, len(shape))
    if keepdims:
        return tuple([1 if i in axes else n for i, n in enumerate(shape)])
    return tuple([n for i, n in enumerate(shape) if i not in axes])


def expanded_shape(shape, axis) -> tuple:
    """``shape`` with 1 in place of the axes reduced over."""
    return reduced_shape(shape, axis, True)


def reduced_count(shape, axis) -> int:
    """How many elements each result is made of."""
    return math.prod([shape[i] for i in reduction_axes(axis, len(shape))])


def accumulator(dtype):
    """The dtype to accumulate a result of ``dtype`` in."""
    return FLOAT32 if is_float(dtype) and dtype.itemsize == 2 else dtype


def _not_empty(name, shape, axis):
    if any(shape[i] == 0 for i in reduction_axes(axis, len(shape))):
        raise ShapeError(f"zero-size array to reduction operation {name} which has no identity: shape {shape}, "
                         f"axis {axis}")


operator("unreduce", "x, axis, shape", inputs="x", infer=lambda x, axis, shape: spec(shape, x.dtype),
         kernel=lambda xp, x, axis, shape: xp.broadcast_to(x.reshape(expanded_shape(shape, axis)), shape),
         vjp=lambda F, dy, x, y, axis, shape: F.reshape(F.sum(dy, axis=reduction_axes(axis, len(shape))),
                                                        newshape=x[0].shape),
         doc="The adjoint of a sum: ``x``, reduced over ``axis`` of ``shape``, repeated along it.")


def _sum_to(xp, x, shape):
    extra = x.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(i + extra for i, n in enumerate(shape) if n == 1 and x.shape[i + extra] != 1)
    return x.sum(axis=axes, dtype=accumulator(x.dtype)).reshape(shape) if axes else x.reshape(shape)


operator("sum_to", "x, shape", inputs="x", infer=lambda x, shape: spec(shape, x.dtype), kernel=_sum_to,
         vjp=lambda F, dy, x, y, shape: F.broadcast_to(dy, shape=x[0].shape),
         doc="Sum over the axes along which ``shape`` was broadcast to the array's shape.")

# -- sums ----------------------------------------------------------------------------------------------------------


def summed_dtype(dtype, wanted):
    """The dtype of a sum or product: ``wanted``, else int64 for bools, else the array's own."""
    return as_dtype(wanted) if wanted is not None else INT64 if dtype == BOOL else dtype


def _infer_sum(a, where, axis, dtype, keepdims, initial):
    if isinstance(where, ArraySpec) and where.dtype != BOOL:
        raise ArgumentError(f"sum: where must be True or an array of bools, not of {where.dtype}")
    shape = a.shape
    if isinstance(where, ArraySpec) and where.shape != shape:
        if len(where.shape) > len(shape) or any(m not in (1, n) for m, n in zip(where.shape[::-1], shape[::-1])):
            raise ShapeError(f"sum: where of shape {where.shape} does not broadcast to the array's shape {shape}")
    if initial is not None and not isinstance(initial, (int, float)):
        raise ArgumentError(f"sum: initial must be a number, not {initial!r}")
    return spec(reduced_shape(shape, axis, keepdims), summed_dtype(a.dtype, dtype))


def _wide(a):
    """A bfloat16 array in float32: NumPy has no reductions of it."""
    return a.astype(FLOAT32) if a.dtype == bfloat16 else a


def _bind_sum(xp, in_specs, out_specs, attrs):
    axes, keepdims = reduction_axes(attrs["axis"], in_specs[0].ndim), bool(attrs["keepdims"])
    work, initial = accumulator(out_specs[0].dtype), attrs["initial"]

    def run(a, where):
        if where is not None and where is not True:
            a = xp.where(where, a, xp.zeros((), a.dtype))
        result = _wide(a).sum(axis=axes, dtype=work, keepdims=keepdims)
        return result if initial is None else result + xp.asarray(initial, dtype=work)
    return run


def _sum_vjp(F, dy, x, y, axis, dtype, keepdims, initial):
    a, where = x
    g = F.unreduce(dy, axis=reduction_axes(axis, len(a.shape)), shape=a.shape)
    return (g if where is None or not hasattr(where, "shape") else g * where), None


operator("sum", "a, axis=None, dtype=None, out=None, keepdims=None, initial=None, where=None", inputs="a, where",
         optional=("where",), infer=_infer_sum, bind=_bind_sum, vjp=_sum_vjp, np="sum", method="sum",
         doc="Sum over ``axis``, in ``dtype`` (by default that of ``a``; int64 for bools), plus ``initial``; elements "
             "where ``where`` is False count as 0.")


def _infer_mean(a, axis, dtype, keepdims):
    result = as_dtype(dtype) if dtype is not None else a.dtype if is_float(a.dtype) else default_float()
    return spec(reduced_shape(a.shape, axis, keepdims), result)


def _bind_mean(xp, in_specs, out_specs, attrs):
    axes, keepdims = reduction_axes(attrs["axis"], in_specs[0].ndim), bool(attrs["keepdims"])
    count = reduced_count(in_specs[0].shape, axes)
    work = accumulator(out_specs[0].dtype) if is_float(in_specs[0].dtype) and is_float(out_specs[0].dtype) else FLOAT64

    def run(a):
        return xp.true_divide(_wide(a).sum(axis=axes, dtype=work, keepdims=keepdims), count)
    return run


# MXNet's np.mean gives float32 for float16 and float64 too, against its documentation; here floats keep their dtype.
operator("mean", "a, axis=None, dtype=None, out=None, keepdims=False", infer=_infer_mean, bind=_bind_mean,
         vjp=lambda F, dy, x, y, axis, dtype, keepdims: F.unreduce(
             dy * (1.0 / max(reduced_count(x[0].shape, axis), 1)), axis=reduction_axes(axis, len(x[0].shape)),
             shape=x[0].shape),
         np="mean", method="mean",
         doc="Mean over ``axis``. Floats keep their dtype, integers give the default float; NaN of nothing.")


def _count_nonzero(xp, a, axis, keepdims):
    return (a != 0).sum(axis=reduction_axes(axis, a.ndim), dtype="int64", keepdims=bool(keepdims))


operator("count_nonzero", "a, axis=None, *, keepdims=False", inputs="a", kernel=_count_nonzero, np="count_nonzero",
         infer=lambda a, axis, keepdims: spec(reduced_shape(a.shape, axis, keepdims), INT64),
         doc="How many elements are not zero, over ``axis``, as int64.")

# -- products ------------------------------------------------------------------------------------------------------


def _infer_prod(a, axis, dtype, keepdims):
    return spec(reduced_shape(a.shape, axis, keepdims), summed_dtype(a.dtype, dtype))


def _prod(xp, a, axis, dtype, keepdims):
    """Product over ``axis``, in ``dtype`` (by default that of ``a``; int64 for bools)."""
    work = accumulator(summed_dtype(a.dtype, dtype))
    return _wide(a).prod(axis=reduction_axes(axis, a.ndim), dtype=work, keepdims=bool(keepdims))


def product_of_others(F, a, axis):
    """For each element the product of the others along ``axis``, also where some are zero: the product of all before
    it times the product of all after it."""
    axes = reduction_axes(axis, len(a.shape))
    if not axes:
        return F.ones_like(a)
    order = tuple([i for i in range(len(a.shape)) if i not in axes]) + axes
    moved = F.transpose(a, axes=order) if order != tuple(range(len(order))) else a
    lead = moved.shape[:len(order) - len(axes)]
    flat = F.reshape(moved, newshape=(*lead, math.prod(moved.shape[len(lead):])))
    others = F.exclusive_cumprod(flat, reverse=False) * F.exclusive_cumprod(flat, reverse=True)
    others = F.reshape(others, newshape=moved.shape)
    return others if moved is a else F.transpose(others, axes=tuple([order.index(i) for i in range(len(order))]))


def _prod_vjp(F, dy, x, y, axis, dtype, keepdims):
    a = x[0]
    return F.unreduce(dy, axis=reduction_axes(axis, len(a.shape)), shape=a.shape) * product_of_others(F, a, axis)


operator("prod", "a, axis=None, dtype=None, out=None, keepdims=False", infer=_infer_prod, kernel=_prod, vjp=_prod_vjp,
         np="prod, product", method="prod")

# -- extrema -------------------------------------------------------------------------------------------------------


def _extremum(name, long_name):
    def infer(a, axis, keepdims):
        _not_empty(long_name, a.shape, axis)
        return spec(reduced_shape(a.shape, axis, keepdims), a.dtype)

    def bind(xp, in_specs, out_specs, attrs):
        axes, keepdims = reduction_axes(attrs["axis"], in_specs[0].ndim), bool(attrs["keepdims"])
        function = getattr(xp, name)
        return lambda a: function(_wide(a), axis=axes, keepdims=keepdims)

    def vjp(F, dy, x, y, axis, keepdims):       # every element that equals the extremum gets the whole gradient
        a, axes = x[0], reduction_axes(axis, len(x[0].shape))
        chosen = F.equal(a, F.unreduce(y[0], axis=axes, shape=a.shape))
        return F.unreduce(dy, axis=axes, shape=a.shape) * chosen

    operator(name, "a, axis=None, out=None, keepdims=False", infer=infer, bind=bind, vjp=vjp,
             np=f"{name}, a{name}", method=name,
             doc=f"The {long_name} over ``axis``; NaN if there is one. Where several elements are the {long_name}, "
                 "each gets the whole gradient.")


_extremum("max", "maximum")
_extremum("min", "minimum")


def _argument(name):
    def infer(a, axis, keepdims):
        if axis is not None and not hasattr(axis, "__index__"):
            raise ArgumentError(f"{name}: axis must be None or an integer, not {axis!r}")
        if any(a.shape[i] == 0 for i in reduction_axes(axis, len(a.shape))):
            raise ShapeError(f"attempt to get {name} of an empty sequence: shape {a.shape}, axis {axis}")
        return spec(reduced_shape(a.shape, axis, keepdims), INT64)

    def bind(xp, in_specs, out_specs, attrs):
        shape, axis = out_specs[0].shape, attrs["axis"] if in_specs[0].shape else None
        function = getattr(xp, name)
        return lambda a: xp.asarray(function(_wide(a), axis=axis)).reshape(shape)

    operator(name, "a, axis=None, out=None, keepdims=False", infer=infer, bind=bind, np=name, method=name,
             doc=f"Index of the {name[3:]}imum (the first of several; a NaN counts as it) along ``axis``, or in the "
                 "flattened array, as int64.")


_argument("argmax")
_argument("argmin")

# -- truth values --------------------------------------------------------------------------------------------------


def _truth(name, former, what):
    def bind(xp, in_specs, out_specs, attrs):
        axes, keepdims = reduction_axes(attrs["axis"], in_specs[0].ndim), bool(attrs["keepdims"])
        if in_specs[0].dtype == BOOL:
            return lambda a: getattr(a, name)(axis=axes, keepdims=keepdims)
        return lambda a: getattr(a != 0, name)(axis=axes, keepdims=keepdims)

    operator(name, "a, axis=None, out=None, keepdims=False", np=f"{name}, {former}", method=name,
             infer=lambda a, axis, keepdims: spec(reduced_shape(a.shape, axis, keepdims), BOOL),
             bind=bind,
             doc=f"Whether {what} over ``axis`` are nonzero (NaN is).")


_truth("all", "alltrue", "all elements")
_truth("any", "sometrue", "any elements")

# -- moments -------------------------------------------------------------------------------------------------------


def corrected(correction, ddof):
    """The correction of a variance, given by either name."""
    if ddof is None:
        return correction
    if correction:
        raise ArgumentError("give correction or ddof, not both: they are the same")
    return ddof


def _infer_var(a, axis, dtype, correction, keepdims, ddof):
    result = as_dtype(dtype) if dtype is not None else a.dtype if is_float(a.dtype) else default_float()
    if not isinstance(corrected(correction, ddof), (int, float)):
        raise ArgumentError(f"correction must be a number, not {correction!r}")
    return spec(reduced_shape(a.shape, axis, keepdims), result)


def _var(xp, a, axis, dtype, correction, keepdims, ddof):
    axes = reduction_axes(axis, a.ndim)
    result = as_dtype(dtype) if dtype is not None else a.dtype
    work = accumulator(result) if is_float(a.dtype) and is_float(result) else FLOAT64
    a = a.astype(work)
    count = reduced_count(a.shape, axes)
    a -= xp.true_divide(a.sum(axis=axes, keepdims=True), count)
    xp.multiply(a, a, out=a)
    return xp.true_divide(a.sum(axis=axes, keepdims=bool(keepdims)), max(count - corrected(correction, ddof), 0))


def _centred(F, a, axis, dtype):
    return a - F.mean(a, axis=reduction_axes(axis, len(a.shape)), dtype=dtype, keepdims=True)


def _freedom(a, axis, correction, ddof):
    """The divisor of a variance as a float; 0 gives NaN gradients, as the variance itself is."""
    return max(reduced_count(a.shape, axis) - corrected(correction, ddof), 0) or math.nan


def _var_vjp(F, dy, x, y, axis, dtype, correction, keepdims, ddof):
    a = x[0]
    g = F.unreduce(dy, axis=reduction_axes(axis, len(a.shape)), shape=a.shape)
    return g * _centred(F, a, axis, dtype) * (2.0 / _freedom(a, axis, correction, ddof))


def _std_vjp(F, dy, x, y, axis, dtype, correction, keepdims, ddof):
    a = x[0]
    g = F.unreduce(dy / y[0], axis=reduction_axes(axis, len(a.shape)), shape=a.shape)
    return g * _centred(F, a, axis, dtype) * (1.0 / _freedom(a, axis, correction, ddof))


# MXNet truncates the variance of integers to an integer and has no gradient; here both are as NumPy users expect.
operator("var", "a, axis=None, dtype=None, out=None, correction=0, keepdims=False, ddof=None", infer=_infer_var,
         kernel=_var, vjp=_var_vjp, np="var", method="var",
         doc="Variance over ``axis``, with the divisor count - ``correction`` (``ddof`` is its older name). Floats "
             "keep their dtype, integers give the default float.")
operator("std", "a, axis=None, dtype=None, out=None, correction=0, keepdims=False, ddof=None", infer=_infer_var,
         kernel=lambda xp, a, **attrs: xp.sqrt(_var(xp, a, **attrs)), vjp=_std_vjp, np="std", method="std",
         doc="Standard deviation over ``axis``, with the divisor count - ``correction`` (``ddof`` is its older name). "
             "Floats keep their dtype, integers give the default float.")

# -- without NaN ---------------------------------------------------------------------------------------------------


def _replaced(xp, a, value):
    return xp.where(a != a, xp.asarray(value, dtype=a.dtype), a) if is_float(a.dtype) else a


operator("nan_replaced", "a, value", inputs="a", infer=lambda a, value: a, kernel=_replaced,
         vjp=lambda F, dy, x, y, value: dy * F.equal(x[0], x[0]), doc="The array with ``value`` in place of NaN.")
operator("nansum", "a, axis=None, dtype=None, out=None, keepdims=False", infer=_infer_prod, np="nansum",
         method="nansum",
         kernel=lambda xp, a, axis, dtype, keepdims: _replaced(xp, _wide(a), 0).sum(
             axis=reduction_axes(axis, a.ndim), dtype=accumulator(summed_dtype(a.dtype, dtype)),
             keepdims=bool(keepdims)),
         vjp=lambda F, dy, x, y, axis, dtype, keepdims: F.unreduce(
             dy, axis=reduction_axes(axis, len(x[0].shape)), shape=x[0].shape) * F.equal(x[0], x[0]),
         doc="Sum over ``axis`` in which NaN counts as 0.")


def _nanprod_vjp(F, dy, x, y, axis, dtype, keepdims):
    a = F.nan_replaced(x[0], value=1)
    g = F.unreduce(dy, axis=reduction_axes(axis, len(a.shape)), shape=a.shape)
    return g * product_of_others(F, a, axis) * F.equal(x[0], x[0])


operator("nanprod", "a, axis=None, dtype=None, out=None, keepdims=False", infer=_infer_prod, np="nanprod",
         method="nanprod", kernel=lambda xp, a, **attrs: _prod(xp, _replaced(xp, a, 1), **attrs), vjp=_nanprod_vjp,
         doc="Product over ``axis`` in which NaN counts as 1.")
