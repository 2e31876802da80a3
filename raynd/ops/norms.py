"""Norms over axes, with gradients that are zero where a norm is."""
from __future__ import annotations

from ..spec import spec
from .decompositions import lapack, real
from .reduction import expanded_shape, reduced_shape
from .registry import operator


def _infer_vector_norm(x, ord, axis, keepdims):
    return spec(reduced_shape(x.shape, axis, keepdims), real(x))


def _vector_norm(xp, x, ord, axis, keepdims):
    """The norm of order ``ord`` (a number, 'inf' or '-inf') over ``axis`` (None, an int or a tuple of ints)."""
    kept = x
    x = lapack(xp, x)
    if ord == 2:
        return xp.sqrt((x * x).sum(axis=axis, keepdims=keepdims))
    if ord == 0:
        return (kept != 0).sum(axis=axis, keepdims=keepdims)
    x = xp.abs(x)
    if ord == "inf":
        return x.max(axis=axis, keepdims=keepdims) if x.size else x.sum(axis=axis, keepdims=keepdims)
    if ord == "-inf":
        return x.min(axis=axis, keepdims=keepdims)
    if ord == 1:
        return x.sum(axis=axis, keepdims=keepdims)
    return (x ** ord).sum(axis=axis, keepdims=keepdims) ** (1 / ord)


def _vector_norm_vjp(F, dy, x, y, ord, axis, keepdims):
    x, y = x[0], y[0]
    if ord == 0:
        return None
    full = expanded_shape(x.shape, axis)
    dy, y = F.reshape(dy, newshape=full), F.reshape(y, newshape=full)
    if ord == 1:
        return F.sign(x) * dy
    if ord in ("inf", "-inf"):
        return F.sign(x) * F.cast(F.equal(F.absolute(x), y), dtype=dy.dtype) * dy
    ratio = x * F.reciprocal0(y)
    return ratio * dy if ord == 2 else F.signed_power(ratio, exponent=ord - 1) * dy


operator("vector_norm", "x, ord=2, axis=None, keepdims=False", inputs="x", infer=_infer_vector_norm,
         kernel=_vector_norm, vjp=_vector_norm_vjp)


def _signed_power(xp, x, exponent, even):
    """sign(x) |x|**exponent, or |x|**exponent if ``even``; 0 where x is 0."""
    size = xp.abs(x)
    zero = size == 0
    power = xp.where(zero, 0, xp.where(zero, xp.ones((), x.dtype), size) ** exponent)
    return power if even else xp.sign(x) * power


operator("signed_power", "x, exponent, even=False", inputs="x", infer=lambda x, exponent, even: x, kernel=_signed_power,
         vjp=lambda F, dy, x, y, exponent, even: dy * exponent * F.signed_power(x[0], exponent=exponent - 1,
                                                                               even=not even))
