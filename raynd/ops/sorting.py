"""Sorting and searching. NaN sorts last (first in descending order), equal elements keep their order."""
from __future__ import annotations

import sys

import numpy

from ..errors import ArgumentError, ShapeError
from ..spec import ArraySpec, bfloat16, normalize_axis, spec
from .elementwise import default_float
from .reduction import FLOAT32, INT64, reduced_shape, reduction_axes
from .registry import operator


def plain(a):
    """A bfloat16 array in float32, which orders alike and which every function takes."""
    return a.astype(FLOAT32) if a.dtype == bfloat16 else a


_KEYED = (numpy.dtype("float16"), FLOAT32, numpy.dtype("int32"), numpy.dtype("uint32"))
_LARGEST_KEY = numpy.uint32(0xFFFFFFFF)


def stable_argsort(xp, a, axis=-1, descending=False):
    """Indices that sort ``a`` along ``axis`` and keep the order of equal elements."""
    a = plain(a)
    if xp.__name__ == "numpy" and a.dtype in _KEYED and a.ndim and 1 < a.shape[axis] < 1 << 32:
        return numpy.moveaxis(_argsort_by_keys(numpy.moveaxis(a, axis, -1), descending), -1, axis)
    if descending:
        return xp.flip(a.shape[axis] - 1 - stable_argsort(xp, xp.flip(a, axis), axis), axis)
    return xp.argsort(a, axis=axis, kind="stable") if xp.__name__ == "numpy" else xp.argsort(a, axis=axis)


def _argsort_by_keys(a, descending):
    """The last axis of ``a`` sorted as 64-bit keys of the element, as an integer that orders alike, and its index: all
    keys differ, so NumPy's fastest sort, which is not stable and not indirect, will do."""
    keys = numpy.empty(a.shape, numpy.uint64)
    low, high = (0, 1) if sys.byteorder == "little" else (1, 0)
    halves = keys.view(numpy.uint32).reshape(*a.shape, 2)
    halves[..., low] = numpy.arange(a.shape[-1], dtype=numpy.uint32)
    halves[..., high] = ~_ordered_bits(a) if descending else _ordered_bits(a)
    keys.sort(axis=-1)
    return halves[..., low].astype(INT64)


def _ordered_bits(a):
    """uint32 integers in the order of the elements of ``a``; equal elements give equal ones, NaN the largest."""
    if a.dtype.kind == "u":
        return a
    if a.dtype.kind == "i":
        return a.view(numpy.uint32) ^ numpy.uint32(0x80000000)
    bits = numpy.add(a, 0, dtype=FLOAT32).view(numpy.int32)                # adding 0 makes -0 the same as 0
    result = ((bits >> 31) | numpy.int32(-0x80000000)).view(numpy.uint32)  # the sign bit, or all bits if negative
    result ^= bits.view(numpy.uint32)
    numpy.copyto(result, _LARGEST_KEY, where=a != a)
    return result


# -- sort ----------------------------------------------------------------------------------------------------------

_KINDS = (None, "quicksort", "mergesort", "heapsort", "stable")


def _check_sort(name, kind, order):
    if kind not in _KINDS:
        raise ShapeError(f"{name}: kind must be one of {_KINDS[1:]}, not {kind!r}")
    if order is not None:
        raise ArgumentError(f"{name}: order= names fields of structured arrays, which do not exist here")


def _sorted_axis(a, axis):
    """(shape, axis) that are sorted."""
    return ((a.size,), 0) if axis is None else (a.shape, normalize_axis(axis, len(a.shape)))


def _infer_sort(a, axis, descending, stable, kind, order):
    _check_sort("sort", kind, order)
    return spec(_sorted_axis(a, axis)[0], a.dtype)


def _infer_argsort(a, axis, descending, stable, kind, order):
    _check_sort("argsort", kind, order)
    return spec(_sorted_axis(a, axis)[0], INT64)


def _sort(xp, a, axis, descending, stable, kind, order):
    """A sorted copy along ``axis`` (None: of the flattened array)."""
    shape, axis = _sorted_axis(spec(a.shape, a.dtype), axis)
    result = xp.sort(plain(a.reshape(shape)), axis=axis)
    return xp.flip(result, axis=axis) if descending else result


def _argsort(xp, a, axis, descending, stable, kind, order):
    """The indices that sort an array along ``axis`` (None: the flattened array), as int64; always stable."""
    shape, axis = _sorted_axis(spec(a.shape, a.dtype), axis)
    return stable_argsort(xp, a.reshape(shape), axis, descending)


def _sort_vjp(F, dy, x, y, axis, descending, stable, kind, order):
    at = 0 if axis is None else axis
    places = F.argsort(F.argsort(x[0], axis=axis, descending=descending), axis=at)     # where each element went
    return F.reshape(F.take_along_axis(dy, places, axis=at), newshape=x[0].shape)


_SIGNATURE = "a, axis=-1, descending=False, stable=True, kind=None, order=None"
operator("sort", _SIGNATURE, inputs="a", infer=_infer_sort, kernel=_sort, vjp=_sort_vjp, np="sort", method="sort")
operator("argsort", _SIGNATURE, inputs="a", infer=_infer_argsort, kernel=_argsort, np="argsort", method="argsort")


def _infer_lexsort(*keys, axis):
    if not keys or any(k.shape != keys[0].shape for k in keys):
        raise ShapeError(f"lexsort: keys of one shape are needed, got {[k.shape for k in keys]}")
    normalize_axis(axis, len(keys[0].shape))
    return spec(keys[0].shape, INT64)


def _lexsort(xp, *keys, axis):
    """Indices that sort by the last key, equal ones by the key before it, and so on."""
    result = stable_argsort(xp, keys[0], axis)
    for key in keys[1:]:
        next_order = stable_argsort(xp, xp.take_along_axis(key, result, axis), axis)
        result = xp.take_along_axis(result, next_order, axis)
    return result


operator("lexsort", "*keys, axis=-1", infer=_infer_lexsort, kernel=_lexsort)


def _kth(a, kth, axis):
    """The positions of a partition, within bounds."""
    n = a.size if axis is None else a.shape[normalize_axis(axis, len(a.shape))]
    for k in kth if isinstance(kth, tuple) else (kth,):
        if not hasattr(k, "__index__"):
            raise ArgumentError(f"partition: kth must be an integer or integers, not {kth!r}")
        if not -n <= k < n:
            raise ShapeError(f"kth(={k}) out of bounds ({n})")


def _partition(name, argument):
    def infer(a, kth, axis, kind, order):
        if kind != "introselect" or order is not None:
            raise ShapeError(f"{name}: kind must be 'introselect' and order None")
        _kth(a, kth, axis)
        return spec(_sorted_axis(a, axis)[0], INT64 if argument else a.dtype)

    def kernel(xp, a, kth, axis, kind, order):
        shape, axis = _sorted_axis(spec(a.shape, a.dtype), axis)
        return getattr(xp, name)(plain(a.reshape(shape)), list(kth) if isinstance(kth, tuple) else kth, axis=axis)

    operator(name, "a, kth, axis=-1, kind='introselect', order=None", inputs="a", infer=infer, kernel=kernel, np=name,
             doc=("The indices that partition an array" if argument else "A copy partitioned") + " along ``axis``: "
                 "what stands at each ``kth`` stands there in sorted order too, with nothing larger before it and "
                 "nothing smaller after it.")


_partition("partition", False)
_partition("argpartition", True)

# -- searching -----------------------------------------------------------------------------------------------------


def _infer_searchsorted(a, v, sorter, side):
    if len(a.shape) != 1:
        raise ShapeError(f"searchsorted: the sorted array must have one axis, not the shape {a.shape}")
    if side not in ("left", "right"):
        raise ShapeError(f"searchsorted: side must be 'left' or 'right', not {side!r}")
    if sorter is not None and sorter.shape != a.shape:
        raise ShapeError(f"searchsorted: sorter of shape {sorter.shape} for an array of shape {a.shape}")
    return spec(v.shape if isinstance(v, ArraySpec) else (), INT64)


def _searchsorted(xp, a, v, sorter, side):
    """Where to insert ``v`` into the sorted ``a`` (sorted by the indices ``sorter``), as int64."""
    a = plain(a if sorter is None else a[sorter.astype("int64", copy=False)])
    return xp.searchsorted(a, plain(xp.asarray(v)), side=side)


operator("searchsorted", "a, v, side='left', sorter=None", inputs="a, v, sorter", optional=("sorter",),
         infer=_infer_searchsorted, kernel=_searchsorted, np="searchsorted")


def _infer_digitize(x, bins, right):
    if len(bins.shape) != 1:
        raise ShapeError(f"digitize: bins must have one axis, not the shape {bins.shape}")
    return spec(x.shape if isinstance(x, ArraySpec) else (), INT64)


def _digitize(xp, x, bins, right):
    """The number of the bin that each element belongs to; ``bins`` are edges in increasing or decreasing order."""
    bins, x = plain(bins), plain(xp.asarray(x))
    rising, falling = bool((bins[1:] >= bins[:-1]).all()), bool((bins[1:] <= bins[:-1]).all())
    if rising:
        return xp.searchsorted(bins, x, side="left" if right else "right")
    if falling:
        return bins.size - xp.searchsorted(xp.ascontiguousarray(bins[::-1]), x, side="right" if right else "left")
    raise ValueError("bins must be monotonically increasing or decreasing")


operator("digitize", "x, bins, right=False", inputs="x, bins", infer=_infer_digitize, kernel=_digitize, np="digitize")


def _nan_argument(name):
    limit = "-inf" if name == "argmax" else "inf"

    def infer(a, axis, keepdims):
        if any(a.shape[i] == 0 for i in reduction_axes(axis, len(a.shape))):
            raise ShapeError(f"attempt to get nan{name} of an empty sequence")
        return spec(reduced_shape(a.shape, axis, keepdims), INT64)

    def kernel(xp, a, axis, keepdims):
        a = plain(a)
        missing = a != a
        if bool(missing.all(axis=axis).any()):
            raise ValueError("All-NaN slice encountered")
        a = xp.where(missing, xp.asarray(float(limit), dtype=a.dtype), a) if a.dtype.kind == "f" else a
        return getattr(a, name)(axis=axis).reshape(reduced_shape(a.shape, axis, keepdims))

    operator(f"nan{name}", "a, axis=None, out=None, *, keepdims=False", inputs="a", infer=infer, kernel=kernel,
             np=f"nan{name}", doc=f"As {name}, but NaN does not count; a slice of NaN alone raises ValueError when the "
                                  "result is read.")


_nan_argument("argmax")
_nan_argument("argmin")

# -- quantiles -----------------------------------------------------------------------------------------------------

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _places(xp, q, n, method, scale):
    """(lower index, upper index, weight of the upper) of quantiles ``q / scale`` among ``n`` sorted values."""
    q = xp.asarray(q).astype("float64") / scale
    if q.size and not bool(((q >= 0) & (q <= 1)).all()):
        raise ValueError("quantiles must be in the range [0, 1] and percentiles in [0, 100]")
    at = q * (n - 1)
    if method == "lower":
        at = xp.floor(at)
    elif method == "higher":
        at = xp.ceil(at)
    elif method == "nearest":
        at = xp.rint(at)
    elif method == "midpoint":
        at = (xp.floor(at) + xp.ceil(at)) / 2
    low = xp.floor(at)
    weight = at - low
    low = low.astype("int64")
    return low, xp.minimum(low + 1, n - 1), weight


def _quantile_dtype(dtype):
    return dtype if dtype.kind == "f" or dtype == bfloat16 else default_float()


def _infer_quantile(s, q, method, scale):
    if method not in INTERPOLATIONS:
        raise ShapeError(f"interpolation must be one of {INTERPOLATIONS}, not {method!r}")
    shape = q.shape if isinstance(q, ArraySpec) else ()
    if len(shape) > 1:
        raise ShapeError(f"quantiles must be a number or an array of at most one axis, not of shape {shape}")
    return spec(shape + s.shape[:-1], _quantile_dtype(s.dtype))


def _quantile_sorted(xp, s, q, method, scale):
    lead, n = s.shape[:-1], s.shape[-1]
    s = plain(s)
    work = s.dtype if s.dtype.kind == "f" and s.dtype.itemsize > 2 else numpy.dtype("float64")
    q = xp.asarray(q)
    if n == 0:
        return xp.full(q.shape + lead, xp.nan)
    low, high, weight = _places(xp, q, n, method, scale)
    a = xp.moveaxis(s.take(low, axis=-1), -1, 0) if q.ndim else s.take(low, axis=-1)
    b = xp.moveaxis(s.take(high, axis=-1), -1, 0) if q.ndim else s.take(high, axis=-1)
    weight = weight.reshape(q.shape + (1,) * len(lead)).astype(work)
    a, b = a.astype(work, copy=False), b.astype(work, copy=False)
    result = xp.where(weight == 0, a, xp.where(weight < 0.5, a + (b - a) * weight, b - (b - a) * (1 - weight)))
    if s.dtype.kind == "f":                    # NaN sorts last and makes every quantile NaN
        last = s[..., -1]
        result = xp.where(last != last, xp.asarray(xp.nan, dtype=work), result)
    return result


def _quantile_grad(xp, dy, q, n, method, scale):
    q = xp.asarray(q)
    lead = dy.shape[q.ndim:]
    work = dy.dtype if dy.dtype.kind == "f" and dy.dtype.itemsize > 2 else FLOAT32
    result = xp.zeros((n, *lead), work)
    if n:
        low, high, weight = _places(xp, q.reshape(-1), n, method, scale)
        dy = dy.reshape(q.size, *lead).astype(work)
        for i in range(q.size):
            result[low[i]] += dy[i] * (1 - weight[i])
            result[high[i]] += dy[i] * weight[i]
    return xp.moveaxis(result, 0, -1)


def _quantile_vjp(F, dy, x, y, method, scale):
    return F.quantile_sorted_grad(dy, x[1], n=x[0].shape[-1], method=method, scale=scale), None


operator("quantile_sorted", "s, q, method, scale", inputs="s, q", infer=_infer_quantile, kernel=_quantile_sorted,
         vjp=_quantile_vjp,
         doc="Quantiles ``q / scale`` of values sorted along the last axis; the axis of ``q`` comes first.")
operator("quantile_sorted_grad", "dy, q, n, method, scale", inputs="dy, q", kernel=_quantile_grad,
         infer=lambda dy, q, n, method, scale: spec(dy.shape[len(q.shape) if isinstance(q, ArraySpec) else 0:] + (n,),
                                                    dy.dtype),
         vjp=lambda F, g, x, y, n, method, scale: (F.quantile_sorted(g, x[1], method=method, scale=scale), None))
