"""Reading and writing parts of arrays.

A basic index whose region is contiguous gives a view: the same buffer at another offset, no command at all (unless it
is recorded, then it is an operator, so that gradients flow). Everything else goes through the operators
``basic_index``/``advanced_index`` and their assignments.
"""
from __future__ import annotations

import contextvars
from functools import cache

import numpy

from ..autograd import assign
from ..dispatch import F, Proxy, array_class, invoke_into, scope, traced
from ..errors import ArgumentError, IndexOutOfBounds, MXNetError, ShapeError
from ..ops import registry
from ..ops.indexing import check_assignable
from ..spec import contiguous_range, is_float, spec


def _basic(key):
    """``key`` as a tuple if it consists of ints, slices, Ellipsis and None only, else None."""
    if type(key) is not tuple:
        key = (key,)
    for k in key:
        if not (type(k) in (int, slice) or k is None or k is Ellipsis or (isinstance(k, numpy.integer))):
            return None
    return key


def normalize_basic(key, shape):
    """(items, result shape): one int or slice an axis, and the result's shape with new axes put in."""
    key = tuple(int(k) if isinstance(k, numpy.integer) else k for k in key)
    used = sum(1 for k in key if k is not None and k is not Ellipsis)
    if used > len(shape):
        raise IndexOutOfBounds(f"too many indices ({used}) for array with {len(shape)} dimensions")
    if sum(1 for k in key if k is Ellipsis) > 1:
        raise IndexOutOfBounds("an index can only have a single ellipsis ('...')")
    if Ellipsis in key:
        at = key.index(Ellipsis)
        key = key[:at] + (slice(None),) * (len(shape) - used) + key[at + 1:]
    else:
        key = key + (slice(None),) * (len(shape) - used)
    items, result, axis = [], [], 0
    for k in key:
        if k is None:
            result.append(1)
            continue
        n = shape[axis]
        if type(k) is int:
            if not -n <= k < n:
                raise IndexOutOfBounds(f"index {k} is out of bounds for axis {axis} with size {n}")
            items.append(k % n)
        else:
            start, stop, step = _slice(k, n)
            items.append(slice(start, stop, step))
            result.append(len(range(start, stop, step)))
        axis += 1
    return tuple(items), tuple(result)


def _slice(k, n):
    try:
        return k.indices(n)
    except TypeError:
        raise ArgumentError(f"slice indices must be integers or None, got {k}") from None
    except ValueError as error:
        raise ShapeError(str(error)) from None


def view(x, offset, shape):
    """A proxy of a contiguous range of ``x``'s buffer."""
    return type(x)(x._buffer, spec(shape, x._spec.dtype), offset)


def contiguous_view(x, items, shape):
    """The view of a basic index if its region is contiguous, else None."""
    if not isinstance(x, array_class()):     # as in MXNet, a step over one element is no step, but only in mx.nd
        items = tuple(slice(k.start, k.start + 1, 1) if type(k) is slice and k.step != 1
                      and len(range(k.start, k.stop, k.step)) == 1 else k for k in items)
    if any(type(k) is slice and k.step != 1 for k in items):
        return None
    found = contiguous_range(x._spec.shape, x._offset or 0, items)
    return None if found is None else view(x, found[0], shape)


def getitem(x, key):
    """``x[key]``."""
    x = traced(x)
    basic = _basic(key)
    if basic is None:
        return advanced(x, key)
    if not x._spec.shape and basic and basic != (Ellipsis,) and any(k is not None and k is not Ellipsis for k in basic):
        raise IndexOutOfBounds("scalar tensor can only accept `()` as index")
    items, shape = normalize_basic(basic, x._spec.shape)
    if not (scope().recording and x._entry is not None):
        found = contiguous_view(x, items, shape)
        if found is not None:
            return found
    return F.basic_index(x, items=encode_items(items), shape=shape)


def encode_items(items):
    """Items of a basic index as plain attributes: an int, or (start, stop, step)."""
    return tuple([(k.start, k.stop if k.stop >= 0 else None, k.step) if type(k) is slice else k for k in items])


def advanced(x, key):
    """``x[key]`` with arrays, lists or booleans in the key."""
    from . import advanced_indexing
    return advanced_indexing.getitem(x, key)


def setitem(x, key, value):
    """``x[key] = value``; under recording only ``x[:] = array`` into an array that is off the tape."""
    x = traced(x)
    basic = _basic(key)
    recording = scope().recording
    if recording and (x._entry is not None or (isinstance(value, Proxy) and value._entry is not None)):
        if basic is not None and x._entry is None and x._offset is None and whole(basic, x._spec.shape):
            if value._spec.dtype != x._spec.dtype and is_float(x._spec.dtype):
                value = F.cast(value, dtype=x._spec.dtype.name)      # into integers the gradient goes as it is
            fill(x, value)
            return
        raise MXNetError("Inplace operations (+=, -=, x[:]=, etc) are not supported when recording with autograd; "
                         "only x[:] = y into an array that is off the tape is")
    if basic is None:
        from . import advanced_indexing
        advanced_indexing.setitem(x, key, value)
        return
    items, shape = normalize_basic(basic, x._spec.shape)
    target = contiguous_view(x, items, shape)
    if target is not None:
        if whole(basic, x._spec.shape) and x._offset is None:
            target = x
        fill(target, value)
        return
    value = as_value(x, value)
    if isinstance(value, Proxy):
        check_assignable(value._spec.shape, shape)
        if value._buffer is x._buffer:
            value = F.copy(value)                # the kernel must not read what it writes
    invoke_into_inplace("basic_assign", x, value, {"items": encode_items(items), "shape": shape})


def invoke_into_inplace(name, x, value, attrs, *indices):
    """Call an in-place assignment operator."""
    from ..dispatch import invoke
    invoke(registry.get(name), (x, value, *indices), attrs)


def whole(key, shape):
    """Whether a basic key selects everything in place."""
    return all(k is Ellipsis or (type(k) is slice and k == slice(None)) for k in key)


def as_value(x, value):
    """What is assigned, as a number or an array on ``x``'s device."""
    from .array import from_numpy
    if isinstance(value, Proxy):
        if value._buffer.queue.device != x._buffer.queue.device and not x._buffer.queue.tracing:
            value = value.copyto(x.device)
        return value
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, numpy.generic):
        return value.item()
    try:
        values = numpy.asarray(value, dtype=None if isinstance(value, numpy.ndarray) else x._spec.dtype)
    except (ValueError, TypeError):
        raise ArgumentError(f"cannot assign {type(value).__name__} to an array") from None
    return from_numpy(values, x.device, type(x))


def fill(target, value):
    """``target[...] = value`` for a contiguous target."""
    value = as_value(target, value)
    if isinstance(value, Proxy):
        check_assignable(value._spec.shape, target._spec.shape)
        if value._spec.shape != target._spec.shape:
            if len(value._spec.shape) > len(target._spec.shape):
                value = F.reshape(value, newshape=value._spec.shape[-len(target._spec.shape):]
                                  if target._spec.shape else ())
            value = F.broadcast_to(value, shape=target._spec.shape)
        overwrite(target, value)
    else:
        invoke_into(_FILL, (value,), {"shape": target._spec.shape, "dtype": _dtype_name(target._spec.dtype)}, (target,))


@cache
def _dtype_name(dtype):
    return dtype.name                        # NumPy makes the string anew each time


_FILL = registry.get("fill")
_COPY = registry.get("copy")


# An array that is overwritten by what has failed keeps its last good value. The outputs of a custom operator have none:
# while its code runs, these buffers (their ids) take the error over.
outputs_being_made: contextvars.ContextVar = contextvars.ContextVar("raynd_outputs")


def overwrite(target, source):
    """Write ``source`` (same shape) over ``target``; the tape entry moves along into an array that is off the tape."""
    if source._buffer.queue.device != target._buffer.queue.device:
        source = source.copyto(target.device)
    entry = source._entry
    source = type(source)(source._buffer, source._spec, source._offset)      # off the tape: the write itself is not
    if id(target._buffer) in outputs_being_made.get(()):                     # an operator of the graph
        assign(target, source if source._spec.dtype == target._spec.dtype else
               F.cast(source, dtype=target._spec.dtype.name))
    else:
        invoke_into(_COPY, (source,), (), (target,))
    if scope().recording and entry is not None and target._offset is None:
        target._entry = entry
