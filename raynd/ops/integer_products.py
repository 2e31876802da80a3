"""Matrix products and convolutions of 8-bit integers, exact, on the units that multiply floats.

NumPy multiplies integer matrices one element at a time, BLAS float32 ones a hundred times as fast. A float32 holds
every integer up to 2**24, so a sum whose terms' absolute values add up to no more is exact: 1024 products of int8 with
int8, 514 of uint8 with int8. Longer sums are taken in blocks of so many terms, which are added as int32.
"""
from __future__ import annotations

import math

from .convolution_kernels import conv

_LARGEST = {"int8": 128, "uint8": 255}


def exact_terms(a, b) -> int:
    """How many products of the dtypes ``a`` and ``b`` a float32 sum holds exactly, in any order of summation."""
    return (1 << 24) // (_LARGEST[a.name] * _LARGEST[b.name])


def product(xp, a, b):
    """``a @ b.T`` for a (m, k) and b (n, k) of int8 or uint8: int32 (m, n), which wraps around as int32 sums do."""
    terms, k = exact_terms(a.dtype, b.dtype), a.shape[1]
    result = None
    for start in range(0, max(k, 1), terms):
        part = xp.matmul(a[:, start:start + terms].astype("float32"),
                         b[:, start:start + terms].astype("float32").T).astype("int32")
        if result is None:
            result = part
        else:
            result += part
    return result


def convolution(xp, x, w, stride, dilate, pad, groups):
    """The cross-correlation of x (N, C, sizes...) with w (O, C / groups, kernel...), int8 or uint8, in int32."""
    terms, channels, taps = exact_terms(x.dtype, w.dtype), w.shape[1], math.prod(w.shape[2:])
    geometry = stride, dilate, pad
    if channels * taps <= terms:                 # the kernel computes integers in float32
        return conv(xp, x, w, *geometry, groups).astype("int32")
    if groups > 1 or taps > terms:
        return conv(xp, x.astype("float64"), w.astype("float64"), *geometry, groups).astype("int32")
    step, result = terms // taps, None
    for start in range(0, channels, step):
        part = conv(xp, x[:, start:start + step], w[:, start:start + step], *geometry, 1).astype("int32")
        if result is None:
            result = part
        else:
            result += part
    return result
