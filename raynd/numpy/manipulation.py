"""Shapes, order, joining and splitting of arrays: what is made of several operators or takes lists of arrays.

Everything here gives copies; ``reshape_view`` alone shares memory.
"""
from __future__ import annotations

import math
import operator as python_operator
from collections.abc import Iterator

import numpy

from ..dispatch import F, Proxy, invoke_into
from ..errors import ArgumentError, IndexOutOfBounds, ShapeError
from ..ndarray import shape_methods
from ..ndarray.array import from_numpy
from ..ndarray.bindings import call
from ..ops import registry
from ..ops.joining import pad_pairs
from ..ops.shape import integers
from ..spec import broadcast, normalize_axis
from .creation import array, zeros

__all__ = [
    "append", "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_to",
    "column_stack", "concat", "concatenate", "delete", "diagflat", "dsplit", "dstack", "fliplr", "flipud", "hsplit",
    "hstack", "insert", "moveaxis", "pad", "repeat", "resize", "rollaxis", "rot90", "row_stack", "split", "squeeze",
    "stack", "swapaxes", "tile", "trim_zeros", "vsplit", "vstack",
]

# -- arguments -----------------------------------------------------------------------------------------------------


def as_array(x, like=None):
    """``x`` as an array; numbers, lists and NumPy arrays go to the device of ``like``. Next to an array an integer
    stays one; alone it becomes the default float, as in ``np.array``."""
    if isinstance(x, Proxy):
        return x
    device = None if like is None else like.device
    if isinstance(x, numpy.ndarray):
        return from_numpy(x, device)
    if like is not None and isinstance(x, int):
        return array(x, dtype="bool" if isinstance(x, bool) else "int64", device=device)
    return array(x, device=device)


def as_arrays(name, arrays):
    """A list of arrays from a sequence or an iterator, or from the rows of an array."""
    if isinstance(arrays, Proxy):
        if not arrays.ndim:
            raise ShapeError(f"{name}: the arrays must be given as a list or tuple")
        arrays = [arrays[i] for i in range(len(arrays))]
    elif isinstance(arrays, Iterator):
        arrays = list(arrays)
    elif not isinstance(arrays, (list, tuple)):
        raise ArgumentError(f"{name}: the arrays must be given as a list or tuple, not {type(arrays).__name__}")
    if not arrays:
        raise ShapeError(f"{name}: need at least one array")
    like = next((a for a in arrays if isinstance(a, Proxy)), None)
    return [as_array(a, like) for a in arrays]


def into(out, result):
    """``result``, or ``out`` with the result written into it."""
    if out is None:
        return result
    if not isinstance(out, Proxy):
        raise ArgumentError(f"out= must be an array, not {type(out).__name__}")
    invoke_into(registry.get("copy"), (result,), (), (out,), same_kind=True)
    return out


def _reshaped(x, shape):
    return x if x.shape == shape else F.reshape(x, newshape=shape)


# -- axes ----------------------------------------------------------------------------------------------------------


def swapaxes(a, axis1, axis2):
    """A copy with two axes exchanged."""
    return shape_methods.swapaxes(as_array(a), axis1, axis2)


def moveaxis(a, source, destination):
    """A copy with the axes ``source`` (an int or a sequence) at the positions ``destination``."""
    a = as_array(a)
    source = [normalize_axis(i, a.ndim, "source") for i in integers(source, "source")]
    destination = [normalize_axis(i, a.ndim, "destination") for i in integers(destination, "destination")]
    if len(source) != len(destination):
        raise ShapeError("moveaxis: source and destination must have the same number of elements")
    for name, axes in (("source", source), ("destination", destination)):
        if len(set(axes)) != len(axes):
            raise ShapeError(f"moveaxis: repeated axis in `{name}` argument")
    order = [i for i in range(a.ndim) if i not in source]
    for to, axis in sorted(zip(destination, source)):
        order.insert(to, axis)
    return F.transpose(a, axes=tuple(order))


def rollaxis(a, axis, start=0):
    """A copy with ``axis`` moved before the axis that stands at ``start``."""
    a = as_array(a)
    axis = normalize_axis(axis, a.ndim)
    start = normalize_axis(start, a.ndim + 1, "start") if start >= 0 else normalize_axis(start, a.ndim, "start")
    order = [i for i in range(a.ndim) if i != axis]
    order.insert(start - (axis < start), axis)
    return F.transpose(a, axes=tuple(order))


def squeeze(a, axis=None, out=None):
    """A copy without the axes of length 1 (all, or those in ``axis``)."""
    return call(registry.get("squeeze"), (as_array(a),), {"axis": axis}, out)


def atleast_1d(*arys):
    """The arrays (a list if there are several), zero-dim ones with shape (1,)."""
    return _atleast(arys, lambda s: s or (1,))


def atleast_2d(*arys):
    """The arrays (a list if there are several) with new leading axes, to at least two."""
    return _atleast(arys, lambda s: (1,) * (2 - len(s)) + s)


def atleast_3d(*arys):
    """The arrays (a list if there are several) with at least three axes: (n,) becomes (1, n, 1), (m, n) (m, n, 1)."""
    return _atleast(arys, lambda s: (1, *(s or (1,)), 1) if len(s) < 2 else (*s, 1) if len(s) == 2 else s)


def _atleast(arys, shape):
    results = [_reshaped(x, shape(x.shape)) for x in map(as_array, arys)]
    return results[0] if len(results) == 1 else results


def rot90(m, k=1, axes=(0, 1)):
    """A copy rotated ``k`` times by 90 degrees, from the first of ``axes`` towards the second."""
    m = as_array(m)
    axes = integers(axes, "axes")
    if len(axes) != 2:
        raise ShapeError(f"rot90: axes must be two, not {axes}")
    first, second = [normalize_axis(i, m.ndim, "axes") for i in axes]
    if first == second:
        raise ShapeError(f"rot90: axes must be different: {axes}")
    k %= 4
    if k == 0:
        return F.copy(m)
    if k == 2:
        return F.flip(m, axis=(first, second))
    if k == 1:
        return swapaxes(F.flip(m, axis=second), first, second)
    return F.flip(swapaxes(m, first, second), axis=second)


def fliplr(m):
    """A copy with the second axis in reverse order."""
    m = as_array(m)
    if m.ndim < 2:
        raise ShapeError("fliplr: input must be at least 2-d")
    return F.flip(m, axis=1)


def flipud(m):
    """A copy with the first axis in reverse order."""
    m = as_array(m)
    if m.ndim < 1:
        raise ShapeError("flipud: input must be at least 1-d")
    return F.flip(m, axis=0)


# -- broadcasting --------------------------------------------------------------------------------------------------


def broadcast_to(array, shape):
    """A copy of an array or number repeated to ``shape``."""
    return call(registry.get("broadcast_to"), (as_array(array),), {"shape": shape}, None)


def broadcast_arrays(*args):
    """A list of the arrays broadcast to their common shape."""
    arrays = [as_array(x) for x in args]
    if not arrays:
        return []
    shape = broadcast(*[x.shape for x in arrays])
    return [F.copy(x) if x.shape == shape else F.broadcast_to(x, shape=shape) for x in arrays]


# -- joining -------------------------------------------------------------------------------------------------------


def concatenate(seq, axis=0, out=None):
    """The arrays of a sequence joined along ``axis`` (None: flattened first); dtypes are promoted."""
    return call(registry.get("concatenate"), as_arrays("concatenate", seq), {"axis": axis}, out)


concat = concatenate


def stack(arrays, axis=0, out=None):
    """Arrays of one shape joined along a new axis."""
    return call(registry.get("stack"), as_arrays("stack", arrays), {"axis": axis}, out)


def _joined(arrays, axis, out=None):
    return call(registry.get("concatenate"), arrays, {"axis": axis}, out)


def vstack(arrays, out=None):
    """Arrays joined along the first axis; vectors are rows."""
    return _joined([atleast_2d(x) for x in as_arrays("vstack", arrays)], 0, out)


row_stack = vstack


def hstack(arrays):
    """Arrays joined along the second axis, vectors along the first."""
    arrays = [atleast_1d(x) for x in as_arrays("hstack", arrays)]
    return _joined(arrays, 0 if arrays[0].ndim == 1 else 1)


def dstack(arrays):
    """Arrays joined along the third axis; (m, n) counts as (m, n, 1), (n,) as (1, n, 1)."""
    return _joined([atleast_3d(x) for x in as_arrays("dstack", arrays)], 2)


def column_stack(tup):
    """Arrays joined along the second axis; vectors are columns."""
    arrays = as_arrays("column_stack", tup)
    return _joined([_reshaped(x, (x.size, 1)) if x.ndim < 2 else x for x in arrays], 1)


def append(arr, values, axis=None):
    """A copy of ``arr`` with ``values`` behind it along ``axis`` (None: both flattened)."""
    arr = as_array(arr)
    return _joined([arr, as_array(values, arr)], axis)


# -- splitting -----------------------------------------------------------------------------------------------------


def _cut(ary, points, axis):
    parts = F.split(ary, points=tuple(points), axis=axis)
    return list(parts) if isinstance(parts, tuple) else [parts]


def _sections(indices_or_sections):
    """The number of sections as an int, or the list of cut points."""
    if hasattr(indices_or_sections, "__index__") and not isinstance(indices_or_sections, (Proxy, numpy.ndarray)):
        sections = python_operator.index(indices_or_sections)
        if sections <= 0:
            raise ShapeError("number sections must be larger than 0")
        return sections
    if isinstance(indices_or_sections, (Proxy, numpy.ndarray)):
        indices_or_sections = indices_or_sections.tolist()
    return integers(tuple(indices_or_sections) if isinstance(indices_or_sections, (list, tuple, set))
                    else indices_or_sections, "indices_or_sections")


def split(ary, indices_or_sections, axis=0):
    """A list of equal parts of an array (their number is given), or of the parts between the given indices."""
    ary = as_array(ary)
    axis = normalize_axis(axis, ary.ndim)
    sections = _sections(indices_or_sections)
    if isinstance(sections, int):
        if ary.shape[axis] % sections:
            raise ShapeError("array split does not result in an equal division")
        sections = range(ary.shape[axis] // sections, ary.shape[axis], ary.shape[axis] // sections) \
            if ary.shape[axis] else (0,) * (sections - 1)
    return _cut(ary, sections, axis)


def array_split(ary, indices_or_sections, axis=0):
    """As :func:`split`, but the first parts may be one longer than the last."""
    ary = as_array(ary)
    axis = normalize_axis(axis, ary.ndim)
    sections = _sections(indices_or_sections)
    if isinstance(sections, int):
        each, extra = divmod(ary.shape[axis], sections)
        sections = [i * each + min(i, extra) for i in range(1, sections)]
    return _cut(ary, sections, axis)


def _split_at(name, ary, sections, axis, ndim):
    ary = as_array(ary)
    if ary.ndim < ndim:
        raise ShapeError(f"{name} only works on arrays of {ndim} or more dimensions")
    return split(ary, sections, axis)


def hsplit(ary, indices_or_sections):
    """:func:`split` along the second axis (of a vector along the first)."""
    ary = as_array(ary)
    return _split_at("hsplit", ary, indices_or_sections, 1 if ary.ndim > 1 else 0, 1)


def vsplit(ary, indices_or_sections):
    """:func:`split` along the first axis."""
    return _split_at("vsplit", ary, indices_or_sections, 0, 2)


def dsplit(ary, indices_or_sections):
    """:func:`split` along the third axis."""
    return _split_at("dsplit", ary, indices_or_sections, 2, 3)


# -- repeating and padding -----------------------------------------------------------------------------------------


def tile(A, reps):
    """The whole array repeated ``reps`` times along each axis (an int: along the last)."""
    if isinstance(A, (bool, int, float)):
        return numpy.tile(A, reps)
    return call(registry.get("tile"), (as_array(A),), {"reps": reps}, None)


def repeat(a, repeats, axis=None):
    """Every element repeated ``repeats`` times (an int, or one count for each element of the axis), along ``axis`` or
    in the flattened array. Counts in an array on a device are waited for."""
    if isinstance(repeats, (Proxy, numpy.ndarray)):
        repeats = repeats.tolist()
    return call(registry.get("repeat"), (as_array(a),), {"repeats": repeats, "axis": axis}, None)


def resize(a, new_shape):
    """A copy of ``new_shape`` filled with the elements of ``a``, repeated as often as needed."""
    a = as_array(a)
    shape = integers(new_shape, "new_shape")
    if any(n < 0 for n in shape):
        raise ShapeError(f"resize: sizes must not be negative: {shape}")
    size = math.prod(shape)
    if size == 0 or a.size == 0:
        return zeros(shape, dtype=a._spec.dtype, device=a.device)
    flat = F.tile(F.reshape(a, newshape=(a.size,)), reps=(-(-size // a.size),))
    return F.reshape(F.basic_index(flat, items=((0, size, 1),), shape=(size,)), newshape=shape)


_PAD_OPTIONS = {"constant": {"constant_values"}, "reflect": {"reflect_type"}, "symmetric": {"reflect_type"},
                "maximum": {"stat_length"}, "minimum": {"stat_length"}}


def pad(x, pad_width=None, mode="constant", **kwargs):
    """The array with ``pad_width`` elements more at each end.

    pad_width: ((before, after), ...) for each axis, or one such pair for all. Modes: 'constant' (``constant_values``),
    'edge', 'reflect', 'symmetric', 'wrap', 'maximum' and 'minimum' (of the whole axis). Raises ValueError for other
    modes and for options that a mode does not have.
    """
    x = as_array(x)
    if pad_width is None or (isinstance(pad_width, tuple) and any(isinstance(p, float) for p in pad_width)):
        raise ArgumentError("`pad_width` must be of integral type.")
    if isinstance(pad_width, (Proxy, numpy.ndarray)):
        pad_width = pad_width.tolist()
    if not isinstance(pad_width, (tuple, list)):
        raise ArgumentError("`pad_width` must be tuple.")
    for option in kwargs:
        if option not in _PAD_OPTIONS.get(mode, ()):
            raise ShapeError(f"{option} keyword not in allowed keywords {sorted(_PAD_OPTIONS.get(mode, ()))}")
    if kwargs.pop("stat_length", None) is not None:
        raise ShapeError("pad: unsupported stat_length; only whole axes are")
    pad_width = _tuples(pad_width)
    if mode in ("maximum", "minimum"):
        for axis, (before, after) in enumerate(pad_pairs(pad_width, x.ndim)):
            if before or after:
                limit = getattr(F, mode[:3])(x, axis=axis, keepdims=True)
                x = _joined([F.repeat(limit, repeats=before, axis=axis), x, F.repeat(limit, repeats=after, axis=axis)],
                            axis)
        return x
    return call(registry.get("pad"), (x,), {"pad_width": pad_width, "mode": mode, "constant_values": 0,
                                           "reflect_type": "even", **kwargs}, None)


def _tuples(value):
    return tuple(_tuples(v) for v in value) if isinstance(value, (list, tuple)) else value


def trim_zeros(filt, trim="fb"):
    """A 1-D array without the zeros at its front ('f') and back ('b'); waits to know how many there are."""
    filt = as_array(filt)
    if filt.ndim != 1:
        raise ShapeError(f"trim_zeros: an array of one axis is needed, not of shape {filt.shape}")
    if not filt.size:
        return F.copy(filt)
    kept = F.not_equal(filt, 0)
    front, back, count = F.stack(F.argmax(kept), F.argmax(F.flip(kept)), F.count_nonzero(kept)).tolist()
    if not count:
        return F.copy(filt[:0])
    start = front if "f" in trim.lower() else 0
    stop = filt.size - back if "b" in trim.lower() else filt.size
    return F.copy(filt[start:stop])


# -- inserting and deleting ----------------------------------------------------------------------------------------


def _host_index(obj, n):
    """An index (int, slice, sequence or array) as an int or a NumPy integer array; waits for one on a device."""
    if isinstance(obj, Proxy):
        obj = obj.asnumpy()
    if isinstance(obj, slice):
        return numpy.arange(n)[obj]
    obj = numpy.asarray(obj)
    if obj.size == 0:
        return obj.astype("int64").reshape(-1)
    if obj.dtype.kind == "b":
        if obj.shape != (n,):
            raise ShapeError(f"a boolean index of shape {obj.shape} for an axis of length {n}")
        return obj.nonzero()[0]
    if obj.ndim > 1:
        raise ShapeError("the index array must have at most one axis")
    return obj.astype("int64")


def _along(arr, axis):
    """(array, axis) where axis None means the flattened array."""
    arr = as_array(arr)
    if axis is None:
        return _reshaped(arr, (arr.size,)), 0
    return arr, normalize_axis(axis, arr.ndim)


def _check_index(index, low, high, n, axis):
    if index.size and not (low <= index.min() and index.max() <= high):
        bad = index.reshape(-1)[((index < low) | (index > high)).reshape(-1)][0]
        raise IndexOutOfBounds(f"index {bad} is out of bounds for axis {axis} with size {n}")


def _gather(x, order, axis):
    return F.take(x, from_numpy(order, x.device, type(x)), axis=axis, mode="clip")


def delete(arr, obj, axis=None):
    """A copy of ``arr`` (axis None: flattened) without what ``obj`` (an int, a slice, or indices) selects along
    ``axis``. Raises IndexError for an index out of bounds; waits for indices on a device."""
    arr, axis = _along(arr, axis)
    n = arr.shape[axis]
    index = _host_index(obj, n)
    _check_index(index, -n, n - 1, n, axis)
    keep = numpy.ones(n, "bool")
    keep[index] = False
    return _gather(arr, keep.nonzero()[0], axis)


def insert(arr, obj, values, axis=None):
    """A copy of ``arr`` (axis None: flattened) with ``values`` inserted along ``axis`` before the indices ``obj`` (an
    int, a slice, or indices). Raises IndexError for an index out of bounds; waits for indices on a device."""
    arr, axis = _along(arr, axis)
    n = arr.shape[axis]
    index = _host_index(obj, n)
    _check_index(index, -n, n, n, axis)
    values = as_array(values, arr)
    if values.dtype != arr.dtype:
        values = F.cast(values, dtype=arr._spec.dtype.name)
    if values.ndim < arr.ndim:
        values = F.reshape(values, newshape=(1,) * (arr.ndim - values.ndim) + values.shape)
    if index.ndim == 0:
        values = moveaxis(values, 0, axis)
        count = values.shape[axis]
    else:
        count = index.size
    shape = arr.shape[:axis] + (count,) + arr.shape[axis + 1:]
    if values.shape != shape:
        values = F.broadcast_to(values, shape=shape)
    at = int(index) if index.ndim == 0 else index
    order = numpy.insert(numpy.arange(n), at, numpy.arange(n, n + count))
    return _gather(_joined([arr, values], axis), order, axis)


def diagflat(array, k=0):
    """A square matrix with the flattened array on diagonal ``k``."""
    array = as_array(array)
    return F.diag(_reshaped(array, (array.size,)), k=k)
