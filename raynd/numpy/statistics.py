"""Statistics made of several operators: quantiles, averages, covariance, histograms, differences."""
from __future__ import annotations

import math

import numpy

from ..dispatch import F, Proxy
from ..errors import ArgumentError, ShapeError
from ..ndarray.bindings import call
from ..ops import registry
from ..ops.elementwise import default_float
from ..ops.reduction import reduced_count, reduced_shape, reduction_axes
from ..spec import is_float, normalize_axis
from .interop import on_host
from .manipulation import as_array, atleast_2d, into

__all__ = [
    "average", "bincount", "corrcoef", "count_nonzero", "cov", "diff", "ediff1d", "histogram", "median", "nancumprod",
    "nancumsum", "nanmean", "nanmedian", "nanstd", "nanvar", "percentile", "polyval", "ptp", "quantile", "sometrue",
    "trapz",
]


# -- quantiles -----------------------------------------------------------------------------------------------------


def _quantile(a, q, axis, out, interpolation, keepdims, scale):
    a = as_array(a)
    axes = reduction_axes(axis, a.ndim)
    if isinstance(q, (list, tuple, numpy.ndarray)):
        q = as_array(numpy.asarray(q, dtype="float64"), a)
    elif isinstance(q, (numpy.generic, int)):
        q = float(q)
    if isinstance(q, float) and not 0 <= q <= scale:
        raise ShapeError(f"{'percentile' if scale == 100 else 'quantile'} {q} exceeds the valid range [0, {scale}]")
    kept = tuple([i for i in range(a.ndim) if i not in axes])
    order = kept + axes
    moved = a if order == tuple(range(a.ndim)) else F.transpose(a, axes=order)
    flat = F.reshape(moved, newshape=tuple([a.shape[i] for i in kept]) + (reduced_count(a.shape, axes),))
    result = F.quantile_sorted(F.sort(flat), q, method=interpolation, scale=scale)
    if keepdims:
        lead = q.shape if isinstance(q, Proxy) else ()
        result = F.reshape(result, newshape=lead + reduced_shape(a.shape, axes, True))
    return into(out, result)


def percentile(a, q, axis=None, out=None, overwrite_input=None, interpolation="linear", keepdims=False):
    """The ``q``-th percentiles (0 to 100; a number or an array of one axis, which then comes first) over ``axis``.

    interpolation between the two nearest values: 'linear', 'lower', 'higher', 'midpoint' or 'nearest'. Floats keep
    their dtype, integers give the default float. ``overwrite_input`` is accepted; the input is never changed.
    """
    return _quantile(a, q, axis, out, interpolation, keepdims, 100)


def quantile(a, q, axis=None, out=None, overwrite_input=None, interpolation="linear", keepdims=False):
    """As :func:`percentile`, with ``q`` between 0 and 1."""
    return _quantile(a, q, axis, out, interpolation, keepdims, 1)


def median(a, axis=None, out=None, overwrite_input=None, keepdims=False):
    """The middle value over ``axis``, or the mean of the two in the middle; NaN of nothing."""
    return _quantile(a, 0.5, axis, out, "linear", keepdims, 1)


# -- means ---------------------------------------------------------------------------------------------------------


def average(a, axis=None, weights=None, returned=False, out=None):
    """The mean over ``axis``, weighted with ``weights`` (of the shape of ``a``, or one for each element of an axis).

    With ``returned`` a list of it and the sum of the weights. Weights that add up to zero give NaN or infinity.
    """
    a = as_array(a)
    if weights is None:
        result = F.mean(a, axis=axis)
        total = F.full_like_value(result, value=float(reduced_count(a.shape, axis))) if returned else None
    else:
        weights = as_array(weights, a)
        if weights.shape != a.shape:
            if axis is None:
                raise ArgumentError("Axis must be specified when shapes of a and weights differ.")
            if weights.ndim != 1 or isinstance(axis, (tuple, list)):
                raise ArgumentError("1D weights expected when shapes of a and weights differ.")
            at = normalize_axis(axis, a.ndim)
            if weights.shape[0] != a.shape[at]:
                raise ShapeError("Length of weights not compatible with specified axis.")
            weights = F.reshape(weights, newshape=tuple([-1 if i == at else 1 for i in range(a.ndim)]))
        total = F.sum(F.broadcast_to(weights, shape=a.shape) if weights.shape != a.shape else weights, axis=axis)
        result = F.true_divide(F.sum(a * weights, axis=axis), total)
        if returned and total.dtype != result.dtype:
            total = F.cast(total, dtype=result._spec.dtype.name)
    result = into(out, result)
    return [result, total] if returned else result


def ptp(a, axis=None, out=None, keepdims=False):
    """Maximum minus minimum over ``axis``."""
    a = as_array(a)
    return into(out, F.max(a, axis=axis, keepdims=keepdims) - F.min(a, axis=axis, keepdims=keepdims))


def sometrue(a, axis=None, keepdims=False, out=None):
    """Whether any element over ``axis`` is not zero (the former name of ``any``)."""
    return call(registry.get("any"), (as_array(a),), {"axis": axis, "keepdims": keepdims}, out)


def count_nonzero(a, axis=None, *, keepdims=False):
    """How many elements are not zero, over ``axis``, as int64."""
    return call(registry.get("count_nonzero"), (as_array(a),), {"axis": axis, "keepdims": keepdims}, None)


# -- without NaN ---------------------------------------------------------------------------------------------------


def _present(a):
    """1 where ``a`` is not NaN, else 0, in its dtype (the default float for integers)."""
    return F.cast(F.equal(a, a), dtype=(a._spec.dtype if is_float(a._spec.dtype) else default_float()).name)


def nanmean(a, axis=None, dtype=None, out=None, keepdims=False):
    """The mean over ``axis`` of the elements that are not NaN; NaN if all are."""
    a = as_array(a)
    a = a if dtype is None else F.cast(a, dtype=dtype)
    return into(out, F.true_divide(F.nansum(a, axis=axis, keepdims=keepdims),
                                   F.sum(_present(a), axis=axis, keepdims=keepdims)))


def nanvar(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False):
    """The variance over ``axis`` of the elements that are not NaN, with the divisor count - ``ddof``; NaN where that is
    not positive."""
    a = as_array(a)
    a = a if dtype is None else F.cast(a, dtype=dtype)
    present = _present(a)
    centred = (F.nan_replaced(a, value=0) - F.unreduce(nanmean(a, axis), axis=reduction_axes(axis, a.ndim),
                                                       shape=a.shape)) * present
    divisor = F.sum(present, axis=axis, keepdims=keepdims) - float(ddof)
    divisor = F.where(F.greater(divisor, 0), divisor, math.nan)
    return into(out, F.sum(F.square(centred), axis=axis, keepdims=keepdims) / divisor)


def nanstd(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False):
    """The standard deviation over ``axis`` of the elements that are not NaN; see :func:`nanvar`."""
    return into(out, F.sqrt(nanvar(a, axis, dtype, None, ddof, keepdims)))


def nancumsum(a, axis=None, dtype=None, out=None):
    """Running sums in which NaN counts as 0."""
    return call(registry.get("cumsum"), (F.nan_replaced(as_array(a), value=0),), {"axis": axis, "dtype": dtype}, out)


def nancumprod(a, axis=None, dtype=None, out=None):
    """Running products in which NaN counts as 1."""
    return call(registry.get("cumprod"), (F.nan_replaced(as_array(a), value=1),), {"axis": axis, "dtype": dtype}, out)


def nanmedian(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    """The middle value over ``axis`` of the elements that are not NaN; NaN if all are. Computed on the host."""
    result = on_host(numpy.nanmedian, (as_array(a),), {"axis": axis, "keepdims": keepdims})
    return into(out, as_array(numpy.asarray(result)) if not isinstance(result, Proxy) else result)


# -- covariance ----------------------------------------------------------------------------------------------------


def _one_axis(name, weights, count):
    if weights.ndim > 1:
        raise ShapeError(f"cov: cannot handle multidimensional {name}")
    if weights.shape[0] != count:
        raise ShapeError(f"cov: incompatible numbers of samples and {name}")
    return weights


def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None):
    """The covariance matrix of variables (rows of ``m``, columns without ``rowvar``) and those of ``y``.

    The divisor is the number of samples minus ``ddof`` (1, or 0 with ``bias``). fweights: how often each sample counts;
    aweights: its weight. dtype: float64 by default.
    """
    if ddof is not None and ddof != int(ddof):
        raise ShapeError("ddof must be integer")
    dtype = "float64" if dtype is None else dtype
    m = as_array(m)
    if m.ndim > 2:
        raise ShapeError("m has more than 2 dimensions")
    x = F.cast(atleast_2d(m), dtype=dtype)
    if not rowvar and m.ndim != 1:
        x = F.transpose(x)
    if y is not None:
        y = as_array(y, m)
        if y.ndim > 2:
            raise ShapeError("y has more than 2 dimensions")
        other = F.cast(atleast_2d(y), dtype=dtype)
        if not rowvar and other.shape[0] != 1:
            other = F.transpose(other)
        x = F.concatenate(x, other, axis=0)
    ddof = (0 if bias else 1) if ddof is None else int(ddof)
    samples = x.shape[1]
    weights = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is not None:
            given = F.cast(_one_axis(name, as_array(given, m), samples), dtype=dtype)
            weights = given if weights is None else weights * given
    if weights is None:
        centred = x - F.mean(x, axis=1, keepdims=True)
        factor = max(samples - ddof, 0)
        result = F.matmul(centred, F.transpose(centred))
        result = F.true_divide(result, float(factor)) if factor else result * math.nan
    else:
        total = F.sum(weights)
        centred = x - F.sum(x * weights, axis=1, keepdims=True) / total
        if aweights is None or ddof == 0:
            factor = total - float(ddof)
        else:
            factor = total - float(ddof) * F.sum(weights * F.cast(as_array(aweights, m), dtype=dtype)) / total
        result = F.matmul(centred * weights, F.transpose(centred)) / factor
    return F.squeeze(result)


def corrcoef(x, y=None, rowvar=True, bias=None, ddof=None, *, dtype=None):
    """The correlation matrix of variables; see :func:`cov`. ``bias`` and ``ddof`` have no effect, as in NumPy."""
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return c / c
    deviation = F.sqrt(F.diagonal(c))
    n = deviation.shape[0]
    c = c / F.reshape(deviation, newshape=(n, 1)) / F.reshape(deviation, newshape=(1, n))
    return F.clip(c, -1, 1)


# -- counting ------------------------------------------------------------------------------------------------------


def histogram(a, bins=10, range=None, normed=None, weights=None, density=None):
    """(counts, edges): how many elements lie in each bin.

    bins: a number of equal bins over ``range`` (by default from the smallest to the largest element), the edges, or the
    name of one of NumPy's rules (then computed on the host). Counts are int64; with ``weights`` sums of these; with
    ``density`` divided by the number of elements and the width of the bin.
    """
    if normed is not None:
        raise ArgumentError("histogram: normed is not supported; use density")
    a = as_array(a)
    if isinstance(bins, str):
        return on_host(numpy.histogram, (a, bins), {"range": range, "weights": weights, "density": density})
    edges, count = None, 0
    if isinstance(bins, (Proxy, list, tuple, numpy.ndarray)):
        edges = as_array(bins, a)
    else:
        try:
            count = bins.__index__()
        except AttributeError:
            raise ArgumentError("`bins` must be an integer, a string, or an array") from None
    return F.histogram(a, edges, None if weights is None else as_array(weights, a), count=count,
                       range=None if range is None else tuple([float(v) for v in range]), density=bool(density))


def bincount(x, weights=None, minlength=0):
    """How often each of the numbers 0, 1, ... occurs in a 1-D array of integers (with ``weights``: the sum of these),
    at least ``minlength`` of them; waits for the largest number."""
    x = as_array(x)
    if minlength < 0:
        raise ShapeError("'minlength' must not be negative")
    length = int(minlength)
    if x.size and x._spec.dtype.kind in "iub":
        length = max(length, int(F.max(x).item()) + 1)
    return F.bincount(x, None if weights is None else as_array(weights, x), length=length)


# -- differences ---------------------------------------------------------------------------------------------------


def _between(x, axis, start, stop):
    items = tuple([(start, stop, 1) if i == axis else (0, n, 1) for i, n in enumerate(x.shape)])
    return F.basic_index(x, items=items, shape=x.shape[:axis] + (stop - start,) + x.shape[axis + 1:])


def diff(a, n=1, axis=-1, prepend=None, append=None):
    """The ``n``-th differences along ``axis``, after ``prepend`` and ``append`` were put at its ends."""
    a = as_array(a)
    if n < 0:
        raise ShapeError(f"order must be non-negative but got {n}")
    axis = normalize_axis(axis, a.ndim)
    parts = [a]
    for given, at in ((prepend, 0), (append, len(parts) + 1)):
        if given is not None:
            given = as_array(given, a)
            if not given.ndim:
                given = F.broadcast_to(given, shape=a.shape[:axis] + (1,) + a.shape[axis + 1:])
            parts.insert(at, given)
    if len(parts) > 1:
        a = F.concatenate(*parts, axis=axis)
    different = F.not_equal if a._spec.dtype.kind == "b" else F.subtract
    for _ in range(n):
        length = a.shape[axis]
        a = different(_between(a, axis, min(1, length), length), _between(a, axis, 0, max(length - 1, 0)))
    return a


def ediff1d(ary, to_end=None, to_begin=None):
    """The differences of consecutive elements of the flattened array, between ``to_begin`` and ``to_end``."""
    ary = as_array(ary)
    parts = [diff(F.reshape(ary, newshape=(ary.size,)))]
    for given, at in ((to_begin, 0), (to_end, 2)):
        if given is not None:
            given = as_array(given, ary)
            given = F.cast(F.reshape(given, newshape=(given.size,)), dtype=ary._spec.dtype.name)
            parts.insert(at, given)
    return parts[0] if len(parts) == 1 else F.concatenate(*parts)


def trapz(y, x=None, dx=1.0, axis=-1):
    """The integral of samples ``y`` along ``axis`` by the trapezoidal rule, at the points ``x`` or ``dx`` apart."""
    y = as_array(y)
    axis = normalize_axis(axis, y.ndim)
    n = y.shape[axis]
    if x is None:
        step = dx
    else:
        x = as_array(x, y)
        step = diff(x) if x.ndim == 1 else diff(x, axis=axis)
        if x.ndim == 1:
            step = F.reshape(step, newshape=tuple([step.size if i == axis else 1 for i in range(y.ndim)]))
    pairs = _between(y, axis, min(1, n), n) + _between(y, axis, 0, max(n - 1, 0))
    return F.sum(pairs * step * 0.5 if isinstance(step, Proxy) else pairs * (step * 0.5), axis=axis)


def polyval(p, x):
    """The polynomial with the coefficients ``p`` (1-D, the highest power first) at ``x``, by Horner's rule."""
    if not isinstance(p, (Proxy, numpy.ndarray)) or not isinstance(x, (Proxy, numpy.ndarray)):
        raise ArgumentError("polyval: p and x must be arrays")
    p, x = as_array(p), as_array(x)
    if p.ndim != 1:
        raise ShapeError(f"p has to be a 1-D array, not of shape {p.shape}")
    result = F.zeros_like(x)
    for i in range(p.size):
        result = result * x + F.basic_index(p, items=(i,), shape=())
    return result
