"""The rules of the legacy face (``mx.nd``), where they differ from NumPy's:

* a result has the dtype of its array: comparisons give 0 and 1 of it, integers stay integers (a real scalar is
  truncated first), ``exp`` of integers truncates;
* a reduction over all axes has the shape (1,);
* ``reshape`` knows the codes 0, -1, -2, -3 and -4;
* with NumPy shapes off (``npx.reset_np()``), shapes without axes or without elements are refused.

Functions here take arrays of either face and give arrays of the face of the first.
"""
from __future__ import annotations

import math
import operator as python_operator

import numpy

from .. import autograd, config
from ..dispatch import F, PlaceholderScalar, Proxy, invoke, invoke_into, scope
from ..errors import ArgumentError, MXNetError, ShapeError
from ..ops import registry
from ..spec import as_shape, is_float, normalize_axes, normalize_axis, spec
from . import indexing
from .bindings import call

NUMBERS = (int, float, bool, numpy.integer, numpy.floating, numpy.bool_, PlaceholderScalar)


def nowhere(function, kwargs):
    """Refuse unknown keywords; ``name``, which names a symbol, means nothing to arrays."""
    kwargs.pop("name", None)
    if kwargs:
        raise ArgumentError(f"{function}() got an unexpected keyword argument {next(iter(kwargs))!r}")


def legacy_shape(shape):
    """``shape`` as a tuple; refused if it has no axes or no elements while NumPy shapes are off."""
    shape = as_shape(shape)
    if not config.np_shape() and (not shape or 0 in shape):
        raise MXNetError(f"shape {shape}: without NumPy shapes an array must have at least one axis and one element; "
                         "call npx.set_np() for NumPy's shapes")
    return shape


def give(result, out):
    """``result``, or ``out`` with the result written into it."""
    if out is None:
        return result
    if not isinstance(out, Proxy):
        raise ArgumentError(f"out= must be an array, not {type(out).__name__}")
    if out._spec.shape != result._spec.shape:
        raise ShapeError(f"out= has shape {out._spec.shape}, the result has shape {result._spec.shape}")
    indexing.overwrite(out, result)
    return out


def need_array(x, function):
    """``x``, which must be an array."""
    if not isinstance(x, Proxy):
        raise ArgumentError(f"{function}: an NDArray is needed, not {type(x).__name__}")
    return x


def as_dtype_of(result, x):
    """``result`` in the dtype of ``x``; bools stay what they became, except by comparisons (see :func:`compare`)."""
    dtype = x._spec.dtype
    return result if result._spec.dtype == dtype or dtype.kind == "b" else F.cast(result, dtype=dtype.name)


# -- element-wise --------------------------------------------------------------------------------------------------


def unary(record, data, out=None, **attrs):
    """An element-wise operator whose result keeps the dtype of ``data``."""
    op = registry.get(record)
    attrs = {**op.defaults, **attrs} if op.attrs else ()
    if out is not None and data._spec.dtype.kind == "f":
        invoke_into(op, (data,), attrs, (out,))
        return out
    return give(as_dtype_of(invoke(op, (need_array(data, record),), attrs), data), out)


def _operands(lhs, rhs):
    """Both operands, a real scalar truncated if it meets an integer array."""
    for a, b in ((lhs, rhs), (rhs, lhs)):
        if isinstance(a, Proxy) and isinstance(b, float) and a._spec.dtype.kind in "iu":
            if not math.isfinite(b):
                raise ShapeError(f"an integer array cannot be combined with {b}")
            return (lhs, int(rhs)) if a is lhs else (int(lhs), rhs)
    return lhs, rhs


def arithmetic(record, lhs, rhs, out=None):
    """An arithmetic operator of two arrays, or of an array and a number."""
    left, right = _operands(lhs, rhs)
    like = left if isinstance(left, Proxy) else right
    if not isinstance(like, Proxy):
        return _PYTHON[record](lhs, rhs)
    op = registry.get(record)
    if isinstance(out, Proxy) and out._spec.dtype == like._spec.dtype and is_float(like._spec.dtype):
        return call(op, (left, right), (), out)
    result = call(op, (left, right), (), None)
    if out is not None:
        return give(F.cast(result, dtype=need_array(out, record)._spec.dtype.name), out)
    if isinstance(left, Proxy) and isinstance(right, Proxy) and left._spec.dtype != right._spec.dtype:
        return result
    return as_dtype_of(result, like)


def compare(record, lhs, rhs, out=None):
    """A comparison or a logical operator: 0 and 1 in the dtype of the (first) array."""
    like = lhs if isinstance(lhs, Proxy) else rhs
    if not isinstance(like, Proxy):
        return _PYTHON[record](lhs, rhs)
    if record not in _LOGICAL:
        lhs, rhs = _operands(lhs, rhs)
    result = call(registry.get(record), (lhs, rhs), (), None)
    if out is None and like._spec.dtype.kind == "b":
        return result
    return give(F.cast(result, dtype=like._spec.dtype.name), out)


_LOGICAL = frozenset(("logical_and", "logical_or", "logical_xor"))
_PYTHON = {
    "add": python_operator.add, "subtract": python_operator.sub, "multiply": python_operator.mul,
    "true_divide": python_operator.truediv, "mod": python_operator.mod, "power": python_operator.pow,
    "maximum": max, "minimum": min, "hypot": math.hypot, "floor_divide": python_operator.floordiv,
    "equal": python_operator.eq, "not_equal": python_operator.ne, "less": python_operator.lt,
    "less_equal": python_operator.le, "greater": python_operator.gt, "greater_equal": python_operator.ge,
    "logical_and": lambda a, b: int(bool(a) and bool(b)), "logical_or": lambda a, b: int(bool(a) or bool(b)),
    "logical_xor": lambda a, b: int(bool(a) != bool(b)),
}

# -- reductions ----------------------------------------------------------------------------------------------------


def reduced_axes(x, axis, exclude):
    """The axes to reduce, a sorted tuple: None and () mean all, ``exclude`` all others."""
    axes = normalize_axes(None if axis is None or axis == () or axis == [] else axis, x._spec.ndim)
    if exclude:
        if axis is None or axis == ():
            return ()
        return tuple(i for i in range(x._spec.ndim) if i not in axes)
    return axes


def at_least_1d(x):
    """A zero-dim result of a reduction as one of shape (1,)."""
    return F.reshape(x, newshape=(1,)) if not x._spec.shape else x


def reduce(record, data, axis=None, keepdims=False, exclude=False, out=None, **attrs):
    """A reduction; its result keeps the dtype and has at least one axis."""
    need_array(data, record)
    axes = reduced_axes(data, axis, exclude)
    if exclude and not axes:
        return give(F.copy(data), out)
    result = getattr(F, record)(data, axis=axes if data._spec.ndim else None, keepdims=bool(keepdims), **attrs)
    return give(at_least_1d(as_dtype_of(result, data)), out)


def arg_reduce(record, data, axis=None, keepdims=False, out=None):
    """argmax or argmin: indices as float32."""
    need_array(data, record)
    if axis is None:
        result = getattr(F, record)(F.reshape(data, newshape=(data._spec.size,)), axis=0, keepdims=False)
        result = F.reshape(result, newshape=(1,) * data._spec.ndim if keepdims else (1,))
    else:
        result = getattr(F, record)(data, axis=int(axis), keepdims=bool(keepdims))
    return give(at_least_1d(F.cast(result, dtype="float32")), out)


def norm(data, ord=2, axis=None, out_dtype=None, keepdims=False, out=None, name=None):
    """The L1 or L2 norm over ``axis`` (all by default)."""
    if ord not in (1, 2):
        raise ArgumentError(f"norm: ord must be 1 or 2, not {ord!r}")
    need_array(data, "norm")
    axes = reduced_axes(data, axis, False)
    if out_dtype is not None:
        data = data.astype(out_dtype)
    if ord == 1:
        result = F.sum(F.absolute(data), axis=axes, keepdims=bool(keepdims))
    else:
        result = F.sqrt(F.sum(F.square(data), axis=axes, keepdims=bool(keepdims)))
    return give(at_least_1d(as_dtype_of(result, data)), out)


# -- shapes --------------------------------------------------------------------------------------------------------


def coded_shape(shape, codes, reverse=False):
    """The shape that reshape ``codes`` make of ``shape``.

    0 keeps an axis; -1 is inferred; -2 keeps all remaining axes; -3 merges two; -4 splits one into the two sizes
    that follow it, of which one may be -1. With ``reverse`` the codes are matched from the last axis on.
    """
    codes = [int(c) for c in ((codes,) if isinstance(codes, (int, numpy.integer)) else codes)]
    if reverse:
        return tuple(reversed(_match(tuple(reversed(shape)), _reversed_codes(codes))))
    return tuple(_match(shape, codes))


def _reversed_codes(codes):
    """Codes in reverse order; the three of a split stay together, its sizes swapped."""
    groups, i = [], 0
    while i < len(codes):
        if codes[i] == -4:
            if i + 2 >= len(codes):
                raise ShapeError("reshape: -4 must be followed by two sizes")
            groups.append([-4, codes[i + 2], codes[i + 1]])
            i += 3
        else:
            groups.append([codes[i]])
            i += 1
    return [c for group in reversed(groups) for c in group]


def _match(shape, codes):
    result, at, i, unknown = [], 0, 0, None
    size = math.prod(shape)

    def source(count=1):
        if at + count > len(shape):
            raise ShapeError(f"reshape: the codes {tuple(codes)} ask for more axes than the shape {shape} has")
        return shape[at:at + count]

    while i < len(codes):
        code = codes[i]
        if code > 0:
            result.append(code)
            at += 1
        elif code == 0:
            result.extend(source())
            at += 1
        elif code == -1:
            if unknown is not None:
                raise ShapeError("reshape: only one size may be -1")
            unknown = len(result)
            result.append(1)
            at += 1
        elif code == -2:
            result.extend(shape[at:])
            at = len(shape)
        elif code == -3:
            a, b = source(2)
            result.append(a * b)
            at += 2
        elif code == -4:
            if i + 2 >= len(codes):
                raise ShapeError("reshape: -4 must be followed by two sizes")
            (n,), (a, b) = source(), codes[i + 1:i + 3]
            if a == -1 and b > 0:
                a = n // b
            elif b == -1 and a > 0:
                b = n // a
            if a * b != n:
                raise ShapeError(f"reshape: {n} does not split into {codes[i + 1]} and {codes[i + 2]}")
            result.extend((a, b))
            at += 1
            i += 2
        else:
            raise ShapeError(f"reshape: {code} is not a code; there are 0, -1, -2, -3 and -4")
        i += 1
    if unknown is not None:
        rest = math.prod(result)
        if rest == 0 or size % rest:
            raise ShapeError(f"reshape: cannot infer -1 of {tuple(codes)} for the shape {shape}")
        result[unknown] = size // rest
    if math.prod(result) != size:
        raise ShapeError(f"reshape: target shape {tuple(result)} must have the same size as the current shape {shape}")
    return result


def reshaped(x, shape):
    """``x`` in another shape: the same memory, or an operator where the tape must see it."""
    if scope().recording and x._entry is not None:
        return F.reshape(x, newshape=shape)
    return type(x)(x._buffer, spec(shape, x._spec.dtype), x._offset or 0)


def reshape_method(self, *shape, **kwargs):
    """The array in another shape, sharing memory; the shape may hold codes (see :func:`coded_shape`)."""
    shape = kwargs.pop("shape", shape)
    reverse = kwargs.pop("reverse", False)
    nowhere("reshape", kwargs)
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = shape[0]
    return reshaped(self, coded_shape(self._spec.shape, shape, reverse))


def _reshaping(function):
    """A method with ``inplace=``: the result of ``function``, or a reshape of this memory to its shape."""
    def method(self, *args, inplace=False, **kwargs):
        result = function(self, *args, **kwargs)
        return reshaped(self, result._spec.shape) if inplace else result
    method.__name__, method.__doc__ = function.__name__, f"{function.__doc__} ``inplace``: share this array's memory."
    return method


def flatten(self):
    """The array as a matrix that keeps the first axis."""
    return F.reshape(self, newshape=(self._spec.shape[0], math.prod(self._spec.shape[1:])))


def expand_dims(self, axis):
    """A new axis of length 1 at ``axis``."""
    shape = self._spec.shape
    axis = normalize_axis(axis, len(shape) + 1)
    return F.reshape(self, newshape=(*shape[:axis], 1, *shape[axis:]))


def squeeze(self, axis=None):
    """Without the axes of length 1 (all, or those given); at least one axis stays."""
    shape = self._spec.shape
    axes = [i for i, n in enumerate(shape) if n == 1] if axis is None else normalize_axes(axis, len(shape))
    for a in axes:
        if shape[a] != 1:
            raise ShapeError(f"squeeze: axis {a} of shape {shape} is not of length 1")
    return F.reshape(self, newshape=tuple(n for i, n in enumerate(shape) if i not in axes) or (1,))


def _basic_indexing_slice_is_contiguous(slc_key, shape):
    """Whether a tuple of slices selects a contiguous region of an array of ``shape``, so that it gives a view."""
    strides = numpy.cumprod((1, *reversed(shape[1:])))[::-1]
    return bool(numpy.lib.stride_tricks.as_strided(numpy.empty(1, "int8"), shape, strides)[slc_key].flags.c_contiguous)


def drop_grad(self):
    """Undo ``attach_grad``: give the gradient's memory back and take this array off the tape."""
    autograd.attach(self, None, "null")
    self._grad = None


def tostype(self, stype):
    """This array in the storage type ``stype``, of which only 'default' is available."""
    if stype != "default":
        raise MXNetError(f"tostype: stype={stype!r} is not available here; arrays are dense")
    return self


METHODS = {
    "drop_grad": drop_grad, "tostype": tostype, "reshape": reshape_method, "flatten": _reshaping(flatten),
    "expand_dims": _reshaping(expand_dims), "squeeze": _reshaping(squeeze),
    "_basic_indexing_slice_is_contiguous": staticmethod(_basic_indexing_slice_is_contiguous)}

# -- operators -----------------------------------------------------------------------------------------------------


def _operator(record, function, reflected=False):
    """A binary operator method: straight to the dispatcher where legacy and NumPy rules agree."""
    fast = frozenset((int, float)) if function is arithmetic else frozenset()

    def method(self, other):
        dtype = self._spec.dtype
        if function is arithmetic and is_float(dtype) and (type(other) in fast or isinstance(other, Proxy)):
            return invoke(registry.get(record), (other, self) if reflected else (self, other))
        if not isinstance(other, (Proxy, *NUMBERS, numpy.ndarray)):
            return NotImplemented
        return function(record, other, self) if reflected else function(record, self, other)
    return method


def _inplace(record):
    """An in-place operator method; the result is cast to the array's dtype."""
    def method(self, other):
        if not isinstance(other, (Proxy, *NUMBERS, numpy.ndarray)):
            return NotImplemented
        arithmetic(record, self, other, out=self)
        return self
    return method


def operators():
    """The operator methods of the legacy face, by name."""
    methods = {}
    for symbol, record in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("truediv", "true_divide"),
                           ("mod", "mod"), ("pow", "power"), ("floordiv", "floor_divide")):
        methods[f"__{symbol}__"] = _operator(record, arithmetic)
        methods[f"__r{symbol}__"] = _operator(record, arithmetic, reflected=True)
        methods[f"__i{symbol}__"] = _inplace(record)
    for symbol, record in (("lt", "less"), ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal")):
        methods[f"__{symbol}__"] = _operator(record, compare)

    def equal(self, other):
        return False if _incomparable(other) else compare("equal", self, other)

    def not_equal(self, other):
        return True if _incomparable(other) else compare("not_equal", self, other)
    methods["__eq__"], methods["__ne__"] = equal, not_equal
    return methods


def _incomparable(other):
    return not isinstance(other, (Proxy, *NUMBERS, numpy.ndarray))
