"""Indexing with arrays, lists and booleans.

A key is resolved into a *structure* (see ``ops/indexing.py``) and index arrays. What the driver knows (lists, NumPy
arrays) is checked here and raises at once; index arrays on the device are operands, checked where they are. Only
reading through a boolean array of the device waits, for the number of its True elements.
"""
from __future__ import annotations

from functools import lru_cache

import numpy

from ..dispatch import F, Proxy, invoke
from ..errors import IndexOutOfBounds, ShapeError
from ..ops import registry
from ..ops.indexing import advanced_shape, check_assignable, check_mask


class _Mask:
    """A boolean key: ``values`` is a NumPy array, or an array on the device."""
    __slots__ = ("values", "shape")

    def __init__(self, values):
        self.values, self.shape = values, tuple(values.shape)


def _classify(k):
    """One entry of a key: None, Ellipsis, a slice, an int, a :class:`_Mask`, or an integer array."""
    if k is None or k is Ellipsis or isinstance(k, slice):
        return k
    if isinstance(k, Proxy):
        return _Mask(k) if k._spec.dtype.kind == "b" else k
    if isinstance(k, (bool, numpy.bool_)):
        return _Mask(numpy.asarray(bool(k)))
    if isinstance(k, (int, numpy.integer)):
        return int(k)
    if not isinstance(k, (list, tuple, range, numpy.ndarray)):
        raise IndexOutOfBounds("only integers, slices (`:`), ellipsis (`...`), None (`np.newaxis`) and integer or "
                               f"boolean arrays are valid indices, not {k!r} of type {type(k).__name__}")
    try:
        array = numpy.asarray(k)
    except ValueError as error:
        raise IndexOutOfBounds(f"a list of unequal lengths is not an index: {error}") from None
    if array.dtype.kind == "b":
        return _Mask(array)
    if array.size == 0 and not isinstance(k, numpy.ndarray):
        array = array.astype("int64")
    if array.dtype.kind not in "iuf":
        raise IndexOutOfBounds(f"arrays used as indices must be of integer (or boolean) type, not {array.dtype}")
    return array.astype("int64")


def _entries(key, ndim):
    """The classified entries of a key, one or more an axis: no ellipsis left."""
    entries = [_classify(k) for k in (key if type(key) is tuple else (key,))]
    used = sum(len(k.shape) if isinstance(k, _Mask) else 1 for k in entries if k is not None and k is not Ellipsis)
    if used > ndim:
        raise IndexOutOfBounds(f"too many indices for array: array is {ndim}-dimensional, but {used} were indexed")
    at = [i for i, k in enumerate(entries) if k is Ellipsis]
    if len(at) > 1:
        raise IndexOutOfBounds("an index can only have a single ellipsis ('...')")
    rest = [slice(None)] * (ndim - used)
    return entries[:at[0]] + rest + entries[at[0] + 1:] if at else entries + rest


def _bounded(array, n, axis):
    """A host index array with its values checked against axis ``axis`` of size ``n``."""
    if array.size and not (-n <= array.min() and array.max() < n):
        bad = array[(array < -n) | (array >= n)].flat[0]
        raise IndexOutOfBounds(f"index {bad} is out of bounds for axis {axis} with size {n}")
    return array


def _slice(k, n):
    from .indexing import _slice as bounds
    start, stop, step = bounds(k, n)
    return start, stop if stop >= 0 else None, step


def _single_mask(entries, shape):
    """(mask, axis) if a mask on the device is the only entry that selects, else None."""
    found = None
    axis = 0
    for k in entries:
        if isinstance(k, _Mask):
            if found is not None or not isinstance(k.values, Proxy) or not k.shape:
                return None
            found = k, axis
            axis += len(k.shape)
        elif isinstance(k, slice) and (k == slice(None) or _slice(k, shape[axis]) == (0, shape[axis], 1)):
            axis += 1
        else:
            return None
    if found is not None:
        check_mask(shape, found[0].shape, found[1])
    return found


def _same_queue(x, index):
    """An index array as an operand next to ``x``."""
    from .array import from_numpy
    if isinstance(index, Proxy):
        if index._buffer.queue.device != x._buffer.queue.device and not x._buffer.queue.tracing:
            index = index.copyto(x._buffer.queue.device)
        return index
    device = x._buffer.queue.device
    return from_numpy(index, device, type(x))


def _resolve(x, entries):
    """(x, structure, arrays): ``x`` with an axis for every scalar boolean, and operands for its index arrays."""
    shape = x._spec.shape
    structure, arrays, new_shape, axis = [], [], [], 0
    for k in entries:
        if k is None:
            structure.append(None)
        elif isinstance(k, _Mask):
            check_mask(shape, k.shape, axis)
            if not k.shape:                              # x[True]: a new axis of which all or nothing is taken
                new_shape.append(1)
            new_shape += shape[axis:axis + len(k.shape)]
            axis += len(k.shape)
            found = _places(k)
            structure += ["#"] * len(found)
            arrays += found
        else:
            n = shape[axis]
            new_shape.append(n)
            if isinstance(k, slice):
                structure.append(_slice(k, n))
            elif type(k) is int:
                if not -n <= k < n:
                    raise IndexOutOfBounds(f"index {k} is out of bounds for axis {axis} with size {n}")
                structure.append(k % n)
            else:
                structure.append("#")
                arrays.append(k if isinstance(k, Proxy) else _bounded(k, n, axis))
            axis += 1
    advanced_shape(tuple(new_shape), structure, [a.shape for a in arrays])     # shapes that do not fit raise here
    return tuple(new_shape), tuple(structure), [_same_queue(x, a) for a in arrays]


def _places(mask):
    """The index arrays that a mask stands for, one an axis (one for a scalar)."""
    if not isinstance(mask.values, Proxy):
        if mask.shape:
            return list(numpy.nonzero(mask.values))
        return [numpy.zeros(int(mask.values), "int64")]
    count = int(F.mask_count(mask.values).item())
    if not mask.shape:
        return [numpy.zeros(count, "int64")]
    found = F.mask_places(mask.values, count=count)
    return list(found) if isinstance(found, tuple) else [found]


@lru_cache(maxsize=1024)
def _rows(shape):
    """The structure of ``x[array]``."""
    return ("#", *[(0, n, 1) for n in shape[1:]])


_ADVANCED_INDEX = registry.get("advanced_index")


def getitem(x, key):
    """``x[key]``, always a copy. Raises IndexError for a key that does not fit."""
    shape = x._spec.shape
    if isinstance(key, Proxy) and shape and key._spec.dtype.kind != "b":       # the usual case: rows by an array
        return invoke(_ADVANCED_INDEX, (x, _same_queue(x, key)), {"structure": _rows(shape)})
    entries = _entries(key, len(shape))
    single = _single_mask(entries, shape)
    if single is not None:
        mask, axis = single
        values = _same_queue(x, mask.values)
        return F.mask_index(x, values, count=int(F.mask_count(values).item()), axis=axis)
    new_shape, structure, arrays = _resolve(x, entries)
    if new_shape != shape:
        x = F.reshape(x, newshape=new_shape)
    return F.advanced_index(x, *arrays, structure=structure)


def setitem(x, key, value):
    """``x[key] = value`` with broadcasting. Raises ValueError if ``value`` does not broadcast, IndexError for a key
    that does not fit."""
    from .indexing import as_value, view
    shape = x._spec.shape
    entries = _entries(key, len(shape))
    value = as_value(x, value)
    if isinstance(value, Proxy) and value._buffer is x._buffer:
        value = F.copy(value)                            # the kernel must not read what it writes
    single = _single_mask(entries, shape)
    if single is not None:
        mask, axis = single
        if isinstance(value, Proxy):
            _check_mask_value(value._spec.shape, shape, len(mask.shape), axis)
        invoke(registry.get("mask_assign"), (x, value, _same_queue(x, mask.values)), {"axis": axis})
        return
    new_shape, structure, arrays = _resolve(x, entries)
    if isinstance(value, Proxy):
        check_assignable(value._spec.shape, advanced_shape(new_shape, structure, [a.shape for a in arrays]))
    if new_shape != shape:
        x = view(x, x._offset or 0, new_shape)
    invoke(registry.get("advanced_assign"), (x, value, *arrays), {"structure": structure})


def _check_mask_value(value, shape, ndim, axis):
    """What can be known of a value assigned through a mask before the mask is: all but the number of its elements."""
    region = (*shape[:axis], None, *shape[axis + ndim:])
    trimmed = value
    while len(trimmed) > len(region) and trimmed[0] == 1:
        trimmed = trimmed[1:]
    if len(trimmed) > len(region) or any(n is not None and m not in (1, n)
                                         for m, n in zip(reversed(trimmed), reversed(region))):
        raise ShapeError(f"could not broadcast input array from shape {value} into the region of a boolean index of an "
                         f"array of shape {shape}")


