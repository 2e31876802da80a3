"""Element-wise operators: arithmetic, comparison, mathematics. One line a record.

``unary`` and ``binary`` make records whose kernel is a ufunc of ``xp`` (or a function built from ufuncs). The dtype
rules are MXNet's: floats keep their type; integers become the default float (float32) where the result is not whole;
comparisons give bool.
"""
from __future__ import annotations

from functools import partial

import numpy

from ..errors import ArgumentError
from ..spec import ArraySpec, as_dtype, broadcast, is_float, promote, promote_scalar, spec
from .registry import operator

BOOL = numpy.dtype("bool")
FLOAT32 = numpy.dtype("float32")


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


def _cast_to(dtype, function):
    def call(*arrays):
        return function(*[a.astype(dtype) if hasattr(a, "dtype") and a.dtype != dtype else a for a in arrays])
    return call


def _ufunc(xp, ufunc):
    return getattr(xp, ufunc) if isinstance(ufunc, str) else partial(ufunc, xp)


def bind_elementwise(ufunc, compute):
    """A ``bind`` that runs ``ufunc`` in the dtype ``compute(in_specs, out_spec)`` (None: as the inputs come)."""
    def bind(xp, in_specs, out_specs, attrs):
        function = _ufunc(xp, ufunc)
        dtype = compute(in_specs, out_specs[0])
        if dtype is None or all(s.dtype == dtype for s in in_specs if isinstance(s, ArraySpec)):
            return partial(function, **attrs) if attrs else function
        return _cast_to(dtype, partial(function, **attrs) if attrs else function)
    return bind


# -- unary -------------------------------------------------------------------------------------------------------

def infer_same(x, **_):
    """The input's own spec."""
    return x


def infer_float(x, **_):
    """Floats keep their dtype, integers and bools become the default float."""
    return x if is_float(x.dtype) or x.dtype.kind == "c" else spec(x.shape, default_float())


def infer_bool(x, **_):
    """A bool array of the input's shape."""
    return spec(x.shape, BOOL)


_RESULTS = {"same": infer_same, "float": infer_float, "bool": infer_bool}


def unary(name, ufunc=None, vjp=None, result="float", np=True, method=None, nd=None, npx=None, doc=None, **fields):
    """Register a one-array element-wise operator. ``vjp(F, dy, x, y)`` gets the array and the result themselves.

    ``result``: 'same' dtype, 'float' (integers are promoted), 'bool', or an ``infer`` function.
    """
    compute = (lambda ins, out: out.dtype) if result == "float" else (lambda ins, out: None)
    return operator(name, fields.pop("signature", "x, out=None"), inputs="x", infer=_RESULTS.get(result, result),
                    bind=bind_elementwise(ufunc or name, compute),
                    vjp=None if vjp is None else (lambda F, dy, x, y, **attrs: vjp(F, dy, x[0], y[0], **attrs)),
                    np=name if np is True else np, npx=npx, nd=name if nd is None else nd, method=method,
                    doc=doc or f"Element-wise {name} of an array of any shape.", **fields)


def _negative(x, **_):
    if x.dtype == BOOL:
        raise ArgumentError("negative is not supported for bool; use logical_not")
    return x


unary("negative", vjp=lambda F, dy, x, y: -dy, result=_negative)
unary("positive", vjp=lambda F, dy, x, y: dy, result="same")
unary("absolute", vjp=lambda F, dy, x, y: dy * F.sign(x), result="same", np="absolute, abs", nd="abs", method="abs")
unary("fabs", vjp=lambda F, dy, x, y: dy * F.sign(x), np="fabs", nd=())
unary("sign", vjp=lambda F, dy, x, y: F.zeros_like(x), result="same", method="sign")
unary("exp", vjp=lambda F, dy, x, y: dy * y, method="exp")
unary("expm1", vjp=lambda F, dy, x, y: dy * (y + 1), method="expm1")
unary("log", vjp=lambda F, dy, x, y: dy / x, method="log")
unary("log1p", vjp=lambda F, dy, x, y: dy / (x + 1), method="log1p")
unary("sqrt", vjp=lambda F, dy, x, y: dy * 0.5 / y, method="sqrt")
unary("square", vjp=lambda F, dy, x, y: dy * x * 2, result="same", method="square")
unary("tanh", vjp=lambda F, dy, x, y: F.tanh_grad(dy, y), method="tanh")
unary("sin", vjp=lambda F, dy, x, y: dy * F.cos(x), method="sin")
unary("cos", vjp=lambda F, dy, x, y: -dy * F.sin(x), method="cos")


def _tanh_grad(xp, dy, y):
    """Gradient of tanh from its output: ``dy * (1 - y * y)``, in two temporaries fewer."""
    result = y * y
    xp.subtract(1, result, out=result)
    xp.multiply(result, dy, out=result)
    return result


operator("tanh_grad", "dy, y", infer=lambda dy, y: y, kernel=_tanh_grad,
         vjp=lambda F, g, x, out: (g * (1 - x[1] * x[1]), g * x[0] * x[1] * -2))

# -- binary ------------------------------------------------------------------------------------------------------


def infer_arithmetic(a, b):
    """Broadcast shape and promoted dtype."""
    return spec(broadcast(operand_shape(a), operand_shape(b)), promoted(a, b))


def infer_true_divide(a, b):
    """As arithmetic, but integers give the default float."""
    dtype = promoted(a, b)
    return spec(broadcast(operand_shape(a), operand_shape(b)), dtype if is_float(dtype) else default_float())


def infer_compare(a, b):
    """A bool array of the broadcast shape."""
    return spec(broadcast(operand_shape(a), operand_shape(b)), BOOL)


def binary(name, ufunc=None, vjp=None, infer=infer_arithmetic, np=True, nd=None, npx=None, method=None, doc=None):
    """Register a two-operand element-wise operator with broadcasting. ``vjp(F, dy, a, b, y)`` returns the gradients
    of both operands in the output's shape; the machinery sums them to the operands' shapes."""
    if infer is infer_compare:
        def compute(ins, out):
            return promoted(*ins)
    else:
        def compute(ins, out):
            return out.dtype
    return operator(name, "x1, x2, out=None", infer=infer, bind=bind_elementwise(ufunc or name, compute), broadcasts=True,
                    vjp=None if vjp is None else (lambda F, dy, x, y: vjp(F, dy, x[0], x[1], y[0])),
                    np=name if np is True else np, npx=npx, nd=nd, method=method,
                    doc=doc or f"Element-wise {name} of two arrays or scalars, with broadcasting.")


binary("add", vjp=lambda F, dy, a, b, y: (dy, dy))
binary("subtract", vjp=lambda F, dy, a, b, y: (dy, -dy))
binary("multiply", vjp=lambda F, dy, a, b, y: (dy * b, dy * a))
binary("true_divide", vjp=lambda F, dy, a, b, y: (dy / b, -dy * y / b), infer=infer_true_divide,
       np="true_divide, divide")
binary("equal", infer=infer_compare)
binary("not_equal", infer=infer_compare)
binary("less", infer=infer_compare)
binary("less_equal", infer=infer_compare)
binary("greater", infer=infer_compare)
binary("greater_equal", infer=infer_compare)

# -- casts -------------------------------------------------------------------------------------------------------

operator("cast", "x, dtype", inputs="x", infer=lambda x, dtype: spec(x.shape, as_dtype(dtype)),
         kernel=lambda xp, x, dtype: x.astype(dtype),
         vjp=lambda F, dy, x, y, dtype: F.cast(dy, dtype=x[0].dtype) if is_float(as_dtype(dtype)) else None,
         nd="cast, Cast", doc="The array in another dtype (a copy).")
