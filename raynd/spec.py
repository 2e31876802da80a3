"""What is known of an array without its values: :class:`ArraySpec`, dtypes, promotion and broadcasting.

Everything here is pure Python over tuples, runs on the driver for every operator call that is not cached, and
never touches an array.
"""
from __future__ import annotations

import math
import weakref
from functools import cache, lru_cache

import ml_dtypes
import numpy as np

from .errors import ArgumentError, IndexOutOfBounds, ShapeError

bfloat16 = np.dtype(ml_dtypes.bfloat16)
MAX_ELEMENTS = 2 ** 48          # 281 TB of bytes: larger sizes are mistakes and are refused before allocation

_SPECS: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


class ArraySpec:
    """Shape (tuple of int) and dtype (``numpy.dtype``) of an array.

    Instances are interned: equal specs are the same object, so they hash and compare at C speed. Make them with
    :func:`spec`.
    """
    __slots__ = ("shape", "dtype", "size", "nbytes", "__weakref__")

    def __init__(self, shape, dtype):
        self.shape = shape
        self.dtype = dtype
        self.size = math.prod(shape)
        self.nbytes = self.size * dtype.itemsize

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self):
        return f"{self.dtype.name}{list(self.shape)}"

    def __reduce__(self):
        return spec, (self.shape, self.dtype.name)


def spec(shape, dtype) -> ArraySpec:
    """The interned :class:`ArraySpec` of ``shape`` and ``dtype`` (anything :func:`as_dtype` takes)."""
    key = (shape, dtype)
    try:
        return _SPECS[key]
    except (KeyError, TypeError):
        shape, dtype = as_shape(shape), as_dtype(dtype)
        key = (shape, dtype)
        found = _SPECS.get(key)
        if found is None:
            found = ArraySpec(shape, dtype)
            if found.size > MAX_ELEMENTS:
                raise ShapeError(f"an array of shape {shape} has {found.size} elements, over the limit of "
                                 "2**48") from None
            found = _SPECS.setdefault(key, found)
        return found


_SCALARS = {"int": int, "float": float, "bool": bool, "NoneType": type(None)}


def decode_spec(wire):
    """An ArraySpec, or a scalar type, from its wire form."""
    return _SCALARS[wire] if isinstance(wire, str) else spec(*wire)


def encode_spec(value):
    """The wire form of an ArraySpec (shape, dtype name) or a scalar type (its name)."""
    return value.__name__ if isinstance(value, type) else (value.shape, dtype_name(value.dtype))


def as_shape(shape) -> tuple:
    """A tuple of Python ints from an int or a sequence; negative or non-integer sizes raise."""
    if isinstance(shape, (int, np.integer)):
        shape = (shape,)
    try:
        result = tuple(int(n.__index__()) for n in shape)
    except (TypeError, AttributeError):
        raise ArgumentError(f"a shape must be an int or a tuple of ints, not {shape!r}") from None
    for n in result:
        if n < 0:
            raise ShapeError(f"negative dimensions are not allowed: shape {result}")
    return result


_TYPE_NAMES = {float: np.dtype("float64"), int: np.dtype("int64"), bool: np.dtype("bool")}


@lru_cache(maxsize=256)
def _dtype_of(value):
    if value in _TYPE_NAMES:
        return _TYPE_NAMES[value]
    if isinstance(value, str) and value == "bfloat16":
        return bfloat16
    result = np.dtype(value)
    if result.names == ("bfloat16",):        # MXNet's own spelling: a structure of two bytes
        return bfloat16
    if result.kind not in "biufcV" or (result.kind == "V" and result != bfloat16):
        raise TypeError(value)
    return result.newbyteorder("=") if result != bfloat16 else result


def as_dtype(value) -> np.dtype:
    """A ``numpy.dtype`` from a dtype, a type (``np.float32``, ``float``), or a name (``'bfloat16'`` too)."""
    if value is None:
        raise ArgumentError("a dtype is needed here, not None")
    try:
        return _dtype_of(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{value!r} is not a dtype of raynd; use a name such as 'float32', 'int64', 'bool' or "
                            "'bfloat16'") from None


@cache
def dtype_name(dtype) -> str:
    """``dtype.name``, which NumPy makes anew (3 us) each time."""
    return dtype.name


def broadcast(*shapes) -> tuple:
    """The shape that ``shapes`` broadcast to (NumPy's rule)."""
    result = shapes[0]
    for shape in shapes[1:]:
        if shape != result:
            result = _broadcast_two(result, shape)
    return result


@lru_cache(maxsize=4096)
def _broadcast_two(a, b):
    if len(a) < len(b):
        a = (1,) * (len(b) - len(a)) + a
    elif len(b) < len(a):
        b = (1,) * (len(a) - len(b)) + b
    out = []
    for m, n in zip(a, b):
        if m != n and m != 1 and n != 1:
            raise ShapeError(f"operands could not be broadcast together with shapes {a} and {b}")
        out.append(n if m == 1 else m)
    return tuple(out)


def is_float(dtype) -> bool:
    """Whether ``dtype`` is a floating type (bfloat16 included)."""
    return dtype.kind == "f" or dtype == bfloat16


def same_kind_cast(source, target) -> bool:
    """Whether a result of ``source`` may be written into an array of ``target``: NumPy's 'same_kind' rule, and bools
    only into bools (MXNet wants the very same dtype)."""
    if source.kind == "b" or target.kind == "b":
        return source == target
    if is_float(source) and is_float(target):
        return True
    if source == bfloat16 or target == bfloat16:
        return source != bfloat16
    return np.can_cast(source, target, "same_kind")


_FLOAT_RANK = {np.dtype("float16"): 1, bfloat16: 1, np.dtype("float32"): 2, np.dtype("float64"): 3}


@lru_cache(maxsize=1024)
def promote(a, b) -> np.dtype:
    """The dtype of an arithmetic result of two arrays, as MXNet: a float beats any integer and keeps its width
    (``float16 + int64`` is float16); two floats give the wider; two integers follow NumPy."""
    if a == b:
        return a
    fa, fb = is_float(a), is_float(b)
    if fa and fb:
        if _FLOAT_RANK[a] == _FLOAT_RANK[b]:              # float16 with bfloat16
            return np.dtype("float32")
        return a if _FLOAT_RANK[a] > _FLOAT_RANK[b] else b
    if fa or fb:
        return a if fa else b
    return np.promote_types(a, b)


def promote_scalar(dtype, scalar_type) -> np.dtype:
    """The dtype of an array of ``dtype`` with a Python scalar of ``scalar_type``.

    A scalar never widens an array of its own kind; a float scalar turns an integer or bool array into float64, an
    int or bool scalar turns a bool array into int64 (as in MXNet).
    """
    if scalar_type is not float:
        return np.dtype("int64") if dtype.kind == "b" else dtype
    return dtype if is_float(dtype) or dtype.kind == "c" else np.dtype("float64")


def normalize_axis(axis, ndim, name="axis") -> int:
    """``axis`` in ``[0, ndim)``; raises :class:`IndexOutOfBounds` (NumPy's AxisError is an IndexError too)."""
    try:
        index = axis.__index__()
    except AttributeError:
        raise ArgumentError(f"{name} must be an integer, not {axis!r}") from None
    if not -ndim <= index < ndim:
        raise AxisError(f"{name} {index} is out of bounds for array of dimension {ndim}")
    return index % ndim if ndim else 0


class AxisError(IndexOutOfBounds, ValueError):
    """An axis lies outside the array's dimensions; both an IndexError and a ValueError, like NumPy's."""


def normalize_axes(axis, ndim) -> tuple:
    """Sorted tuple of distinct axes from None (all), an int or a sequence."""
    if axis is None:
        return tuple(range(ndim))
    if isinstance(axis, (int, np.integer)):
        return (normalize_axis(axis, ndim),)
    axes = tuple(normalize_axis(a, ndim) for a in axis)
    if len(set(axes)) != len(axes):
        raise ShapeError(f"duplicate value in axis {axis}")
    return tuple(sorted(axes))


def contiguous_range(shape, offset, index):
    """Where basic ``index`` (a tuple of ints and step-1 slices, no more than ``shape`` has axes) selects a
    C-contiguous range of a C-contiguous array at ``offset``: ``(offset, shape)``, else None."""
    strides = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    strides.reverse()
    out, started = [], False                 # `started`: an axis longer than 1 was kept, so all below must be whole
    for axis, n in enumerate(shape):
        item = index[axis] if axis < len(index) else slice(None)
        if isinstance(item, slice):
            start, stop, stride = item.indices(n)
            length = max(0, stop - start)
            if stride != 1 or (started and length != n):
                return None
            offset += start * strides[axis]
            out.append(length)
            started = started or length != 1
        else:
            if started:
                return None
            offset += item * strides[axis]
    return offset, tuple(out)
