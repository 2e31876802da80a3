"""Comparisons of whole arrays, choices, and other functions that need Python around the operators."""
from __future__ import annotations

import numpy

from ..dispatch import F, Proxy, invoke_into
from ..errors import ArgumentError, IndexOutOfBounds, ShapeError
from ..ndarray.array import ndarray
from ..ndarray.bindings import call, check_options
from ..ops import registry
from .creation import array, asarray

__all__ = [
    "allclose", "array_equal", "array_equiv", "clip", "divmod", "interp", "isrealobj", "iscomplexobj", "isscalar",
    "may_share_memory", "nan_to_num", "ndim", "real", "set_printoptions", "shape", "shares_memory", "size", "where",
]

_WHERE, _CLIP, _NAN_TO_NUM = registry.get("where"), registry.get("clip"), registry.get("nan_to_num")
_NUMBERS = frozenset((int, float, bool))
_OPERANDS = _NUMBERS | {ndarray}


def _operand(x):
    """``x`` as an operand: lists and tuples become arrays."""
    return array(x) if isinstance(x, (list, tuple)) else x


# -- choices -------------------------------------------------------------------------------------------------------


def where(condition, x=None, y=None):
    """Elements of ``x`` where ``condition`` holds, else of ``y``; all three may be arrays or numbers and broadcast.

    With ``condition`` alone: the indices where it is not zero, as ``nonzero`` gives them.
    """
    if isinstance(condition, Proxy) and type(x) in _OPERANDS and type(y) in _OPERANDS:
        return call(_WHERE, (condition, x, y), (), None)
    if x is None and y is None:
        from . import nonzero
        return nonzero(asarray(condition))
    if x is None or y is None:
        raise ShapeError("where: give both x and y, or neither")
    condition, x, y = _operand(condition), _operand(x), _operand(y)
    if not any(isinstance(v, (Proxy, numpy.ndarray)) for v in (condition, x, y)):
        condition = array(condition, dtype="bool")
    return call(_WHERE, (condition, x, y), (), None)


def clip(a, a_min, a_max, out=None):
    """``a`` with values below ``a_min`` replaced by it and above ``a_max`` by that; a bound may be None, a number, or
    an array that broadcasts. The dtype is that of ``a``."""
    if isinstance(a, Proxy) and type(a_min) in _NUMBERS and type(a_max) in _NUMBERS:
        return call(_CLIP, (a, a_min, a_max), (), out)
    if a_min is None and a_max is None:
        raise ShapeError("array_clip: must set either max or min")
    if isinstance(a, (int, float, numpy.generic)) and not any(isinstance(b, Proxy) for b in (a_min, a_max)):
        return numpy.clip(a, a_min, a_max)
    a, a_min, a_max = [_operand(v) for v in (a, a_min, a_max)]
    if not any(isinstance(b, (Proxy, numpy.ndarray)) for b in (a_min, a_max)):
        return call(_CLIP, (a, a_min, a_max), (), out)
    result = a
    if a_min is not None:
        result = F.maximum(result, asarray(a_min) if isinstance(a_min, numpy.ndarray) else a_min)
    if a_max is not None:
        result = F.minimum(result, asarray(a_max) if isinstance(a_max, numpy.ndarray) else a_max)
    result = result.astype(a.dtype, copy=False)
    if out is None:
        return result
    invoke_into(registry.get("copy"), (result,), (), (out,), same_kind=True)
    return out


def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None, **kwargs):
    """``x`` with nan replaced by ``nan`` and infinities by ``posinf`` and ``neginf`` (None: the largest and smallest
    number of the dtype). ``copy=False`` writes into ``x``."""
    check_options(_NAN_TO_NUM, kwargs)
    if isinstance(x, (int, float, numpy.generic)):
        return numpy.nan_to_num(x, copy, nan, posinf, neginf)
    x = asarray(x) if not isinstance(x, Proxy) else x
    return call(_NAN_TO_NUM, (x,), {"nan": nan, "posinf": posinf, "neginf": neginf}, None if copy else x)


def divmod(x1, x2):
    """``(x1 // x2, x1 % x2)``, element-wise."""
    if not any(isinstance(x, (Proxy, numpy.ndarray)) for x in (x1, x2)):
        return numpy.divmod(x1, x2)
    return F.floor_divide(x1, x2), F.mod(x1, x2)


def interp(x, xp, fp, left=None, right=None, period=None):
    """Piecewise linear interpolation at ``x`` through the points (``xp``, ``fp``), in float64.

    ``left``, ``right``: values outside of ``xp`` (by default the first and last of ``fp``); ``period``: of ``xp``,
    which then need not be increasing.
    """
    x = x if isinstance(x, Proxy) else array(x, dtype="float64")
    return F.interp(x, asarray(xp, device=x.device), asarray(fp, device=x.device), left=left, right=right,
                    period=period)


# -- whole arrays --------------------------------------------------------------------------------------------------


def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether ``isclose(a, b)`` holds for all elements, as a bool; waits for the result."""
    a, b = _operand(a), _operand(b)
    if not any(isinstance(x, (Proxy, numpy.ndarray)) for x in (a, b)):
        return numpy.allclose(a, b, rtol, atol, equal_nan)
    return bool(call(registry.get("allclose"), (a, b), {"rtol": rtol, "atol": atol, "equal_nan": bool(equal_nan)},
                     None).item())


def _equal(a, b, equal_nan):
    return bool(call(registry.get("all_equal"), (a, b), {"equal_nan": bool(equal_nan)}, None).item())


def array_equal(a1, a2, equal_nan=False):
    """Whether two arrays have the same shape and elements, as a bool; ``equal_nan``: nan equals nan."""
    a1, a2 = asarray(a1), asarray(a2)
    return a1.shape == a2.shape and _equal(a1, a2, equal_nan)


def array_equiv(a1, a2):
    """Whether two arrays broadcast to each other with equal elements, as a bool."""
    a1, a2 = asarray(a1), asarray(a2)
    try:
        return _equal(a1, a2, False)
    except ShapeError:
        return False


def shares_memory(a, b, max_work=None):
    """Whether two arrays are views of overlapping parts of one buffer."""
    return may_share_memory(a, b, max_work)


def may_share_memory(a, b, max_work=None):
    """Whether two arrays are views of overlapping parts of one buffer. ``max_work`` must be None: the answer is
    always exact."""
    if max_work is not None:
        raise ArgumentError("max_work is not needed here: the answer is always exact")
    if not isinstance(a, Proxy) or not isinstance(b, Proxy):
        raise ArgumentError("two arrays are needed")
    if a._buffer is not b._buffer or not a.size or not b.size:
        return False
    starts = [x._offset or 0 for x in (a, b)]
    return starts[0] < starts[1] + b.size and starts[1] < starts[0] + a.size


# -- shapes and kinds ----------------------------------------------------------------------------------------------


def shape(a):
    """The shape of an array, or of what ``numpy.shape`` takes."""
    return a.shape if isinstance(a, Proxy) else numpy.shape(a)


def ndim(a):
    """The number of axes."""
    return a.ndim if isinstance(a, Proxy) else numpy.ndim(a)


def size(a, axis=None):
    """The number of elements, or of those along ``axis``."""
    if axis is None:
        return a.size if isinstance(a, Proxy) else numpy.size(a)
    dims = shape(a)
    if not -len(dims) <= axis < len(dims):
        raise IndexOutOfBounds(f"axis {axis} is out of bounds for array of dimension {len(dims)}")
    return dims[axis]


def real(val):
    """The real part: real arrays as they are."""
    val = asarray(val) if not isinstance(val, Proxy) else val
    return val if val._spec.dtype.kind != "c" else F.real(val)


def iscomplexobj(x):
    """Whether the dtype is complex."""
    return x._spec.dtype.kind == "c" if isinstance(x, Proxy) else numpy.iscomplexobj(x)


def isrealobj(x):
    """Whether the dtype is not complex."""
    return not iscomplexobj(x)


def isscalar(element):
    """Whether ``element`` is a number and no array."""
    return numpy.isscalar(element)


def set_printoptions(precision=None, threshold=None, **kwarg):
    """How arrays print; the options of ``numpy.set_printoptions``, which this calls."""
    if not all(isinstance(v, int) or v is None for v in (precision, threshold)):
        raise ArgumentError("precision and threshold must be integers")
    numpy.set_printoptions(precision=precision, threshold=threshold, **kwarg)


