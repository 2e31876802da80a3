"""Element-wise kernels on large NumPy arrays: in blocks, whose temporaries stay in the cache, and on threads."""
from __future__ import annotations

import numpy

from ..spec import ArraySpec
from .parallel import run_chunks, threads

_BLOCK = 1 << 17             # elements of which a kernel of several passes makes its temporaries
_UFUNC_BLOCK = 1 << 18       # a single pass has none: its blocks only share it among threads


def in_blocks(xp, function, in_specs, out_spec):
    """``function``, element-wise in arrays of one shape (and in scalars), for arrays of these specs: in blocks where
    that is faster, else as it is."""
    ufunc = isinstance(function, numpy.ufunc)
    arrays = [isinstance(s, ArraySpec) and s.shape != () for s in in_specs]
    if xp.__name__ != "numpy" or out_spec.size < 2 * (_UFUNC_BLOCK if ufunc else _BLOCK) \
            or any(a and s.shape != out_spec.shape for a, s in zip(arrays, in_specs)):
        return function
    dtypes = {s.dtype for s in in_specs if isinstance(s, ArraySpec)}
    if ufunc and not (len(dtypes) == 1 and (out_spec.dtype in dtypes or out_spec.dtype == bool)):
        ufunc = False                                    # with out= it might compute in another dtype
    return _ufunc_in_blocks(function, out_spec) if ufunc else _in_blocks(function, arrays, out_spec)


def _bounds(size, step):
    return [(i, min(i + step, size)) for i in range(0, size, step)]


def _in_blocks(function, arrays, out_spec):
    bounds = _bounds(out_spec.size, _BLOCK)

    def run(*inputs):
        result = numpy.empty(out_spec.shape, out_spec.dtype)
        flat = result.reshape(-1)
        inputs = [x.reshape(-1) if a else x for x, a in zip(inputs, arrays)]

        def block(start, stop):
            flat[start:stop] = function(*[x[start:stop] if a else x for x, a in zip(inputs, arrays)])
        run_chunks(numpy, bounds, lambda: block)
        return result
    return run


def _ufunc_in_blocks(function, out_spec):
    bounds = _bounds(out_spec.size, _UFUNC_BLOCK)

    def run(*inputs):
        if threads() == 1:
            return function(*inputs)
        result = numpy.empty(out_spec.shape, out_spec.dtype)
        flat = result.reshape(-1)
        inputs = [x.reshape(-1) if getattr(x, "ndim", 0) else x for x in inputs]

        def block(start, stop):
            function(*[x[start:stop] if getattr(x, "ndim", 0) else x for x in inputs], out=flat[start:stop])
        run_chunks(numpy, bounds, lambda: block)
        return result
    return run


def select(xp, condition, a, b):
    """``xp.where`` of a bool array and of arrays or scalars, of which at least one is an array and sets the dtype.

    NumPy's branches at each element, which takes several times as long when the condition varies; masks do not.
    """
    dtype = a.dtype if getattr(a, "ndim", 0) else b.dtype
    if xp.__name__ != "numpy" or condition.size < 1024 or dtype.kind not in "biuf" or dtype.itemsize > 8:
        return xp.where(condition, a, b)
    bits = f"i{dtype.itemsize}"
    mask = xp.negative(condition.view("int8"), dtype=bits)            # all bits set where the condition holds
    a, b = (xp.asarray(x, dtype).view(bits) for x in (a, b))
    if not b.ndim and not b:
        return (a & mask).view(dtype)
    result = a ^ b
    result = xp.bitwise_and(result, mask, out=result if result.shape == mask.shape else None)
    return xp.bitwise_xor(result, b, out=result).view(dtype)
