"""Element-wise operators whose results are bools or integers, and choices by a condition."""
from __future__ import annotations

import numpy

from ..errors import ArgumentError
from ..spec import ArraySpec, broadcast, spec
from .blocks import in_blocks, select
from .elementwise import BOOL, binary, default_float, infer_compare, infer_integers, operand_shape, promoted, unary
from .registry import operator

binary("equal", infer=infer_compare)
binary("not_equal", infer=infer_compare)
binary("less", infer=infer_compare)
binary("less_equal", infer=infer_compare)
binary("greater", infer=infer_compare)
binary("greater_equal", infer=infer_compare)
binary("logical_and", infer=infer_compare)
binary("logical_or", infer=infer_compare)
binary("logical_xor", infer=infer_compare)
unary("logical_not", result="bool")

# -- bits ----------------------------------------------------------------------------------------------------------


def _infer_shift(a, b):
    result = infer_integers(a, b)
    if result.dtype == BOOL:
        raise ArgumentError("bools cannot be shifted; convert with astype")
    return result


def _infer_invert(x):
    if x.dtype.kind not in "biu":
        raise ArgumentError(f"only integers and bools have bits to invert, not {x.dtype}")
    return x


binary("bitwise_and", infer=infer_integers)
binary("bitwise_or", infer=infer_integers)
binary("bitwise_xor", infer=infer_integers)
binary("left_shift", infer=_infer_shift, np="left_shift, bitwise_left_shift",
       signature="x1, x2, out=None")
binary("right_shift", infer=_infer_shift, np="right_shift, bitwise_right_shift",
       signature="x1, x2, out=None")
unary("invert", result=_infer_invert, np="invert, bitwise_not, bitwise_invert", nd=())

# -- tests of single values ----------------------------------------------------------------------------------------


def _tester(ufunc):
    """``ufunc`` for floats; integers are never infinite or nan."""
    def kernel(xp, x):
        if x.dtype.kind in "biu":
            return xp.full(x.shape, ufunc == "isfinite")
        return getattr(xp, ufunc)(x)
    return kernel


def _signed_infinity(sign):
    return lambda xp, x: x == sign * xp.inf


for _name in ("isnan", "isinf", "isfinite"):
    unary(_name, _tester(_name), result="bool", nd=())
unary("isposinf", _signed_infinity(1), result="bool", nd=())
unary("isneginf", _signed_infinity(-1), result="bool", nd=())
unary("signbit", lambda xp, x: xp.signbit(x) if x.dtype.kind == "f" else x < 0, result="bool", nd=())

# -- closeness -----------------------------------------------------------------------------------------------------


def _infer_close(a, b, **_):
    return spec(broadcast(operand_shape(a), operand_shape(b)), BOOL)


def _isclose(xp, a, b, rtol, atol, equal_nan):
    a, b = [xp.asarray(v) if not hasattr(v, "dtype") else v.astype("float32") if v.dtype.kind == "V" else v
            for v in (a, b)]
    return xp.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


_CLOSE = "a, b, rtol=1e-05, atol=1e-08, equal_nan=False"
operator("isclose", _CLOSE, infer=_infer_close, kernel=_isclose, np="isclose",
         doc="Where ``abs(a - b) <= atol + rtol * abs(b)``, with broadcasting; ``equal_nan``: nan equals nan.")
operator("allclose", _CLOSE, infer=lambda a, b, **_: (_infer_close(a, b), spec((), BOOL))[1],
         kernel=lambda xp, a, b, **options: xp.all(_isclose(xp, a, b, **options)),
         doc="Whether ``isclose`` holds everywhere, as a zero-dim array.")


def _all_equal(xp, a, b, equal_nan):
    same = a == b
    if equal_nan:
        same = same | ((a != a) & (b != b))
    return xp.all(same)


operator("all_equal", "a, b, equal_nan=False", infer=lambda a, b, equal_nan: (_infer_close(a, b), spec((), BOOL))[1],
         kernel=_all_equal, doc="Whether two arrays, broadcast, are equal everywhere, as a zero-dim array.")

# -- choices -------------------------------------------------------------------------------------------------------


def _infer_where(condition, x, y):
    shape = broadcast(operand_shape(condition), operand_shape(x), operand_shape(y))
    if isinstance(x, ArraySpec) or isinstance(y, ArraySpec):
        return spec(shape, promoted(x, y))
    return spec(shape, default_float())


def _bind_where(xp, in_specs, out_specs, attrs):
    dtype = out_specs[0].dtype

    def where(condition, x, y):
        if not hasattr(condition, "dtype"):
            condition = xp.asarray(bool(condition))
        elif condition.dtype != bool:
            condition = condition != 0
        arrays = [v for v in (x, y) if getattr(v, "ndim", 0)]
        if condition.ndim and arrays and all(v.dtype == dtype for v in arrays):
            return select(xp, condition, x, y)
        return xp.where(condition, x, y)
    return in_blocks(xp, where, in_specs, out_specs[0])


operator("where", "condition, x, y", infer=_infer_where, bind=_bind_where, broadcasts=True,
         vjp=lambda F, dy, x, y: (None, F.where(x[0], dy, 0.0), F.where(x[0], 0.0, dy)),
         doc="Elements of ``x`` where ``condition`` is not zero, else of ``y``; all three broadcast.")


def _bound(a, value):
    """A bound of ``clip`` for ``a``: a whole number beyond an integer dtype is its end, as no value lies there."""
    if a.dtype.kind not in "iu" or not isinstance(value, int):
        return value
    info = numpy.iinfo(a.dtype)
    return min(max(value, info.min), info.max)


def _clip(xp, a, a_min=None, a_max=None):
    if a_min is not None:
        a = xp.maximum(a, _bound(a, a_min))
    return a if a_max is None else xp.minimum(a, _bound(a, a_max))


def _infer_clip(a, a_min, a_max):
    if isinstance(a_min, ArraySpec) or isinstance(a_max, ArraySpec):
        raise ArgumentError("the bounds of this operator are numbers; use maximum and minimum for arrays")
    return a


operator("clip", "a, a_min=None, a_max=None, out=None", inputs="a, a_min, a_max", optional=("a_min", "a_max"),
         infer=_infer_clip, kernel=_clip,
         vjp=lambda F, dy, x, y: (F.where(F.equal(x[0], y[0]), dy, 0.0), None, None),
         doc="Values below ``a_min`` replaced by it, above ``a_max`` by that; bounds are numbers or None.")


def _nan_to_num(xp, x, nan, posinf, neginf):
    if x.dtype.kind != "f":
        return x
    info = xp.finfo(x.dtype)
    result = xp.where(x != x, xp.asarray(nan).astype(x.dtype), x)
    result = xp.where(x == xp.inf, xp.asarray(info.max if posinf is None else posinf).astype(x.dtype), result)
    return xp.where(x == -xp.inf, xp.asarray(info.min if neginf is None else neginf).astype(x.dtype), result)


operator("nan_to_num", "x, nan=0.0, posinf=None, neginf=None", inputs="x", infer=lambda x, **_: x, kernel=_nan_to_num,
         vjp=lambda F, dy, x, y, **_: F.where(F.isfinite(x[0]), dy, 0.0),
         doc="nan and infinities replaced by numbers (by default 0 and the dtype's limits).")


def _interp(xp, x, points, values, left, right, period):
    return xp.interp(x.astype("float64"), points.astype("float64"), values.astype("float64"), left, right, period)


operator("interp", "x, xp, fp, left=None, right=None, period=None", inputs="x, xp, fp",
         infer=lambda x, xp, fp, **_: spec(x.shape, "float64"), kernel=_interp,
         doc="Piecewise linear interpolation in float64.")
