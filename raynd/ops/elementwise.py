"""Element-wise arithmetic, and the two makers of element-wise records. One line a record.

``unary`` and ``binary`` make records whose kernel is a ufunc of ``xp`` (or a function built from ufuncs). The dtype
rules are MXNet's: floats keep their type, and so do integers where the result is whole; other results of integers are
the default float (float32), of 8-bit integers and bools float16. ``comparison.py`` and ``mathematics.py`` hold the
rest of the family.
"""
from __future__ import annotations

import math
from functools import partial

import numpy

from ..errors import ArgumentError
from ..spec import ArraySpec, as_dtype, broadcast, is_float, promote, promote_scalar, spec
from .blocks import in_blocks
from .registry import operator

BOOL = numpy.dtype("bool")
FLOAT16, FLOAT32, FLOAT64 = numpy.dtype("float16"), numpy.dtype("float32"), numpy.dtype("float64")


def default_float():
    """float32, or float64 under ``set_np(dtype=True)``."""
    return DEFAULTS["float"]


DEFAULTS = {"float": FLOAT32}        # a mutable cell: util.set_np changes it and clears the caches


def operand_shape(s):
    """Shape of an operand that may be a scalar type."""
    return s.shape if isinstance(s, ArraySpec) else ()


def promoted(a, b):
    """Arithmetic dtype of two operands, either of which may be a Python-scalar type."""
    if not isinstance(a, ArraySpec):
        return promote_scalar(b.dtype, a)
    if not isinstance(b, ArraySpec):
        return promote_scalar(a.dtype, b)
    return promote(a.dtype, b.dtype)


def float_of(dtype):
    """The dtype of a real function of ``dtype``: floats keep theirs, 8-bit integers and bools give float16, other
    integers the default float."""
    if is_float(dtype) or dtype.kind == "c":
        return dtype
    return FLOAT16 if dtype.itemsize == 1 else default_float()


def _cast_to(dtype, function):
    def call(*arrays):
        return function(*[a.astype(dtype) if hasattr(a, "dtype") and a.dtype != dtype else a for a in arrays])
    return call


def _wrapping(xp, dtype, function):
    """``function`` with Python integers that do not fit ``dtype`` wrapped around, as an array's elements are."""
    def call(*arrays):
        try:
            return function(*arrays)
        except OverflowError:
            return function(*[a if hasattr(a, "dtype") else xp.asarray(a).astype(dtype) for a in arrays])
    return call


def _ufunc(xp, ufunc):
    return getattr(xp, ufunc) if isinstance(ufunc, str) else partial(ufunc, xp)


def bind_elementwise(ufunc, compute):
    """A ``bind`` that runs ``ufunc`` in the dtype ``compute(in_specs, out_spec)`` (None: as the inputs come)."""
    def bind(xp, in_specs, out_specs, attrs):
        function = _ufunc(xp, ufunc)
        if attrs:
            function = partial(function, **attrs)
        dtype = compute(in_specs, out_specs[0])
        if dtype is not None and any(isinstance(s, ArraySpec) and s.dtype != dtype for s in in_specs):
            function = _cast_to(dtype, function)
        if dtype is not None and dtype.kind in "iu" and int in in_specs:
            function = _wrapping(xp, dtype, function)
        return in_blocks(xp, function, in_specs, out_specs[0])
    return bind


# -- unary -------------------------------------------------------------------------------------------------------

def infer_same(x, **_):
    """The input's own spec."""
    return x


def infer_float(x, **_):
    """See :func:`float_of`."""
    dtype = float_of(x.dtype)
    return x if dtype == x.dtype else spec(x.shape, dtype)


def infer_whole(x, **_):
    """Floats and integers keep their dtype, bools give float16."""
    return spec(x.shape, FLOAT16) if x.dtype == BOOL else x


def infer_bool(x, **_):
    """A bool array of the input's shape."""
    return spec(x.shape, BOOL)


def infer_number(x, **_):
    """The input's own spec; bools are refused."""
    if x.dtype == BOOL:
        raise ArgumentError("not supported for bool; convert with astype, or use the logical functions")
    return x


_RESULTS = {"same": infer_same, "float": infer_float, "whole": infer_whole, "bool": infer_bool,
            "number": infer_number}


def unary(name, ufunc=None, vjp=None, result="float", np=True, method=None, nd=None, npx=None, doc=None, **fields):
    """Register a one-array element-wise operator. ``vjp(F, dy, x, y)`` gets the array and the result themselves.

    ``result``: 'float' (see :func:`float_of`), 'same' dtype, 'number' (the same, bools refused), 'whole' (the same,
    but float16 for bools), 'bool', or an ``infer`` function.
    """
    compute = (lambda ins, out: out.dtype) if result in ("float", "whole") else (lambda ins, out: None)
    array = "data" if npx and not np else "x"
    return operator(name, fields.pop("signature", f"{array}, out=None, **kwargs"), inputs=array,
                    infer=_RESULTS.get(result, result), bind=bind_elementwise(ufunc or name, compute),
                    vjp=None if vjp is None else (lambda F, dy, x, y, **attrs: vjp(F, dy, x[0], y[0], **attrs)),
                    np=name if np is True else np, npx=npx, nd=name if nd is None else nd, method=method,
                    doc=doc or f"Element-wise {name} of an array of any shape.", **fields)


def gradient(name, kernel, signature, vjp):
    """Register ``{name}_grad``, an element-wise function of ``dy`` and of ``x`` or ``y`` (see ``signature``), which has
    the dtype of ``dy``. In one pass, which is faster than a ``vjp`` made of several operators."""
    inputs = [n for n in signature.split(", ") if n in ("dy", "x", "y")]
    return operator(f"{name}_grad", signature, inputs=inputs, infer=lambda dy, *_, **attrs: dy, vjp=vjp,
                    bind=bind_elementwise(kernel, lambda ins, out: None))


unary("negative", vjp=lambda F, dy, x, y: -dy, result="number")
unary("positive", lambda xp, x: x.copy(), vjp=lambda F, dy, x, y: dy, result="same", nd=())
unary("absolute", vjp=lambda F, dy, x, y: dy * F.sign(x), result="same", np="absolute, abs", nd="abs", method="abs")
unary("fabs", "absolute", vjp=lambda F, dy, x, y: dy * F.sign(x), result="same", np="fabs", nd=())
unary("sign", result="number", method="sign")
unary("square", vjp=lambda F, dy, x, y: dy * x * 2, result="same", method="square")
unary("reciprocal", vjp=lambda F, dy, x, y: -dy * y * y, result="number", method="reciprocal")

# -- binary ------------------------------------------------------------------------------------------------------


def operand_shapes(a, b):
    """The broadcast shape of two operands."""
    return broadcast(operand_shape(a), operand_shape(b))


def infer_arithmetic(a, b):
    """Broadcast shape and promoted dtype."""
    return spec(operand_shapes(a, b), promoted(a, b))


def infer_subtract(a, b):
    """As arithmetic; two bool arrays are refused."""
    result = infer_arithmetic(a, b)
    if result.dtype == BOOL:
        raise ArgumentError("not supported for two bool arrays; use logical_xor, or convert with astype")
    return result


def infer_true_divide(a, b):
    """As arithmetic, but integers give the default float, also with a scalar."""
    for one, other in ((a, b), (b, a)):
        if not isinstance(other, ArraySpec) and not is_float(one.dtype):
            return spec(one.shape, default_float())
    dtype = promoted(a, b)
    return spec(operand_shapes(a, b), dtype if is_float(dtype) else default_float())


def infer_float_arithmetic(a, b):
    """As arithmetic, but integers give the default float."""
    dtype = promoted(a, b)
    return spec(operand_shapes(a, b), dtype if is_float(dtype) else default_float())


def infer_compare(a, b):
    """A bool array of the broadcast shape."""
    return spec(operand_shapes(a, b), BOOL)


def infer_integers(a, b):
    """As arithmetic for integers and bools; floats are refused, and a scalar takes the array's dtype."""
    for s in (a, b):
        if s is float or (isinstance(s, ArraySpec) and s.dtype.kind not in "biu"):
            raise ArgumentError("only integers and bools are supported, not floats; convert with astype")
    dtype = b.dtype if not isinstance(a, ArraySpec) else a.dtype if not isinstance(b, ArraySpec) else \
        promote(a.dtype, b.dtype)
    return spec(operand_shapes(a, b), dtype)


def binary(name, ufunc=None, vjp=None, infer=infer_arithmetic, np=True, nd=None, npx=None, method=None, doc=None,
           signature="x1, x2, out=None, **kwargs"):
    """Register a two-operand element-wise operator with broadcasting. ``vjp(F, dy, a, b, y)`` returns the gradients
    of both operands in the output's shape; the machinery sums them to the operands' shapes."""
    if infer is infer_compare:
        def compute(ins, out):
            return promoted(*ins)
    else:
        def compute(ins, out):
            return out.dtype
    return operator(name, signature, infer=infer, bind=bind_elementwise(ufunc or name, compute), broadcasts=True,
                    vjp=None if vjp is None else (lambda F, dy, x, y: vjp(F, dy, x[0], x[1], y[0])),
                    np=name if np is True else np, npx=npx, nd=nd, method=method,
                    doc=doc or f"Element-wise {name} of two arrays or scalars, with broadcasting.")


def array_like(F, operand, like):
    """An operand of a vjp rule as an array of ``like``'s shape, where it may be a scalar."""
    return operand if hasattr(operand, "_spec") else F.ones_like(like) * operand


binary("add", vjp=lambda F, dy, a, b, y: (dy, dy))
binary("subtract", vjp=lambda F, dy, a, b, y: (dy, -dy), infer=infer_subtract)
binary("multiply", vjp=lambda F, dy, a, b, y: (dy * b, dy * a))
binary("true_divide", vjp=lambda F, dy, a, b, y: (dy / b, -dy * y / b), infer=infer_true_divide,
       np="true_divide, divide")
binary("floor_divide")


def _remainder_vjp(rounding):
    """Of a remainder whose quotient is rounded by operator ``rounding``; between integers it is 0, as in MXNet."""
    def vjp(F, dy, a, b, y):
        if not is_float(getattr(y, "_spec", y).dtype):           # a spec where the output was not kept
            return None, None
        return dy, -dy * getattr(F, rounding)(F.true_divide(a, b))
    return vjp


binary("mod", vjp=_remainder_vjp("floor"), infer=infer_subtract, np="mod, remainder")
binary("fmod", vjp=_remainder_vjp("trunc"))

# An extremum's gradient goes to the operand that was chosen, and to the first where both are equal.
for _name in ("maximum", "minimum", "fmax", "fmin"):
    binary(_name, vjp=lambda F, dy, a, b, y: (F.where(F.equal(y, a), dy, 0.0), F.where(F.equal(y, a), 0.0, dy)))

binary("hypot", vjp=lambda F, dy, a, b, y: (dy * a / y, dy * b / y), infer=infer_float_arithmetic)
binary("arctan2", infer=infer_float_arithmetic, np="arctan2, atan2",
       vjp=lambda F, dy, a, b, y: (dy * b / F.square(F.hypot(a, b)), -dy * a / F.square(F.hypot(a, b))))
binary("logaddexp", infer=infer_float_arithmetic,
       vjp=lambda F, dy, a, b, y: (dy * F.exp(F.subtract(a, y)), dy * F.exp(F.subtract(b, y))))
binary("copysign", vjp=lambda F, dy, a, b, y: (dy * F.sign(array_like(F, a, y)) * F.sign(y), None))
binary("heaviside", infer=infer_float_arithmetic,
       vjp=lambda F, dy, a, b, y: (None, F.where(F.equal(array_like(F, a, y), 0), dy, 0.0)))
binary("ldexp", lambda xp, a, b: a * 2.0 ** b,
       vjp=lambda F, dy, a, b, y: (dy * F.power(2.0, array_like(F, b, y)), dy * y * math.log(2)),
       doc="``x1 * 2 ** x2``, element-wise.")


def _infer_divisor(a, b):
    result = infer_integers(a, b)
    if result.dtype == BOOL:
        raise ArgumentError("bools have no divisors; convert with astype")
    return result


binary("lcm", infer=_infer_divisor)
binary("gcd", infer=_infer_divisor)

# -- powers ------------------------------------------------------------------------------------------------------


def power_kernel(xp, a, b):
    """``a ** b``. The exponents that occur most are made of cheaper operations; an integer to a negative integer
    power is 0, or +-1 for bases +-1."""
    if not hasattr(b, "dtype") and a.dtype.kind == "f":
        if b == 2:
            return xp.square(a)
        if b == 0.5:
            return xp.sqrt(a)
        if b == 1:
            return a
        if b == -1:
            return xp.reciprocal(a)
        if b == 3:
            return a * a * a
    if hasattr(a, "dtype") and a.dtype.kind in "iu" or type(a) is int and b.dtype.kind in "iu":
        if not hasattr(b, "dtype"):
            if type(b) is int and b < 0:
                return _negative_power(xp, a, xp.asarray(b))
        elif b.dtype.kind == "i":
            return xp.where(b < 0, _negative_power(xp, a, b), xp.power(a, xp.maximum(b, 0)))
    return xp.power(a, b)


def _negative_power(xp, a, b):
    """Integers ``a`` to negative powers ``b``, rounded towards zero."""
    return xp.where(a == 1, 1, xp.where(a == -1, 1 - 2 * (b % 2), 0))


def _falling(n):
    """Coefficients, lowest first, of ``b (b - 1) ... (b - n + 1)``."""
    coefficients = [1]
    for k in range(n):
        coefficients = [(coefficients[i - 1] if i else 0) - k * (coefficients[i] if i < len(coefficients) else 0)
                        for i in range(len(coefficients) + 1)]
    return coefficients


def _polynomial(xp, coefficients, b):
    """Horner's scheme."""
    value = 0
    for c in reversed(coefficients):
        value = value * b + c
    return value if hasattr(value, "dtype") else float(value)


def power_partial_kernel(xp, a, b, n, m):
    """The derivative of ``a ** b``, ``n`` times by ``a`` and ``m`` times by ``b``.

    By Leibniz's rule a ** (b - n) times the sum over k of C(m, k) p_k(b) log(a) ** (m - k), where p_k is the k-th
    derivative of the falling factorial of order n. Where a is 0 and the value has the limit 0, it is 0.
    """
    if (n, m) == (1, 0) and not hasattr(b, "dtype"):
        if b == 2:
            return a + a
        if b == 1:
            return xp.ones_like(a)
        return power_kernel(xp, a, b - 1) * b
    coefficients, log, total = _falling(n), None, 0.0
    if m:
        log = xp.log(a) if hasattr(a, "dtype") else xp.log(xp.asarray(float(a)))
    for k in range(min(m, n) + 1):
        term = math.comb(m, k) * _polynomial(xp, coefficients, b)
        total = total + (term * log ** (m - k) if m > k else term)
        coefficients = [i * c for i, c in enumerate(coefficients)][1:]
    result = xp.power(a, b - n) * total
    vanishing = total == 0 if m == 0 else (a == 0) & (b - n > 0)
    return xp.where(vanishing, 0, result)


binary("power", power_kernel, vjp=lambda F, dy, a, b, y: (dy * F.power_partial(a, b, n=1, m=0),
                                                          dy * F.power_partial(a, b, n=0, m=1)), np="power, pow")
operator("power_partial", "x1, x2, n, m", inputs="x1, x2", broadcasts=True,
         infer=lambda a, b, n, m: infer_float_arithmetic(a, b),
         bind=bind_elementwise(power_partial_kernel, lambda ins, out: out.dtype),
         vjp=lambda F, dy, x, y, n, m: (dy * F.power_partial(x[0], x[1], n=n + 1, m=m),
                                        dy * F.power_partial(x[0], x[1], n=n, m=m + 1)))
operator("float_power", "x1, x2, out=None, **kwargs", infer=lambda a, b: spec(operand_shapes(a, b), FLOAT64),
         bind=bind_elementwise(lambda xp, a, b: xp.power(a, b), lambda ins, out: FLOAT64), broadcasts=True,
         vjp=lambda F, dy, x, y: (dy * F.power_partial(x[0], x[1], n=1, m=0),
                                  dy * F.power_partial(x[0], x[1], n=0, m=1)),
         np="float_power", doc="``x1 ** x2`` in float64, whatever the operands' dtypes.")

# -- casts -------------------------------------------------------------------------------------------------------

operator("cast", "x, dtype", inputs="x", infer=lambda x, dtype: spec(x.shape, as_dtype(dtype)),
         kernel=lambda xp, x, dtype: x.astype(dtype),
         vjp=lambda F, dy, x, y, dtype: F.cast(dy, dtype=x[0].dtype) if is_float(as_dtype(dtype)) else None,
         nd="cast, Cast", doc="The array in another dtype (a copy).")
